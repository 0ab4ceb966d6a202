"""Copy the notebooks to my_notebooks/ for the reader: `lab.py` runs this.

Copies have no outputs, so they don't reveal answers to predictions. *Three edits* is stored with
its answers, and copied without them. In solutions, code is hidden until it is clicked. The other
files of notebooks/ (records, pictures) are linked if possible. Copies are as deep in the
repository as their originals, so the same links work. Git, ruff and `make test` ignore them.

Nothing is overwritten. Copies whose originals have changed are listed.
"""

import ast
import contextlib
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORIGINALS, COPIES = "notebooks", "my_notebooks"
# A file in the folder of the copies: for each, the hash of its original when it was copied.
MEMORY = ".copied-from.json"
ANSWER = "answer"  # the tag of a cell whose functions are edited by the reader
LINK_TO_A_HEADING = re.compile(r"\]\((?P<path>[^)\s#]+\.ipynb)#(?P<heading>[^)\s]+)\)")


def copy_of(original: Path, text_of: Callable[[str], str]) -> dict:
    """A notebook without outputs, without answers, and without what saving adds.

    Args:
        text_of: makes the text of a cell of Markdown, whose links lead from another place.

    Raises:
        ValueError: it is not a notebook in format 4.
    """
    cells = []
    try:
        for cell in json.loads(original.read_text(encoding="utf-8"))["cells"]:
            tags = cell["metadata"].get("tags")
            metadata = {"tags": tags} if tags else {}
            kept = {"cell_type": cell["cell_type"], "id": cell["id"], "metadata": metadata}
            source = "".join(cell["source"])  # It may be a string or a list of lines.
            if cell["cell_type"] == "code":
                kept |= {"execution_count": None, "outputs": []}
            elif cell["cell_type"] == "markdown":
                source = text_of(source)
            cells.append(kept | {"source": source})
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{original} is not a notebook in format 4 ({error!r})") from error
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": unanswered(cells), "metadata": metadata}
    return notebook | {"nbformat": 4, "nbformat_minor": 5}


def as_text(notebook: dict) -> str:
    """The text of a notebook's file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def unanswered(cells: list[dict]) -> list[dict]:
    """The cells, in which answers are replaced by what they are edits of.

    A function in a cell with the tag `ANSWER` becomes as the last cell before it has it, after the
    answers up to there. So the answers are stored once, with their verdicts.
    """
    tags = [cell["metadata"].get("tags", []) for cell in cells]
    if not any(ANSWER in names for names in tags):
        return cells
    before, asked = {}, []
    for cell, names in zip(cells, tags, strict=True):
        functions = functions_of(cell["source"]) if cell["cell_type"] == "code" else {}
        source = cell["source"]
        for name, text in functions.items() if ANSWER in names else ():
            source = source.replace(text, before[name])
        before |= functions
        asked.append(cell | {"source": source})
    return asked


def functions_of(source: str) -> dict[str, str]:
    """The functions that a cell defines: name -> text, with decorators."""
    lines, found = source.splitlines(), {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            first = min(part.lineno for part in (node, *node.decorator_list))
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


def readers_copy(original: Path) -> str:
    """The text of a reader's copy. Its links lead to cells, and solutions are hidden."""
    notebook = copy_of(original, partial(with_links_to_cells, folder=original.parent))
    for cell in notebook["cells"] if original.parent.name == "solutions" else ():
        if cell["cell_type"] == "code":
            # Otherwise, a link to one solution would also show its neighbors.
            cell["metadata"]["jupyter"] = {"source_hidden": True}
    return as_text(notebook)


def with_links_to_cells(text: str, folder: Path) -> str:
    """A cell's text, in which links to headings of other notebooks are replaced by cell ids.

    With a heading, JupyterLab opens a notebook at its top (its issue 15207). With a cell id, it
    scrolls to the cell. GitHub and the site support only headings.
    """

    def to_the_cell(link: re.Match) -> str:
        notebook = folder / link["path"]
        cells = (
            json.loads(notebook.read_text(encoding="utf-8"))["cells"] if notebook.exists() else []
        )
        for cell in cells:
            heading = "".join(cell["source"]).partition("\n")[0].lstrip("# ")
            if cell["cell_type"] == "markdown" and heading.replace(" ", "-") == link["heading"]:
                return f"]({link['path']}#cell-id={cell['id']})"
        return link[0]

    return LINK_TO_A_HEADING.sub(to_the_cell, text)


def make_copies(root: Path = ROOT) -> tuple[list[str], list[str]]:
    """Make the missing copies.

    Returns:
        The new copies, and those whose originals have changed since they were copied.

    Raises:
        ValueError: an original is not a notebook.
    """
    originals, copies = root / ORIGINALS, root / COPIES
    memory = copies / MEMORY
    remembered = json.loads(memory.read_text(encoding="utf-8")) if memory.exists() else {}
    made, stale = [], []
    for original in entries(originals):
        name = original.relative_to(originals).as_posix()
        copy = copies / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if original.suffix == ".ipynb":
            text = readers_copy(original)
            now = hashlib.sha256(text.encode()).hexdigest()[:16]
            if not copy.exists():
                write(copy, text)
                remembered[name] = now
                made.append(name)
            elif remembered.get(name, now) != now:
                stale.append(name)
        elif not (copy.exists() or copy.is_symlink()):
            target = os.path.relpath(original.resolve(), copy.parent.resolve())
            # On Windows, only administrators and developers can create links. Without links, the
            # lab reads the records in notebooks/. Copies of records would become outdated.
            with contextlib.suppress(OSError):
                copy.symlink_to(target, original.is_dir())
    write(memory, json.dumps(remembered, indent=1, sort_keys=True) + "\n")
    return made, stale


def entries(folder: Path) -> Iterator[Path]:
    """Notebooks, other files, and folders without notebooks, which are linked as a whole."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__")):
            continue  # checkpoints and caches
        if path.is_dir() and any(path.rglob("*.ipynb")):
            yield from entries(path)
        else:
            yield path


def write(path: Path, text: str) -> None:
    """Replace a file at once: a half-written copy would count as the reader's work."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def main() -> None:
    """Make the copies, and print what was done."""
    try:
        made, stale = make_copies()
    except PermissionError as error:
        sys.exit(
            f"error: {error.filename} cannot be written. Give {COPIES} to the user who runs this; "
            "docs/install.md says how to run the container as you."
        )
    except ValueError as error:
        sys.exit(f"error: {error}: 'git restore {ORIGINALS}' brings it back.")
    if made:
        number = f"{len(made)} notebook{'s' if len(made) > 1 else ''}"
        print(f"Copied into {COPIES}: {number}, without outputs.")
    if stale:
        print("Changed since they were copied, and left as you have them:", ", ".join(stale) + ".")
        print("Rename or delete your copy and open the lab again to get the new version.")
    if not made and not stale:
        print(f"Your copies in {COPIES} are up to date.")


if __name__ == "__main__":
    main()
