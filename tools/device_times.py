"""Time calls of models' sizes on a GPU: two checkouts in one process, alternated.

    python tools/device_times.py ../before .
    python tools/device_times.py ../before . --only "cache d=80" --json times.json

Figures are per cent of the speed of `copy_`: a copy of the rows that a call reads and writes once.
A norm's backward also reads the forward's inputs, so it is compared with one and a half copies.
Before, after and the copy alternate, and the L2 cache is flushed before each sample
(`rope_lab/timing.py`). `scatter` is the spread of the medians of rounds, in the same points:
smaller differences mean nothing.

Rows of the benchmark (`--only row`) also have `limit`, the per cent of a copy that is possible if
all bytes of a call are counted (`benchmarks/case.py`), and the share of it that `after` reaches.
Decoding steps are also compared with `rope_qk` in place.

All calls of both packages are compiled first, in several processes.
"""

import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import torch

import sized_calls
from sized_calls import Call, Case
from two_checkouts import DEVICE, ROOT, copy_packages, load_packages, parser_of

sys.path.insert(0, str(ROOT))

from benchmarks.case import NO_TABLE, ROTATION
from benchmarks.row_inputs import RowInputs
from benchmarks.tables import ROWS
from rope_lab.records import circumstances, origin
from rope_lab.timing import measure, require_compiled_kernels

COPY = "copy_"
WIDTH = 86  # of a call's name in a line
Run = Callable[[], object]  # what is timed

# the calls


def all_cases() -> list[Case]:
    """Some calls of `sized_calls`, with their backward, and the rows of the benchmark."""
    cases = []
    for case in sized_calls.all_cases():
        if case.row.d in (80, 128) or case.name == f"bshd, {NO_TABLE}":
            cases.append(replace(case, backward=False))
            cases += [replace(case, name=f"{case.name}, backward")] if case.backward else []
    return [*cases, *(Case("row", row.label, row, backward=row.backward) for row in ROWS)]


# what is timed


def run_of(call: Call, backward: bool) -> Run:
    """The call itself, or its backward alone."""
    if not backward:
        return call
    outs = call()
    outs = outs if isinstance(outs, tuple) else (outs,)
    grads = [torch.randn_like(out) for out in outs]
    return partial(torch.autograd.grad, outs, call.leaves, grads, retain_graph=True)


def copy_of(call: Call) -> Run:
    """A copy of the call's rows, in one piece."""
    source = torch.cat([x.detach().flatten() for x in call.rows])
    return partial(torch.empty_like(source).copy_, source)


def time_case(case: Case, packages: Sequence[ModuleType], turns: int) -> dict:
    """Per cent of a copy and microseconds, before and after; or why there are none."""
    row = {"group": case.group, "call": case.name}
    try:
        calls = []
        for package in packages:
            torch.manual_seed(1)  # Both get the same values.
            calls.append(case.call(package, DEVICE))
        runs = [run_of(call, case.backward) for call in calls]
        timed = dict(zip(("before", "after"), runs, strict=True)) | {COPY: copy_of(calls[0])}
        if case.row.decodes:
            inputs = RowInputs(case.row, DEVICE, has_values=DEVICE != "cpu")
            timed[ROTATION] = inputs.rotation_in_place(packages[1])
        found = measure(timed, rounds=turns)
    except Exception as error:  # The other calls are timed anyway.
        return row | {"refused": f"{type(error).__name__}: {error}"}
    copies = replace(case.row, backward=case.backward).copies
    per_cent = 100 * copies * found[COPY].median_us
    row |= {name: round(per_cent / found[name].median_us, 2) for name in ("before", "after")}
    scatter = max(timing.spread for timing in found.values()) * row["after"]
    row["scatter"] = round(scatter, 2)
    if case.group == "row":
        row["limit"] = round(100 * case.row.own_limit, 2)
    if ROTATION in found:
        row["rotations"] = round(found["after"].median_us / found[ROTATION].median_us, 3)
    return row | {"microseconds": {name: timing.median_us for name, timing in found.items()}}


# the report


def line_of(row: dict) -> str:
    title = f"{row['group']:15} {row['call']:{WIDTH}}"
    if "refused" in row:
        return f"{title} {row['refused']}"
    before, after, microseconds = row["before"], row["after"], row["microseconds"][COPY]
    figures = f"{before:7.1f} {after:7.1f} {after - before:+8.1f} {row['scatter']:8.1f}"
    if "limit" in row:
        figures += f" {row['limit']:7.1f} {after / row['limit']:8.1%}"
    if "rotations" in row:
        figures += f", {row['rotations']:.2f} times {ROTATION}"
    return f"{title} {microseconds:8.1f} {figures}"


def by_group(rows: Sequence[dict]) -> Iterator[str]:
    """A line for each group: medians, and the range of differences."""
    timed = [row for row in rows if "refused" not in row]
    for group in dict.fromkeys(row["group"] for row in timed):
        found = [row for row in timed if row["group"] == group]
        before, after = ([row[name] for row in found] for name in ("before", "after"))
        differs = [now - was for was, now in zip(before, after, strict=True)]
        medians = f"{statistics.median(before):7.1f} {statistics.median(after):7.1f}"
        spread = f"{min(differs):+8.1f} to {max(differs):+.1f}"
        yield f"{group:15} {f'median of {len(found)} calls':{WIDTH}} {'':8} {medians} {spread}"


# the command


def start_process(folder: Path) -> None:
    """Run first in each process that compiles."""
    global packages
    packages = load_packages(folder)


def compile_case(number: int) -> None:
    """Run a call of both packages, so that Triton caches their kernels on disk."""
    case = all_cases()[number]
    for package in packages:
        with suppress(Exception):  # It is raised and reported again when the call is timed.
            run_of(case.call(package, DEVICE), case.backward)()
            torch.cuda.synchronize()


def compile_all(numbers: Sequence[int], folder: Path, processes: int) -> None:
    workers, context = (
        min(processes, len(numbers)),
        get_context("spawn"),
    )  # CUDA doesn't work in forks.
    with ProcessPoolExecutor(workers, context, start_process, (folder,)) as pool:
        list(pool.map(compile_case, numbers))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--turns", type=int, default=7, help="rounds of before, after and the copy")
    parser.add_argument(
        "--processes", type=int, default=min(8, os.cpu_count() or 1), help="processes that compile"
    )
    options = parser.parse_args(arguments)
    try:
        require_compiled_kernels()
    except RuntimeError as why:
        raise SystemExit(f"device_times.py needs a GPU and compiled kernels: {why}") from None
    cases = {n: case for n, case in enumerate(all_cases()) if case.has(options.only)}
    if not cases:
        parser.error(f"no call has {options.only!r} in its name")
    begin, where = time.monotonic(), circumstances()
    print(f"per cent of a copy: {origin(**where)}")
    with tempfile.TemporaryDirectory(prefix="device_times-") as folder:
        copy_packages(options.before, options.after, Path(folder))
        compile_all(list(cases), Path(folder), options.processes)
        print(f"{len(cases)} calls of both were compiled in {time.monotonic() - begin:.0f} s")
        packages = load_packages(Path(folder))
        titles = f"{'copy, us':>8} {'before':>7} {'after':>7} {'differs':>8} {'scatter':>8}"
        titles += f" {'limit':>7} {'of limit':>8}"
        print(f"{'':{WIDTH + 16}} {titles}")
        rows = []
        for case in cases.values():
            rows.append(time_case(case, packages, options.turns))
            print(line_of(rows[-1]), flush=True)
            gc.collect()
    print(*by_group(rows), f"{time.monotonic() - begin:.0f} s in all", sep="\n")
    if options.json:
        found = {"measured": "per cent of a copy", **where, "turns": options.turns, "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if any("refused" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
