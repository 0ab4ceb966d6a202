"""Take everything that is kept of this GPU, in turn: `make record`, or some of it again.

First it says what would spoil the record, and measures nothing then. --anyway measures all the
same.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.gpu import GPU, gpu_here
from benchmarks.record import record, why_absent
from benchmarks.tables import ROOT, Benchmark
from rope_lab.profiling import machines
from rope_lab.records import origin, records_folder

MACHINE = "machine"
WRITTEN = (  # what a record changes
    "README.md",
    "benchmarks/README.md",
    "benchmarks/results/",
    "docs/hugging_face.md",
    "notebooks/records/machines.json",
)
IDLE_BYTES = 2 * 2**30  # what a GPU has in use that only shows a desktop


def main(arguments: Sequence[str], gpu: GPU | None, benchmarks: Sequence[Benchmark]) -> int:
    """The command."""
    words = "copies, instructions and launches: what `lab.inspect` knows a GPU by"
    parts = {MACHINE: (take_machine, 1, words)}
    for one in benchmarks:
        parts[one.name] = partial(record, one), one.minutes, one.about
    parser = argparse.ArgumentParser("python -m benchmarks record", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(parts)} (default: all)"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="measure, whatever would spoil the record"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.parts if name not in parts]:
        parser.error(f"PART is {unknown[0]!r}; accepted: {', '.join(parts)}")
    wanted = options.parts or list(parts)
    gpu = gpu or gpu_here()
    if gpu is None:
        return 1
    here = gpu.circumstances()
    print(origin(here["gpu"], here["versions"], here["date"]))
    print(
        "Looking for what would spoil a record: compiling other projects' kernels takes a minute."
    )
    chosen = [benchmark for benchmark in benchmarks if benchmark.name in wanted]
    if problems := what_would_spoil(gpu, chosen):
        print("This would spoil the record:", *problems, sep="\n- ")
        if not options.anyway:
            print("Nothing is measured; --anyway measures all the same.", file=sys.stderr)
            return 1
    width = max(map(len, wanted))
    for name in wanted:
        _, minutes, words = parts[name]
        print(f"{name:{width}} {minutes:2} min  {words}")
    in_all = sum(parts[name][1] for name in wanted)
    print(f"In all about {in_all} minutes. Let nothing else run on the GPU.")
    said = {name: outcome(name, parts[name][0], gpu) for name in wanted}
    print("\nAll parts:", *(f"{name:{width}} {words}" for name, words in said.items()), sep="\n")
    print(what_comes_next(here["gpu"]))
    return 0 if all(words.startswith("taken") for words in said.values()) else 1


def what_would_spoil(gpu: GPU, benchmarks: Sequence[Benchmark]) -> list[str]:
    """Sentences on what can be known before anything is measured."""
    found = []
    if changed := uncommitted():
        names = ", ".join(changed[:3]) + (", ..." if len(changed) > 3 else "")
        found.append(f"Files are in no commit, so nobody could tell what was measured: {names}.")
    if (used := gpu.bytes_used()) > IDLE_BYTES:
        found.append(f"Other programs use {used / 2**30:.1f} GiB of this GPU's memory.")
    providers = {p.name: p for benchmark in benchmarks for p in benchmark.providers}
    absent = {name: why for name, why in why_absent(list(providers.values())).items() if why}
    found += [f"{name} is absent: {why}" for name, why in absent.items()]
    if any(why.startswith("not unpacked") for why in absent.values()):
        found.append("`python -m benchmarks sources --clone` unpacks sources, with a network.")
    return found


def uncommitted() -> list[str]:
    """Files that differ from the commit, without those that a record changes."""
    if shutil.which("git") is None:
        return []
    command = ["git", "status", "--porcelain"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8").stdout
    names = [line[3:] for line in said.splitlines()]
    return [name for name in names if not name.startswith(WRITTEN)]


def outcome(name: str, take: Callable[[GPU], int], gpu: GPU) -> str:
    """Take a part, whatever became of the one before, and say how that went.

    `take` returns 0, or 1 if ours failed or was wrong.
    """
    print(f"\n== {name}", flush=True)
    begin = time.monotonic()
    try:
        words = "FAILED: see above" if take(gpu) else "taken"
    except Exception as failure:  # of whatever kind: the other parts are taken all the same
        words = f"FAILED: {type(failure).__name__}: {str(failure).strip()[:300]}"
    gpu.free()
    return f"{words}, after {time.monotonic() - begin:.0f} s"


def take_machine(gpu: GPU) -> int:
    """What `lab.inspect` knows a GPU by."""
    path, here = records_folder() / "machines.json", gpu.circumstances()
    machines.merge(path, here, gpu.machine())
    for name, taken in machines.read(path).items():
        found = machines.machine_of(taken)
        rates = f"W {found.bytes_a_us / 1e6:.3f} TB/s, P {found.instructions_a_us / 1e6:.2f}e12/s"
        print(f"{name}, {taken.date}: T0 {found.start_us:.2f} us, {rates}")
    return 0


def what_comes_next(gpu: str) -> str:
    """What to look at, and to commit."""
    return f"""
Look at `git diff`, and on the new pages in benchmarks/results/ at who was left out and by how much
the medians of rounds differ. Take a part that failed again, by its name, or delete its file. Say in
docs/gpus.md, by hand, what is measured of this GPU, and in CHANGELOG.md that it is.
Then, with the environment's Python:

    pytest tests/repo/benchmarks tests/lab/test_machines.py tests/lab/test_inspect.py
    git add {" ".join((*WRITTEN, "docs/gpus.md", "CHANGELOG.md"))}
    git commit -m "Record: {gpu}"
"""
