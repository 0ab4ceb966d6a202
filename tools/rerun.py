"""Names that make a cell say something else when it is run again: `python tools/rerun.py [NAME]`.

A reader runs all cells, goes back, and runs one again. Where a later cell has given another value
to a name that the cell reads, the result is silently wrong. This lists such names; it runs nothing.
What a cell reads from others is what ruff calls undefined in the cell alone (F821). It does not see
a change inside an object, such as an overwritten tensor.
"""

import ast
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFINITION = (ast.FunctionDef, ast.ClassDef)
OWN_SCOPE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class Cell:
    """What a cell reads from cells before it, and what it gives to those after it.

    Attributes:
        reads: names that it uses before it gives them a value.
        binds: name -> the statements that give it a value.
        inside: function or class -> the names of the notebook that its body uses when it runs.
    """

    reads: set[str]
    binds: dict[str, list[str]]
    inside: dict[str, set[str]]


def read_cells(sources: list[str]) -> list[Cell]:
    return [_read(*cell) for cell in zip(sources, _undefined(sources), strict=True)]


def _undefined(sources: list[str]) -> list[list[tuple[str, int]]]:
    """The names that each cell alone leaves undefined, with their lines."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{place}.py") for place in range(len(sources))]
        for path, source in zip(paths, sources, strict=True):
            path.write_text(source, encoding="utf-8")
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache"]
        command += ["--select", "F821", "--output-format", "json", folder]
        said = subprocess.run(command, capture_output=True, text=True).stdout
    found = [[] for _ in sources]
    for complaint in json.loads(said):
        name = complaint["message"].split("`")[1]
        found[int(Path(complaint["filename"]).stem)].append((name, complaint["location"]["row"]))
    return found


def _read(source: str, undefined: list[tuple[str, int]]) -> Cell:
    tree = ast.parse(source)
    bodies = list(_bodies(tree))
    cell = Cell(set(), defaultdict(list), defaultdict(set))
    for name, row in undefined:
        owner = next((name for name, rows in bodies if row in rows), None)
        (cell.reads if owner is None else cell.inside[owner]).add(name)
    for name, statement in _bound(tree, None):
        cell.binds[name].append(statement)
        if any(name == owner for owner, _ in bodies):
            cell.inside[name] |= set()
    return cell


def _bodies(tree: ast.Module) -> Iterator[tuple[str, range]]:
    """Functions, the outer ones first, with the lines of their bodies; a method is its class's."""
    for node in ast.walk(tree):
        methods = node.body if isinstance(node, ast.ClassDef) else [node]
        for function in methods:
            if isinstance(function, ast.FunctionDef):
                yield node.name, range(function.body[0].lineno, function.end_lineno + 1)


def _bound(node: ast.AST, statement: ast.stmt | None) -> Iterator[tuple[str, str]]:
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
            yield from _bound(child, inner)


def _everything_read(cell: Cell, place: int, cells: list[Cell]) -> dict[str, str]:
    """name -> '' or the function through which the cell reads it."""
    found = dict.fromkeys(cell.reads, "")
    waiting = [*cell.reads, *cell.inside]
    while waiting:
        name = waiting.pop()
        home = next((c for c in reversed(cells[: place + 1]) if name in c.binds), None)
        if home is None or (home is cell and name not in cell.reads):
            continue  # a function that is made here: whether it is called, its name says
        for inner in home.inside.get(name, ()):
            if inner not in found and not (home is cell and inner in cell.binds):
                found[inner] = name
                waiting.append(inner)
    return found


def changed_names(sources: list[str]) -> list[tuple[int, str, int, str]]:
    """(cell, name, the later cell that changes it, the function through which it is read)."""
    cells, found = read_cells(sources), []
    for place, cell in enumerate(cells):
        for name, through in sorted(_everything_read(cell, place, cells).items()):
            binding = [i for i, c in enumerate(cells) if name in c.binds]
            before = [i for i in binding if i < place]
            if not before or binding[-1] < place:
                continue  # not a name of the notebook, or nothing later changes it
            if cells[binding[-1]].binds[name] != cells[before[-1]].binds[name]:
                found.append((place, name, binding[-1], through))
    return found


def complaints(path: Path) -> list[str]:
    """Sentences about a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    found = []
    for place, name, later, through in changed_names(["".join(cell["source"]) for cell in code]):
        how = f" (through {through})" if through else ""
        changes = f"which {code[later]['id']} changes"
        found.append(f"{path.name}: {code[place]['id']} reads {name}{how}, {changes}")
    return found


def main(arguments: list[str]) -> int:
    folder = ROOT / "notebooks"
    for path in sorted([*folder.glob("[0-9]*.ipynb"), *folder.glob("deeper/*.ipynb")]):
        if not arguments or path.name.startswith(tuple(arguments)):
            print(*(f"{line}\n" for line in complaints(path)), sep="", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
