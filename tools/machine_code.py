"""Compile the kernels of calls for sm_90, and compare the machine code of two checkouts.

    python tools/machine_code.py ../before .
    python tools/machine_code.py ../before . --only "split d=80 thd" --json code.json

It needs no GPU: calls are planned as on one, and compiled by Triton and its ptxas. Of each launch,
it compares the grid, the warps and the SASS: opcodes in order, loads and stores by width,
registers, shared memory, spills. It ignores names and arguments of kernels.

It prints a line for each group of calls, then each launch that differs, and what differs. The exit
status is 1 if any differs, or a call is refused. All calls take 6 minutes on two idle cores.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import torch

from sized_calls import Case, all_cases
from two_checkouts import ROOT, copy_packages, load_packages, parser_of

sys.path.insert(0, str(ROOT))

from rope_lab.compiler import launches
from rope_lab.compiler.compile import Compiled
from rope_lab.compiler.plans import plans_of
from rope_lab.compiler.stages import operations

GPU = "sm_90"
# The compared facts of a launch: single values, and counts by width.
FACTS = "grid", "warps", "registers", "shared", "spilled", "stack"
ACCESSES = "loads", "stores"
MOST_OPCODES = 6  # in a report
Launch = dict  # the compared facts of a launch
Outcome = list[Launch] | str  # the launches of a call, or its error
disassembled: dict[str, list[str]] = {}  # PTX -> opcodes, a cache of this process

# what is compiled


def launches_of(case: Case, package: ModuleType) -> Outcome:
    """The launches of a call, followed by those of its backward; or its error."""
    try:
        call = case.call(package)
        plans = plans_of(call.function, *call.given, gpu=GPU, **call.options)
        return [launch_of(plan) for plan in plans]
    except Exception as error:  # The other calls are compared anyway.
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
    """The opcodes of the SASS, in order. Equal PTX is disassembled once, because this is slow."""
    key = without_places(code.stages["ptx"]).replace(code.kernel, "kernel")
    if key not in disassembled:
        disassembled[key] = [operation.opcode for operation in operations(code, "sass")]
    return disassembled[key]


def without_places(ptx: str) -> str:
    """PTX without references to the source file."""
    code = ptx.partition(".section")[0]  # The rest is for debuggers.
    code = re.sub(r"(?m)//.*|^\s*\.(?:loc|file)\b.*|^\$L__(?:tmp|func_)\w+:", "", code)
    return " ".join(code.split())


def start_process(folder: Path) -> None:
    """Run first in each process."""
    global packages
    packages = load_packages(folder)
    torch.set_num_threads(1)


def compile_case(number: int) -> list[Outcome]:
    """Compile a call of both packages, before and after."""
    case = all_cases()[number]
    return [launches_of(case, package) for package in packages]


# the comparison


def rows_of(case: Case, before: Outcome, after: Outcome) -> list[dict]:
    """A row for each launch of a call, with its facts and its differences."""
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
    """The differences between two launches."""
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


def by_group(rows: Sequence[dict]) -> Iterator[str]:
    """A line for each group of calls, about the launches that can be compared."""
    compared = [row for row in rows if "before" in row]
    for group in dict.fromkeys(row["group"] for row in compared):
        found = [row for row in compared if row["group"] == group]
        equal = sum(not row["differs"] for row in found)
        more = [row["after"]["registers"] - row["before"]["registers"] for row in found]
        registers = f"registers {min(more):+} to {max(more):+}"
        yield f"{group:16} {len(found):4} launches, {equal:4} equal, {registers}"


def title_of(row: dict) -> str:
    title = f"{row['group']}, {row['call']}"
    if "kernel" not in row:
        return title
    launch = f", launch {row['launch']} of {row['of']}" if row["of"] > 1 else ""
    return f"{title}{launch} ({row['kernel']})"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__)
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
    print(*by_group(rows), sep="\n")
    for row in differing:
        print(f"\n{title_of(row)}", *row["differs"], sep="\n    ")
    seconds = time.monotonic() - begin
    print(f"\n{len(cases)} calls for {GPU} in {seconds:.0f} s: {len(differing)} launches differ")
    if options.json:
        options.json.write_text(json.dumps({"gpu": GPU, "rows": rows}) + "\n", encoding="utf-8")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
