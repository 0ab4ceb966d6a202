"""Names that make a cell say something else when it is run again: `python tools/rerun.py [NAME]`.

A reader runs all cells, goes back, and runs one again. Where a later cell has given another value
to a name that the cell reads, the result is silently wrong. This lists such names; it runs nothing.
What a cell reads from others, in its functions too, is what ruff calls undefined in the cell alone
(F821). It does not see a change inside an object, such as an overwritten tensor.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
DEFINITION = (ast.FunctionDef, ast.ClassDef)
OWN_SCOPE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def names_read(sources: list[str]) -> list[set[str]]:
    """The names that each cell alone leaves undefined."""
    with TemporaryDirectory() as folder:
        for place, source in enumerate(sources):
            Path(folder, f"{place}.py").write_text(source, encoding="utf-8")
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache"]
        command += ["--select", "F821", "--output-format", "json", folder]
        said = subprocess.run(command, capture_output=True, text=True).stdout
    found = [set() for _ in sources]
    for complaint in json.loads(said):
        found[int(Path(complaint["filename"]).stem)].add(complaint["message"].split("`")[1])
    return found


def names_given(node: ast.AST, statement: ast.stmt | None = None) -> Iterator[tuple[str, str]]:
    """Names that get a value in the notebook's own scope, and the statement that gives it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, DEFINITION):
            yield child.name, ast.unparse(child)
        elif not isinstance(child, OWN_SCOPE):
            inner = child if isinstance(child, ast.stmt) else statement
            first_line = ast.unparse(inner).splitlines()[0]  # of a loop without what is in it
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                yield child.id, first_line
            elif isinstance(child, ast.alias):
                yield (child.asname or child.name).split(".")[0], first_line
            yield from names_given(child, inner)


def changed_names(sources: list[str]) -> list[tuple[int, str, int]]:
    """(cell, name that it reads, the later cell that changes it)."""
    given = [list(names_given(ast.parse(source))) for source in sources]
    found = []
    for place, names in enumerate(names_read(sources)):
        for name in sorted(names):
            values = {}  # cell -> the statements that give the name a value
            for cell, pairs in enumerate(given):
                if statements := [statement for other, statement in pairs if other == name]:
                    values[cell] = statements
            before = [cell for cell in values if cell < place]
            if not before:
                continue  # not a name of the notebook
            last = max(values)
            if last >= place and values[last] != values[before[-1]]:
                found.append((place, name, last))
    return found


def complaints(path: Path) -> list[str]:
    """Sentences about a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    return [
        f"{path.name}: {code[place]['id']} reads {name}, which {code[later]['id']} changes"
        for place, name, later in changed_names(["".join(cell["source"]) for cell in code])
    ]


if __name__ == "__main__":
    folder = ROOT / "notebooks"
    for path in sorted([*folder.glob("[0-9]*.ipynb"), *folder.glob("deeper/*.ipynb")]):
        if path.name.startswith(tuple(sys.argv[1:]) or ""):
            print(*(f"{line}\n" for line in complaints(path)), sep="", end="")
