"""Make a reader's own copies of the notebooks in my_notebooks/: `make lab` runs this.

A copy has the cells of its original without outputs, so that it gives no prediction away. What
else is in notebooks/ (records, pictures) is linked. The copies are as deep in the repository as
their originals, so the same links work. Git and ruff ignore them, and `make test` never reads them.

What is missing is made, and nothing is overwritten. A copy whose original has changed is named.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORIGINALS, COPIES = "notebooks", "my_notebooks"
# In the folder of the copies: for each, the digest of its original when it was copied.
MEMORY = ".copied-from.json"
NAMED = 4  # notebooks in one sentence


@dataclass
class Report:
    """What a run made and found; paths relative to the folder of the copies."""

    made: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)  # the original has changed since


def authored(text: str) -> list[dict]:
    """The cells of a notebook as their author wrote them, without what running or saving adds.

    Raises:
        ValueError: the text is not a notebook in format 4.
    """
    try:
        return [_authored_cell(cell) for cell in json.loads(text)["cells"]]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"not a notebook in format 4 ({error!r})") from error


def _authored_cell(cell: dict) -> dict:
    tags = cell["metadata"].get("tags")
    metadata = {"tags": tags} if tags else {}
    kept = {"cell_type": cell["cell_type"], "id": cell["id"], "metadata": metadata}
    if cell["cell_type"] == "code":
        kept |= {"execution_count": None, "outputs": []}
    return kept | {"source": "".join(cell["source"])}  # stored as a string or as a list of lines


def as_unexecuted(cells: list[dict]) -> str:
    """The text of a notebook with these cells."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def make_copies(root: Path = ROOT) -> Report:
    """Make the copies that are missing, and name those whose originals have changed.

    Raises:
        ValueError: an original is not a notebook.
    """
    originals, copies = root / ORIGINALS, root / COPIES
    report, remembered = Report(), _read_memory(copies / MEMORY)
    for original in _entries(originals):
        copy = copies / original.relative_to(originals)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if original.suffix == ".ipynb":
            _copy_notebook(original, copy, copy.relative_to(copies).as_posix(), remembered, report)
        elif not (copy.exists() or copy.is_symlink()):
            target = os.path.relpath(original.resolve(), copy.parent.resolve())
            copy.symlink_to(target, original.is_dir())
    _write(copies / MEMORY, json.dumps(remembered, indent=1, sort_keys=True) + "\n")
    return report


def _entries(folder: Path) -> Iterator[Path]:
    """Notebooks, files, and folders without a notebook in them, which are linked as a whole."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__")):
            continue  # checkpoints and caches
        if path.is_dir() and any(path.rglob("*.ipynb")):
            yield from _entries(path)
        else:
            yield path


def _copy_notebook(
    original: Path, copy: Path, name: str, remembered: dict[str, str], report: Report
) -> None:
    try:
        text = as_unexecuted(authored(original.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{original} is {error}") from error
    now = hashlib.sha256(text.encode()).hexdigest()[:16]
    if not copy.exists():
        _write(copy, text)
        remembered[name] = now
        report.made.append(name)
    elif remembered.get(name, now) != now:
        report.stale.append(name)


def _read_memory(path: Path) -> dict[str, str]:
    try:
        remembered = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return remembered if isinstance(remembered, dict) else {}


def _write(path: Path, text: str) -> None:
    """All of it or nothing: a half-written copy would count as the reader's work."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def main() -> int:
    """Make the copies and say what was done; 1 if that failed."""
    try:
        report = make_copies()
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
    if report.made:
        number = f"{len(report.made)} notebook{'s' if len(report.made) > 1 else ''}"
        print(f"Copied into {COPIES}: {number}, without outputs.")
    if report.stale:
        more = len(report.stale) - NAMED
        names = ", ".join(report.stale[:NAMED]) + (f" and {more} more" if more > 0 else "")
        print(f"Changed since they were copied, and left as you have them: {names}.")
        print("Rename or delete your copy and run 'make lab' to get the new version.")
    if report == Report():
        print(f"Your copies in {COPIES} are up to date.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
