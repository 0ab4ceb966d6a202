"""Run notebooks as a hosted service does: each alone, in an empty folder.

    python tools/run_alone.py FOLDER [NUMBER ...]

FOLDER has the copies that tools/hosted_copies.py makes. The Python that runs this file runs their
cells, with what is installed there. It should not have `rope_lab`, or nothing is fetched.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

CELL_TIMEOUT = 600  # seconds


def run_alone(notebook: nbformat.NotebookNode) -> None:
    """Run all cells in a folder that holds nothing; their outputs are then in the notebook.

    Raises:
        CellExecutionError: a cell failed that is not tagged `raises-exception`.
    """
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )
        client.execute()


def text_of(cell: nbformat.NotebookNode) -> str:
    """What a cell printed and returned, as plain text."""
    texts = [output.get("text", "") for output in cell.outputs]
    texts += [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "\n".join(filter(None, texts))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("numbers", nargs="*", metavar="NUMBER", help="as 03; by default all")
    asked = parser.parse_args()
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    paths = sorted(asked.folder.rglob("[0-9][0-9]_*.ipynb"))
    if asked.numbers:
        paths = [path for path in paths if path.name[:2] in asked.numbers]
    if not paths:
        parser.error(f"there is no such notebook in {asked.folder}")
    failed = 0
    for path in paths:
        print(path.relative_to(asked.folder), end=" ", flush=True)
        begin = time.perf_counter()
        try:
            run_alone(nbformat.read(path, as_version=4))
        except CellExecutionError as error:
            failed += 1
            print(f"FAILED\n{error}")
        else:
            print(f"{time.perf_counter() - begin:.0f} s", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
