"""Make a reader's own copies of the notebooks in my_notebooks/: `make lab` runs this.

A copy has the cells of its original without outputs, so that it gives no prediction away. What
else is in notebooks/ (records, pictures) is linked. The copies are as deep in the repository as
their originals, so the same links work. Git and ruff ignore them, and `make test` never reads them.

What is missing is made, and nothing is overwritten: to get the newer version of a notebook, rename
or delete your copy.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORIGINALS, COPIES = "notebooks", "my_notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def unexecuted(text: str) -> str:
    """A notebook as its author wrote it, without what running or saving adds."""
    cells = []
    for cell in json.loads(text)["cells"]:
        tags = cell["metadata"].get("tags")
        kept = {"cell_type": cell["cell_type"], "id": cell["id"]}
        kept |= {"metadata": {"tags": tags} if tags else {}, "source": cell["source"]}
        if cell["cell_type"] == "code":
            kept |= {"execution_count": None, "outputs": []}
        cells.append(kept)
    notebook = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def make_copies(root: Path = ROOT) -> list[str]:
    """Make the copies that are missing; their paths in the folder of the copies.

    Raises:
        ValueError: an original is not a notebook.
    """
    originals, copies, made = root / ORIGINALS, root / COPIES, []
    for original in _entries(originals):
        copy = copies / original.relative_to(originals)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if copy.exists() or copy.is_symlink():
            continue
        if original.suffix != ".ipynb":
            target = os.path.relpath(original.resolve(), copy.parent.resolve())
            copy.symlink_to(target, original.is_dir())
            continue
        try:
            text = unexecuted(original.read_text(encoding="utf-8"))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{original} is not a notebook in format 4 ({error!r})") from error
        # all of it or nothing: a half-written copy would count as the reader's work
        unfinished = copy.with_name(f".{copy.name}.unfinished")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(copy)
        made.append(copy.relative_to(copies).as_posix())
    return made


def _entries(folder: Path) -> Iterator[Path]:
    """Notebooks, files, and folders without a notebook in them, which are linked as a whole."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__")):
            continue  # checkpoints and caches
        if path.is_dir() and any(path.rglob("*.ipynb")):
            yield from _entries(path)
        else:
            yield path


def main() -> int:
    """Make the copies and say what was done; 1 if that failed."""
    try:
        made = make_copies()
    except PermissionError as error:
        print(
            f"error: {error.filename} cannot be written. Give {COPIES} to the user who runs this; "
            "docs/install.md says how to run the container as you.",
            file=sys.stderr,
        )
        return 1
    except ValueError as error:
        print(f"error: {error}: 'git restore {ORIGINALS}' brings it back.", file=sys.stderr)
        return 1
    number = f"{len(made)} notebook{'s' if len(made) > 1 else ''}"
    said = f"Copied into {COPIES}: {number}, without outputs."
    print(said if made else f"All notebooks are in {COPIES} already.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
