"""Compile what calls would launch, for sm_90, and compare the machine code of two checkouts.

    python tools/machine_code.py ../before .
    python tools/machine_code.py ../before . --only "split d=80 thd" --json code.json

Needs no GPU: calls are planned as on one, and compiled by Triton and its ptxas. Of each launch the
grid, the warps and the SASS are compared: opcodes in order, loads and stores by width, registers,
shared memory, spills. Names and arguments of kernels are not, for a checkout may have others.

First comes a table by groups of calls and by kernels, as they are called in `after`; then each
launch that differs, with what differs. The exit status is 1 if any does, or a call is refused.

All calls take 5 minutes on two idle cores.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import torch

from sized_calls import (
    ANGLES,
    KINDS,
    ON_THE_FLY,
    TABLE,
    WIDE_TABLE,
    B,
    Case,
    Maker,
    S,
)
from two_checkouts import ROOT, copy_packages, load_packages

sys.path.insert(0, str(ROOT))

from benchmarks.case import CUTS, DECODED
from rope_lab.compiler import launches
from rope_lab.compiler.compile import Compiled
from rope_lab.compiler.plans import plans_of
from rope_lab.compiler.stages import operations

GPU = "sm_90"
FORMATS = "bshd", "bhsd", "sbhd", "thd"
# of a launch: one fact each, and two that are counted by width
FACTS = "grid", "warps", "registers", "shared", "spilled", "stack"
ACCESSES = "loads", "stores"
MOST_OPCODES = 6  # that a report lists
Launch = dict  # what is compared of one
Outcome = list[Launch] | str  # of a call: its launches, or what it raised
disassembled: dict[str, list[str]] = {}  # in this process: PTX -> opcodes

# the calls


def all_cases() -> list[Case]:
    return [*of_every_size(), *with_options(), *to_caches(), *out_of_projections(), *norms()]


def of_every_size() -> Iterator[Case]:
    for d in (64, 72, 80, 96, 128, 192, 256):
        for tensor_format in FORMATS:
            for kind in KINDS:
                make = partial(Maker.rotated, d=d, tensor_format=tensor_format, kind=kind)
                yield Case(f"qk d={d}", f"{tensor_format}, {kind}", make)


def with_options() -> Iterator[Case]:
    """In head dimensions that are a power of two, and that are none."""
    ids = torch.zeros(B, S, dtype=torch.int64)
    starts = torch.zeros(B, dtype=torch.int64)
    of_a_rank = {"cp_size": 2, "cp_rank": 1, "cp_order": "zigzag"}
    of_all_ranks = {"cu_seqlens": torch.tensor([2 * cut for cut in CUTS])}
    pairs = {"of_module": {"interleaved": True}, "interleaved": True}
    for d in (128, 80):
        rotated = partial(Maker.rotated, d=d, tensor_format="bshd", kind=ON_THE_FLY)
        half = {"turned": d // 2}
        made = {
            "first half of a row": partial(rotated, **half),
            "first half of a row, in place": partial(rotated, **half, inplace=True),
            "last half of a row": partial(rotated, **half, rotary_start=d // 2),
            "last half of a row, by a table": partial(
                rotated, **half, rotary_start=d // 2, kind=TABLE
            ),
            "interleaved": partial(rotated, **pairs),
            "interleaved, by a table": partial(rotated, **pairs, kind=WIDE_TABLE),
            "interleaved to halves": partial(rotated, **pairs, output_pairing="half"),
            "in place": partial(rotated, inplace=True),
            "in place, bhsd": partial(rotated, inplace=True, tensor_format="bhsd"),
            "in place, by a table": partial(rotated, inplace=True, kind=TABLE),
            "model's rounding": partial(rotated, rounding="model"),
            "model's rounding, by a table": partial(rotated, rounding="model", kind=TABLE),
            "model's rounding, by angles": partial(rotated, rounding="model", kind=ANGLES),
            "position ids": partial(rotated, position_ids=ids),
            "position ids, by a table": partial(rotated, position_ids=ids, kind=TABLE),
            "start, an int": partial(rotated, start_positions=100),
            "start, an int, by a table": partial(rotated, start_positions=100, kind=TABLE),
            "starts": partial(rotated, start_positions=starts),
            "starts, by a table": partial(rotated, start_positions=starts, kind=TABLE),
            "zigzag": partial(rotated, **of_a_rank),
            "zigzag, by a table": partial(rotated, **of_a_rank, kind=TABLE),
            "zigzag, thd": partial(rotated, tensor_format="thd", **of_a_rank, **of_all_ranks),
            "fp16": partial(rotated, dtype=torch.float16),
            "fp32": partial(rotated, dtype=torch.float32),
            "fp64": partial(rotated, dtype=torch.float64),
            "inverse": partial(rotated, inverse=True),
            "attention factor": partial(rotated, of_module={"attention_factor": 1.2}),
        }
        for name, make in made.items():
            yield Case(f"options d={d}", name, make)
        for tensor_format in FORMATS:
            make = partial(rotated, tensor_format=tensor_format, kind=TABLE)
            yield Case(f"backward d={d}", f"rope_qk, {tensor_format}, {TABLE}", make, True)
            for kind in (ON_THE_FLY, ANGLES):
                of_q = {"d": d, "tensor_format": tensor_format, "kind": kind}
                make = partial(Maker.one_rotated, function="rope_bw", **of_q)
                yield Case(f"backward d={d}", f"rope_bw, {tensor_format}, {kind}", make)


def to_caches() -> Iterator[Case]:
    for d in (64, 72, 80, 88, 128):
        for kind in (ON_THE_FLY, TABLE):
            made = {
                "position ids": {},
                "position ids, in place": {"inplace": True},
                f"{DECODED} tokens": {"tokens": DECODED},
                "prompts": {"by_ids": False},
            }
            for name, options in made.items():
                make = partial(Maker.to_cache, d=d, kind=kind, **options)
                yield Case(f"cache d={d}", f"{kind}, {name}", make)


def out_of_projections() -> Iterator[Case]:
    for d in (64, 72, 80, 88, 96, 128):
        for packing in ("qkv", "grouped"):
            for tensor_format in ("bshd", "thd"):
                packed = {"d": d, "packing": packing, "tensor_format": tensor_format}
                yield Case(
                    f"split d={d}",
                    f"{packing}, {tensor_format}",
                    partial(Maker.split, **packed),
                    backward=True,
                )


def norms() -> Iterator[Case]:
    for d in (80, 128):
        for tensor_format in FORMATS:
            for kind in (ON_THE_FLY, WIDE_TABLE):
                make = partial(Maker.normalized, d=d, tensor_format=tensor_format, kind=kind)
                yield Case(f"norm d={d}", f"{tensor_format}, {kind}", make, backward=True)


# what is compiled


def launches_of(case: Case, package: ModuleType) -> Outcome:
    """What a call launches, and with gradients its backward after it; or what it raises."""
    try:
        call = case.call(package)
        plans = plans_of(call.function, *call.given, gpu=GPU, **call.options)
        return [launch_of(plan) for plan in plans]
    except Exception as error:  # of whatever kind
        return f"{type(error).__name__}: {error}".replace(package.__name__, "rope_kernels")


def launch_of(plan: launches.Launch) -> Launch:
    code = plan.compiled()
    return {
        "kernel": plan.name,
        "grid": list(plan.grid),
        "warps": code.num_warps,
        **{name: getattr(code, name) for name in FACTS[2:]},
        **{name: {str(n): count for n, count in getattr(code, name).items()} for name in ACCESSES},
        "opcodes": opcodes_of(code),
    }


def opcodes_of(code: Compiled) -> list[str]:
    """Of the SASS, in order. Equal PTX is disassembled once, which takes longer than to compile."""
    key = without_places(code.stages["ptx"]).replace(code.kernel, "kernel")
    if key not in disassembled:
        disassembled[key] = [operation.opcode for operation in operations(code, "sass")]
    return disassembled[key]


def without_places(ptx: str) -> str:
    """PTX that says nothing of where in a source it came from."""
    code = ptx.partition(".section")[0]  # what follows is for debuggers
    code = re.sub(r"(?m)//.*|^\s*\.(?:loc|file)\b.*|^\$L__(?:tmp|func_)\w+:", "", code)
    return " ".join(code.split())


def start_process(folder: Path) -> None:
    """What each process does first."""
    global packages
    packages = load_packages(folder)
    torch.set_num_threads(1)


def compile_case(number: int) -> list[Outcome]:
    """A call of both packages: before and after."""
    case = all_cases()[number]
    return [launches_of(case, package) for package in packages]


# the comparison


def rows_of(case: Case, before: Outcome, after: Outcome) -> list[dict]:
    """A row for each launch of a call: what it was compiled to, and what differs in words."""
    row = {"group": case.group, "call": case.name}
    if isinstance(before, str) or isinstance(after, str) or len(before) != len(after):
        said = [x if isinstance(x, str) else f"launches {len(x)}" for x in (before, after)]
        return [row | {"differs": [f"before: {said[0]}", f"after: {said[1]}"]}]
    rows, pairs = [], list(zip(before, after, strict=True))
    for number, (was, now) in enumerate(pairs, 1):
        launch = {"launch": number, "of": len(pairs), "kernel": now["kernel"]}
        rows.append(row | launch | {"differs": differences(was, now), "before": was, "after": now})
    return rows


def differences(before: Launch, after: Launch) -> list[str]:
    """What two launches differ in, a phrase each."""
    found = [
        f"{name} {in_words(before[name])} -> {in_words(after[name])}"
        for name in (*FACTS, *ACCESSES)
        if before[name] != after[name]
    ]
    was, now = before["opcodes"], after["opcodes"]
    if len(was) != len(now):
        found.append(f"instructions {len(was)} -> {len(now)}")
    if was != now:
        counts = Counter(now)
        counts.subtract(was)
        changed = sorted((-abs(n), f"{name} {n:+}") for name, n in counts.items() if n)
        listed = [words for _, words in changed[:MOST_OPCODES]]
        listed += ["..."] * (len(changed) > MOST_OPCODES)
        found.append(", ".join(listed) or "the same opcodes in another order")
    return found


def in_words(fact: object) -> str:
    if isinstance(fact, dict):
        return ", ".join(f"{count} of {width} bytes" for width, count in fact.items()) or "none"
    return str(fact)


# the report


def table(rows: Sequence[dict]) -> list[str]:
    """In Markdown: a line for each kernel of a group, of those launches that can be compared."""
    titles = "calls", "launches", "same opcodes in order", "same loads and stores"
    titles += "same grid and warps", "registers", "instructions", "spilled bytes"
    lines = [f"| {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) - 1)}"]
    compared, by_kernel = [row for row in rows if "before" in row], {}
    for row in compared:
        by_kernel.setdefault(f"{row['group']} ({row['kernel']})", []).append(row)
    if compared:
        by_kernel["all"] = compared
    for name, found in by_kernel.items():
        pairs = [(row["before"], row["after"]) for row in found]
        registers = [now["registers"] - was["registers"] for was, now in pairs]
        counts = [[len(launch["opcodes"]) for launch in pair] for pair in pairs]
        spilled = [max(launch["spilled"] for launch in which) for which in zip(*pairs, strict=True)]
        cells = [
            name,
            len(pairs),
            sum(was["opcodes"] == now["opcodes"] for was, now in pairs),
            sum(all(was[x] == now[x] for x in ACCESSES) for was, now in pairs),
            sum(all(was[x] == now[x] for x in ("grid", "warps")) for was, now in pairs),
            f"{min(registers):+} to {max(registers):+}",
            "{:+.1%} to {:+.1%}".format(*extremes([now / was - 1 for was, now in counts])),
            f"{spilled[0]}, {spilled[1]}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def extremes(numbers: Sequence[float]) -> tuple[float, float]:
    return min(numbers), max(numbers)


def title_of(row: dict) -> str:
    title = f"{row['group']}, {row['call']}"
    if "kernel" not in row:
        return title
    launch = f", launch {row['launch']} of {row['of']}" if row["of"] > 1 else ""
    return f"{title}{launch} ({row['kernel']})"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a folder that holds rope_kernels")
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="calls with each of these in group or name"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write all that is told")
    parser.add_argument("--processes", type=int, default=min(16, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    cases = {n: case for n, case in enumerate(all_cases()) if case.has(options.only)}
    if not cases:
        parser.error(f"no call has {options.only!r} in its name")
    with tempfile.TemporaryDirectory(prefix="machine_code-") as folder:
        copy_packages(options.before, options.after, Path(folder))
        workers, context = min(options.processes, len(cases)), get_context("spawn")
        with ProcessPoolExecutor(workers, context, start_process, (Path(folder),)) as pool:
            outcomes = list(pool.map(compile_case, cases))
    rows = []
    for case, (before, after) in zip(cases.values(), outcomes, strict=True):
        rows += rows_of(case, before, after)
    differing = [row for row in rows if row["differs"]]
    print(*table(rows), sep="\n")
    for row in differing:
        print(f"\n{title_of(row)}", *row["differs"], sep="\n    ")
    seconds = time.monotonic() - begin
    print(f"\n{len(cases)} calls for {GPU} in {seconds:.0f} s: {len(differing)} launches differ")
    if options.json:
        options.json.write_text(json.dumps({"gpu": GPU, "rows": rows}) + "\n", encoding="utf-8")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
