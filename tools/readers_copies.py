"""Make a reader's own copies of the notebooks in my_notebooks/: `lab.py` runs this.

A copy has the cells of its original without outputs, so that it gives no prediction away; in the
solutions, code is hidden until it is clicked. What
else is in notebooks/ (records, pictures) is linked, where that is possible. The copies are as deep
in the repository as their originals, so the same links work. Git and ruff ignore them, and
`make test` never reads them.

What is missing is made, and nothing is overwritten. A copy whose original has changed is named.
"""

import contextlib
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORIGINALS, COPIES = "notebooks", "my_notebooks"
# In the folder of the copies: for each, the digest of its original when it was copied.
MEMORY = ".copied-from.json"
LINK_TO_A_HEADING = re.compile(r"\]\((?P<path>[^)\s#]+\.ipynb)#(?P<heading>[^)\s]+)\)")


def unexecuted(original: Path) -> str:
    """The text of a notebook without what running or saving it adds.

    Raises:
        ValueError: it is not a notebook in format 4.
    """
    cells = []
    try:
        for cell in json.loads(original.read_text(encoding="utf-8"))["cells"]:
            tags = cell["metadata"].get("tags")
            metadata = {"tags": tags} if tags else {}
            kept = {"cell_type": cell["cell_type"], "id": cell["id"], "metadata": metadata}
            if cell["cell_type"] == "code":
                kept |= {"execution_count": None, "outputs": []}
            # a source is stored as a string or as a list of lines
            cells.append(kept | {"source": "".join(cell["source"])})
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{original} is not a notebook in format 4 ({error!r})") from error
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def readers_copy(original: Path) -> str:
    """The text of a reader's copy: its links show the right cell, and solutions are hidden."""
    notebook = json.loads(unexecuted(original))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = with_links_to_cells(cell["source"], original.parent)
        elif original.parent.name == "solutions":
            # Otherwise the neighbors of the solution that was asked for could be read, too.
            cell["metadata"]["jupyter"] = {"source_hidden": True}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def with_links_to_cells(text: str, folder: Path) -> str:
    """A cell's text, in which links to headings of other notebooks name the cells of these.

    JupyterLab opens a notebook at its top, if a link has the heading and the notebook is not open
    yet (its issue 15207). It scrolls to a cell. GitHub and the site know headings alone.
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
    """Make the copies that are missing.

    Returns:
        The copies that were made, and those whose originals have changed since.

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
            # Windows lets administrators and developers alone make links. There the lab reads the
            # records in notebooks/; copies of them would stay when the records change.
            with contextlib.suppress(OSError):
                copy.symlink_to(target, original.is_dir())
    write(memory, json.dumps(remembered, indent=1, sort_keys=True) + "\n")
    return made, stale


def entries(folder: Path) -> Iterator[Path]:
    """Notebooks, files, and folders without a notebook in them, which are linked as a whole."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__")):
            continue  # checkpoints and caches
        if path.is_dir() and any(path.rglob("*.ipynb")):
            yield from entries(path)
        else:
            yield path


def write(path: Path, text: str) -> None:
    """All of it or nothing: a half-written copy would count as the reader's work."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def main() -> None:
    """Make the copies and say what was done."""
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
