"""Store what Triton makes of the notebooks' kernels: `make listings`, once one has changed.

The notebooks that compile something are run, two at a time, and their files stay as they are. What
was compiled goes into rope_lab/compiler/listings.json.xz, and nothing else stays there.
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
from rope_lab.records import QUIET

ROOT = Path(__file__).resolve().parents[1]
COMPILES = ("compile_for(", "compiled(", "inspect(")  # what a cell calls that compiles
SOLVES = ("check_rung(",)  # and in solutions; elsewhere a kernel is still to be written
AT_A_TIME = 2  # a notebook waits for its kernel's child half of the time


def that_compile() -> list[Path]:
    """The notebooks with a cell that compiles, those that take longest first."""
    found = []
    for path in (ROOT / "notebooks").rglob("*.ipynb"):
        words = (*COMPILES, *SOLVES) if path.parent.name == "solutions" else COMPILES
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words) and ".ipynb_checkpoints" not in path.parts:
            found.append(path)
    return sorted(found, key=lambda path: -path.stat().st_size)


def run(path: Path) -> None:
    """Run a notebook and forget its outputs; one that fails ends all."""
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
        count = listings.collect(Path(folder))
    size = listings.STORED.stat().st_size / 1e6
    print(f"{count} listings, {size:.2f} MB, {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
