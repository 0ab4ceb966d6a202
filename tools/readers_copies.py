"""Make a reader's own copies of the notebooks in my_notebooks/: `make lab` runs this.

A copy has the cells of its original without outputs, so that it gives no prediction away. What
else lies in notebooks/ (records, pictures) is linked. The copies are as deep in the repository as
their originals, so the same links work. Git and ruff ignore them, and `make test` never reads them.

A later run adds what is missing and replaces a copy whose original has changed, if the reader has
edited and run no cell of it. Others are named and left alone, and so is a file of the reader's own
that has the name of one of ours. `--fresh` moves the whole folder to a dated backup first, and
keeps the kernels of the climb.
"""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORIGINALS, COPIES = "notebooks", "my_notebooks"
# In the folder of the copies: for each, the digest of its original when it was copied.
MEMORY = ".copied-from.json"
RUNGS = "rungs"  # beside the copies: the kernels of the climb, as rope_lab/rungs/kept.py keeps them
NAMED = 4  # notebooks in one sentence


@dataclass
class Report:
    """What a run did and found; paths relative to the folder of the copies."""

    made: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)  # the original has changed since


def authored(text: str) -> list[dict]:
    """The cells of a notebook as their author wrote them, without what running or saving adds.

    Raises:
        ValueError: the text is not a notebook in format 4.
    """
    try:
        cells = json.loads(text)["cells"]
        return [_authored_cell(cell) for cell in cells]
    except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"not a notebook in format 4 ({error!r})") from error


def _authored_cell(cell: dict) -> dict:
    tags = cell["metadata"].get("tags")
    kept = {key: cell[key] for key in ("attachments", "id") if cell.get(key)}
    return {
        "cell_type": cell["cell_type"],
        **kept,
        "metadata": {"tags": tags} if tags else {},
        "source": "".join(cell["source"]),  # stored as a string or as a list of lines
    }


def digest(cells: list[dict]) -> str:
    """A short name for what `authored` returns; equal if and only if the cells are."""
    return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def of_the_kernel() -> dict[str, dict]:
    """What JupyterLab writes into a notebook once its kernel runs.

    A copy has it from the start. Otherwise JupyterLab would take a copy that was only opened for
    modified, and ask whether to save it.
    """
    shown, language = "Python 3", {"name": "python"}
    with contextlib.suppress(ImportError):  # where JupyterLab is elsewhere
        from ipykernel.ipkernel import IPythonKernel
        from ipykernel.kernelspec import get_kernel_dict

        shown, language = get_kernel_dict()["display_name"], dict(IPythonKernel.language_info)
    return {
        "kernelspec": {"display_name": shown, "language": "python", "name": "python3"},
        "language_info": language,
    }


def as_unexecuted(cells: list[dict]) -> str:
    """The text of a notebook with these cells and no outputs."""
    code_fields = {"execution_count": None, "outputs": []}
    written = [
        {
            **cell,
            **(code_fields if cell["cell_type"] == "code" else {}),
            "source": cell["source"].splitlines(keepends=True),
        }
        for cell in cells
    ]
    notebook = {"cells": written, "metadata": of_the_kernel(), "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def make_copies(root: Path = ROOT) -> Report:
    """Copy what is missing, replace what the reader has not touched, and name what is stale.

    Raises:
        ValueError: an original is not a notebook.
    """
    originals, copies = root / ORIGINALS, root / COPIES
    report, remembered = Report(), _read_memory(copies / MEMORY)
    for original in _entries(originals):
        name = original.relative_to(originals).as_posix()
        folder = (copies / name).parent
        if folder != copies and folder.is_symlink() and folder.samefile(original.parent):
            folder.unlink()  # linked as a whole while it held no notebook
        if original.suffix == ".ipynb":
            _copy_notebook(original, copies / name, name, remembered, report)
        else:
            _link(original, copies / name)
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
        cells = authored(original.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{original} is {error}") from error
    now, before = digest(cells), remembered.get(name)
    if not copy.exists():
        _write(copy, as_unexecuted(cells))
        remembered[name] = now
        report.made.append(name)
    elif before != now:
        found, was_run = _state_of(copy)
        if found == now:
            remembered[name] = now  # up to date, though no run has remembered it
        elif before is not None and found == before and not was_run:
            _write(copy, as_unexecuted(cells))
            remembered[name] = now
        elif before is not None:
            report.stale.append(name)
        # Otherwise it may be older, edited or the reader's own: nothing tells which.


def _state_of(copy: Path) -> tuple[str | None, bool]:
    """The digest of its cells, None if it is no notebook, and whether any of them has an output."""
    try:
        text = copy.read_text(encoding="utf-8")
        found = digest(authored(text))
    except (OSError, ValueError):  # a folder; UnicodeDecodeError is a ValueError
        return None, False
    return found, any(cell.get("outputs") for cell in json.loads(text)["cells"])


def _link(original: Path, copy: Path) -> None:
    """Link the copy to its original, unless the reader has something there."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    if not (copy.exists() or copy.is_symlink()):
        target = os.path.relpath(original.resolve(), copy.parent.resolve())
        copy.symlink_to(target, original.is_dir())


def _read_memory(path: Path) -> dict[str, str]:
    try:
        remembered = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return remembered if isinstance(remembered, dict) else {}


def _write(path: Path, text: str) -> None:
    """All of it or nothing: a half-written copy would count as the reader's work."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def move_to_backup(root: Path = ROOT) -> Path | None:
    """Rename the folder of the copies by date and time, and bring the climb's kernels back from it.

    Returns None if there is no such folder.

    Raises:
        OSError: the folder cannot be renamed, as when it is mounted into a container.
    """
    copies = root / COPIES
    if not copies.exists():
        return None
    backup = copies.rename(root / time.strftime(f"{COPIES}-%Y-%m-%d-%H%M%S"))
    if (backup / RUNGS).is_dir():
        shutil.copytree(backup / RUNGS, copies / RUNGS)
    return backup


def main(arguments: list[str] | None = None) -> int:
    """Make the copies and say what was done; 1 if that failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--fresh", action="store_true", help="start over; keep a dated backup")
    fresh = parser.parse_args(arguments).fresh
    try:
        backup = move_to_backup() if fresh else None
    except OSError as error:
        print(
            f"error: {COPIES} cannot be renamed ({error.strerror}). If it is mounted into a "
            "container, rename it outside, make an empty one, and start the container again.",
            file=sys.stderr,
        )
        return 1
    if backup:
        kept = f" Your kernels of the climb stay in {COPIES}/{RUNGS}."
        with_kernels = (ROOT / COPIES / RUNGS).is_dir()
        print(f"Your notebooks so far are in {backup.name}.{kept if with_kernels else ''}")
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
    print_report(report)
    return 0


def print_report(report: Report) -> None:
    """A few lines, however many notebooks there are."""
    if report.made:
        number = f"{len(report.made)} notebook{'s' if len(report.made) > 1 else ''}"
        print(f"Copied into {COPIES}: {number}, without outputs.")
    if report.stale:
        print(f"Changed since you began them, and left as you have them: {_named(report.stale)}.")
        print(
            "Rename one and run 'make lab' to get its new version. 'make lab FRESH=1' copies all "
            "again and keeps yours in a dated backup."
        )
    if report == Report():
        print(f"Your copies in {COPIES} are up to date.")


def _named(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


if __name__ == "__main__":
    sys.exit(main())
