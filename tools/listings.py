"""Store the compiled code of the notebooks' kernels: run `make listings` after one has changed.

It runs the notebooks that compile kernels, two at a time, without changing their files. Their
listings replace those in rope_lab/compiler/listings.json.xz.
"""

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from rope_lab.compiler import listings
from rope_lab.edits.kernels import compile_answers
from rope_lab.records import QUIET

ROOT = Path(__file__).resolve().parents[1]
COMPILES = ("compile_for(", "compiled(", "inspect(")  # calls in cells that compile
SOLVES = ("check_rung(",)  # also in solutions, where the kernels are written
AT_A_TIME = 2  # notebooks


def that_compile() -> list[Path]:
    """The notebooks with a cell that compiles, the largest first."""
    found = []
    for path in (ROOT / "notebooks").rglob("*.ipynb"):
        words = (*COMPILES, *SOLVES) if path.parent.name == "solutions" else COMPILES
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words) and ".ipynb_checkpoints" not in path.parts:
            found.append(path)
    return sorted(found, key=lambda path: -path.stat().st_size)


def run(path: Path) -> None:
    """Run a notebook without storing its outputs. An error stops the program."""
    begin = time.perf_counter()
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    print(f"{path.name}: {time.perf_counter() - begin:.0f} s", flush=True)


def main() -> int:
    begin = time.perf_counter()
    os.environ[QUIET] = "1"
    with tempfile.TemporaryDirectory() as folder:
        os.environ[listings.KEEP] = folder
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            list(pool.map(run, that_compile()))
        compile_answers()  # no notebook has these
        count = listings.collect(Path(folder))
    size = listings.STORED.stat().st_size / 1e6
    print(f"{count} listings, {size:.2f} MB, {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
