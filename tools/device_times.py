"""What a GPU needs for calls of models' sizes: two checkouts in one process, by turns.

    python tools/device_times.py ../before .
    python tools/device_times.py ../before . --only "cache d=80" --json times.json

Each figure is a share of the speed of `copy_`, in per cent: a copy of q and k, which a call reads
once and writes once; or of q, k and v. A norm's backward also reads what its forward read, so it
is held against one copy and a half. Before, after and the copy take turns, and the L2 cache is
flushed before each sample (`rope_lab/timing.py`). `scatter` says how far medians of turns were from
each other, in the same points: what differs by less has not differed.

Rows of the benchmark (`--only row`) also have `limit`, the per cent of a copy that are left when
all bytes of a call are counted (`benchmarks/case.py`), and how much of that the call after
reaches. A step that decodes is timed beside `rope_qk` in place, and compared with it.

Both packages compile first, all calls in several processes.
"""

import argparse
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
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import torch

from sized_calls import (
    ON_THE_FLY,
    TABLE,
    TOKENS,
    WIDE_TABLE,
    Call,
    Case,
    Maker,
    call_of_row,
)
from two_checkouts import DEVICE, ROOT, copy_packages, load_packages

sys.path.insert(0, str(ROOT))

from benchmarks.case import DECODED, ROTATION
from benchmarks.row_inputs import RowInputs
from benchmarks.tables import ROWS
from rope_lab.records import circumstances, origin
from rope_lab.timing import measure, require_compiled_kernels

COPY = "copy_"
WIDTH = 86  # of a call's name in a line
Run = Callable[[], object]  # what is timed

# the calls


def all_cases() -> list[Case]:
    return [*core(), *wide(), *caches(), *splits(), *norms(), *rows()]


def core() -> Iterator[Case]:
    """Head dimensions that are a power of two."""
    rotated = partial(Maker.rotated, d=128)
    for tensor_format in ("bshd", "bhsd", "sbhd", "thd"):
        of_format = partial(rotated, tensor_format=tensor_format)
        for kind in (ON_THE_FLY, WIDE_TABLE, TABLE):
            yield Case("core", f"{tensor_format}, forward, {kind}", partial(of_format, kind=kind))
        on_the_fly = partial(of_format, kind=ON_THE_FLY)
        yield Case("core", f"{tensor_format}, in place", partial(on_the_fly, inplace=True))
        yield Case("core", f"{tensor_format}, backward", on_the_fly, backward=True)
    by_table = partial(rotated, tensor_format="bshd", kind=TABLE)
    yield Case("core", f"bshd, in place, {TABLE}", partial(by_table, inplace=True))
    yield Case("core", f"bshd, backward, {TABLE}", by_table, backward=True)
    yield Case("core", "sbhd, 131072 tokens of 8 heads", partial(Maker.long_sequence, d=128))
    for d in (64, 256):
        make = partial(rotated, d=d, tensor_format="bshd", kind=ON_THE_FLY)
        yield Case("core", f"bshd, d={d}", make)


def wide() -> Iterator[Case]:
    """And those that are none."""
    for d in (72, 80, 88, 96, 120, 160, 192):
        make = partial(Maker.rotated, d=d, tensor_format="bshd", kind=ON_THE_FLY)
        yield Case("wide", f"d={d}, bshd", make)
    for name, options in {
        f"d=80, bshd, {TABLE}": {"kind": TABLE},
        "d=80, bshd, in place": {"inplace": True},
        "d=80, bhsd": {"tensor_format": "bhsd"},
        "d=80, sbhd": {"tensor_format": "sbhd"},
        "d=80, thd": {"tensor_format": "thd"},
    }.items():
        given = {"d": 80, "tensor_format": "bshd", "kind": ON_THE_FLY} | options
        yield Case("wide", name, partial(Maker.rotated, **given))


def caches() -> Iterator[Case]:
    for d in (72, 80, 88, 128):
        for tokens in (TOKENS, DECODED):
            for kind in (ON_THE_FLY, TABLE):
                make = partial(Maker.to_cache, d=d, kind=kind, tokens=tokens)
                yield Case("cache", f"d={d}, {tokens} tokens, {kind}", make)


def splits() -> Iterator[Case]:
    ways = [("qkv", "bshd"), ("grouped", "thd"), ("grouped", "bshd"), ("qkv", "thd")]
    for d in (72, 80, 88, 96, 128):
        for packing, tensor_format in ways if d in (80, 128) else ways[:2]:
            make = partial(Maker.split, d=d, packing=packing, tensor_format=tensor_format)
            yield from both_ways("split", f"d={d}, {packing}, {tensor_format}", make)


def norms() -> Iterator[Case]:
    for tensor_format in ("bshd", "bhsd", "thd"):
        for kind in (ON_THE_FLY, WIDE_TABLE):
            make = partial(Maker.normalized, d=128, tensor_format=tensor_format, kind=kind)
            yield from both_ways("norm", f"{tensor_format}, {kind}", make)


def rows() -> Iterator[Case]:
    """Those of the benchmark, each with a limit of its own."""
    for row in ROWS:
        yield Case("row", row.label, partial(call_of_row, row=row), row.backward, row)


def both_ways(group: str, name: str, make: Callable[[Maker], Call]) -> Iterator[Case]:
    yield Case(group, f"{name}, forward", make)
    yield Case(group, f"{name}, backward", make, backward=True)


def copies_of(case: Case) -> float:
    """How many copies of its rows move as many bytes as a call."""
    if case.row is not None:
        return case.row.copies
    return 1.5 if case.group == "norm" and case.backward else 1.0


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
            torch.manual_seed(1)  # both get the same values
            calls.append(case.call(package, DEVICE))
        runs = [run_of(call, case.backward) for call in calls]
        timed = dict(zip(("before", "after"), runs, strict=True)) | {COPY: copy_of(calls[0])}
        if case.row is not None and case.row.decodes:
            inputs = RowInputs(case.row, DEVICE, has_values=DEVICE != "cpu")
            timed[ROTATION] = inputs.rotation_in_place(packages[1])
        found = measure(timed, rounds=turns)
    except Exception as error:  # of whatever kind: the others are timed all the same
        return row | {"refused": f"{type(error).__name__}: {error}"}
    per_cent = 100 * copies_of(case) * found[COPY].median_us
    row |= {name: round(per_cent / found[name].median_us, 2) for name in ("before", "after")}
    scatter = max(timing.spread for timing in found.values()) * row["after"]
    row["scatter"] = round(scatter, 2)
    if case.row is not None:
        row["limit"] = round(100 * case.row.own_limit, 2)
    if ROTATION in found:
        row["rotations"] = round(found["after"].median_us / found[ROTATION].median_us, 3)
    return row | {"microseconds": {name: timing.median_us for name, timing in found.items()}}


# the report


def line_of(row: dict) -> str:
    title = f"{row['group']:6} {row['call']:{WIDTH}}"
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
    """A line for each group, of what was timed: medians, and the range of what differs."""
    timed = [row for row in rows if "refused" not in row]
    for group in dict.fromkeys(row["group"] for row in timed):
        found = [row for row in timed if row["group"] == group]
        before, after = ([row[name] for row in found] for name in ("before", "after"))
        differs = [now - was for was, now in zip(before, after, strict=True)]
        medians = f"{statistics.median(before):7.1f} {statistics.median(after):7.1f}"
        spread = f"{min(differs):+8.1f} to {max(differs):+.1f}"
        yield f"{group:6} {f'median of {len(found)} calls':{WIDTH}} {'':8} {medians} {spread}"


# the command


def start_process(folder: Path) -> None:
    """What each process that compiles does first."""
    global packages
    packages = load_packages(folder)


def compile_case(number: int) -> None:
    """Run a call of both packages, and so leave its kernels in Triton's cache on the disk."""
    case = all_cases()[number]
    for package in packages:
        with suppress(Exception):  # it is met again, and told, where it is timed
            run_of(case.call(package, DEVICE), case.backward)()
            torch.cuda.synchronize()


def compile_all(numbers: Sequence[int], folder: Path, processes: int) -> None:
    workers, context = min(processes, len(numbers)), get_context("spawn")  # a GPU bears no fork
    with ProcessPoolExecutor(workers, context, start_process, (folder,)) as pool:
        list(pool.map(compile_case, numbers))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a folder that holds rope_kernels")
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="calls with each of these in group or name"
    )
    parser.add_argument("--turns", type=int, default=7, help="of before, after and the copy")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures, too")
    parser.add_argument(
        "--processes", type=int, default=min(8, os.cpu_count() or 1), help="that compile"
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
        print(f"{'':{WIDTH + 7}} {titles}")
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
