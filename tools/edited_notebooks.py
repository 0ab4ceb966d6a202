"""Name the notebooks whose cells differ from what git has: `make test` runs this after a failure.

New outputs, execution counts and JupyterLab's metadata do not count, because the tests accept them.
Cleared outputs do: tests of the exercises read what is stored.
"""

import json
import subprocess
import sys
from pathlib import Path

from readers_copies import ORIGINALS, ROOT, authored


def in_git(name: str, root: Path = ROOT) -> str | None:
    """A file's text in git's index; None if git does not have it or there is no git here."""
    return _git(root, "show", f":./{name}")


def edited(root: Path = ROOT) -> list[str] | None:
    """Notebooks with other cells than in git's index, or cleared ones; None if there is no git."""
    listed = _git(root, "diff", "--name-only", "--relative", "-z", "--", f"{ORIGINALS}/*.ipynb")
    if listed is None:
        return None
    return [name for name in listed.split("\0") if name and _has_other_cells(name, root)]


def _has_other_cells(name: str, root: Path) -> bool:
    try:
        text = (root / name).read_text(encoding="utf-8")
        here = authored(text)
    except (OSError, ValueError):  # removed, or no notebook any more
        return True
    there = in_git(name, root)
    return there is None or here != authored(there) or _has_cleared_cells(text)


def _has_cleared_cells(text: str) -> bool:
    """Is there code that has not run? In git there is none, which a test ensures."""
    cells = json.loads(text)["cells"]
    return any(cell["cell_type"] == "code" and not cell.get("execution_count") for cell in cells)


def _git(root: Path, *arguments: str) -> str | None:
    try:
        ran = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.decode()


def main() -> None:
    names = edited()
    if names is None:
        print(
            f"If you edited a notebook in {ORIGINALS}/, take it from a fresh download and try "
            "again: there is no git here to tell.",
            file=sys.stderr,
        )
    for name in names or []:
        print(
            f"{name} has edited or cleared cells, which may be why a test failed. "
            f"'git restore {name}' brings the original back; your own copy is in my_notebooks/.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
