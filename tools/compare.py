"""Compare the calls of two checkouts: their times on a GPU, or without one, their machine code.

    python tools/compare.py ../before .
    python tools/compare.py ../before . --only "d=80 thd" --json found.json

The calls are the benchmark's cases, other head dimensions and options, and `split_qkv_rope`.

On a GPU, a line has per cent of the speed of `copy_` before and after, and the limit that the
call's own bytes set (`benchmarks/case.py`). Both and the copy alternate, and the L2 cache is
flushed before each sample (`rope_lab/timing.py`). `scatter` is the spread of the medians of rounds,
in the same points: smaller differences mean nothing.

Without a GPU, calls are planned as on an H200 and compiled by Triton and its ptxas, which takes
some minutes. Of each launch, the grid, the warps and the SASS are compared: opcodes in order, loads
and stores by width, registers, shared memory, spills. Names and arguments of kernels are ignored.
The exit status is 1 if a launch differs, or a call fails.
"""

import argparse
import gc
import importlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.case import (
    ANGLES,
    BENCHMARKS,
    BF16_OF_PAIRS,
    BOTH_WAYS,
    FP32,
    NO_TABLE,
    Case,
    function_case,
    in_directions,
)
from benchmarks.inputs import Inputs, function_of
from benchmarks.providers import Copy, Ours, Run
from rope_lab.compiler.compile import Compiled
from rope_lab.compiler.launches import Launch
from rope_lab.compiler.plans import plans
from rope_lab.compiler.stages import operations
from rope_lab.records import circumstances, origin
from rope_lab.timing import measure

NAMES = "before", "after"
FORMATS = "bshd", "bhsd", "sbhd", "thd"
TABLES = NO_TABLE, ANGLES, FP32, BF16_OF_PAIRS
HEAD_DIMS = 64, 72, 80, 88, 96, 112, 120, 160, 192, 256
FACTS = "grid", "num_warps", "registers", "shared", "spilled", "stack", "loads", "stores"
MOST_OPCODES = 6  # in a report
ROUNDS = 7  # of before, after and the copy


@dataclass(frozen=True)
class Call:
    """A case, and what it has beyond that."""

    case: Case
    options: dict[str, object] = field(default_factory=dict)  # further keywords
    splits: bool = False  # `split_qkv_rope`, out of a projection

    @property
    def title(self) -> str:
        case = self.case
        options = [f"{name}={value}" for name, value in self.options.items()]
        name = case.label if case.function else f"{case.label}, {case.direction}"
        name = f"split, {case.tensor_format}" if self.splits else name
        return ", ".join([name, *options, f"{case.dtype} d={case.d}"])

    @property
    def copies(self) -> float:
        """The number of copies of q and k that move as many bytes of rows; a split moves v, too."""
        return self.case.copies + self.splits * self.case.k_heads / self.case.heads

    def run(self, package: ModuleType, device: str) -> Run:
        return OfACall(self, package).run(Inputs(self.case, device))


class OfACall(Ours):
    """Ours with the call's options."""

    def __init__(self, call: Call, package: ModuleType) -> None:
        super().__init__(package=package)
        self.of_call = call

    def options(self, inputs: Inputs) -> dict[str, object]:
        return super().options(inputs) | self.of_call.options

    def run(self, inputs: Inputs) -> Run:
        if not self.of_call.splits:
            return super().run(inputs)
        case, function = inputs.case, function_of(self.package, "split_qkv_rope")
        v = inputs.grad[:, :, : case.k_heads]
        qkv = torch.cat((inputs.x, v), 2).flatten(2)
        qkv = qkv.flatten(0, 1) if case.tensor_format == "thd" else qkv
        given = qkv, self.freqs(inputs), case.h, case.k_heads
        options = self.options(inputs) | {"tensor_format": case.tensor_format}
        return Run(partial(function, *given, **options))


def all_calls() -> list[Call]:
    """The benchmark's cases, then what it doesn't have.

    A backward in place launches what other backwards do.
    """
    cases = [
        replace(case, alone=True)
        for cases in BENCHMARKS.values()
        for case in cases
        if case.clock == "device" and not (case.inplace and case.is_backward)
    ]
    calls = [Call(case) for case in dict.fromkeys(cases)]
    for d in HEAD_DIMS:
        for tensor_format in FORMATS:
            sizes = {} if tensor_format == "thd" else {"s": 4096, "b": 2}
            case = partial(function_case, tensor_format=tensor_format, d=d, **sizes)
            calls += [Call(case("rope_qk", table)) for table in TABLES]
            calls.append(Call(case("rope_qk", BF16_OF_PAIRS, direction="backward")))
            norms = [case("qk_norm_rope", table) for table in (NO_TABLE, FP32)]
            calls += map(Call, in_directions(BOTH_WAYS, norms if d in (80, 256) else []))
        for table in (NO_TABLE, BF16_OF_PAIRS):
            calls.append(Call(function_case("rope_to_cache", table, d=d, positions="prompts")))
    for d in (72, 80, 88, 112, 120):  # few heads, which stay in L2
        few = Case(4096, 2, 8, d, table=NO_TABLE, alone=True)
        both = replace(few, k_heads=1, tensor_format="bshd")
        calls += map(Call, (few, replace(few, tensor_format="bhsd"), both))
    for d in (80, 128):
        rotation = function_case("rope_qk", NO_TABLE, "bshd", s=4096, b=2, d=d)
        half = replace(rotation, rotary_dim=d // 2)
        calls += [
            Call(rotation, {"rounding": "model"}),
            Call(replace(rotation, table=BF16_OF_PAIRS), {"rounding": "model"}),
            Call(rotation, {"inverse": True}),
            Call(rotation, {"start_positions": 100}),
            Call(rotation, {"cp_size": 2, "cp_rank": 1, "cp_order": "zigzag"}),
            Call(half, {"rotary_start": d // 2}),
            Call(replace(half, inplace=True)),
            Call(replace(rotation, interleaved=True), {"output_pairing": "half"}),
            Call(replace(rotation, dtype="float16")),
            Call(replace(rotation, dtype="float32")),
            Call(rotation, {"packing": "grouped"}, splits=True),
            Call(function_case("rope_qk", NO_TABLE, d=d), {"packing": "qkv"}, splits=True),
        ]
    return calls


# machine code


def launches_of(call: Call, package: ModuleType, gpu: str = "sm_90") -> list[Launch]:
    """The launches of a call, of tensors without memory; a backward follows its forward."""
    both_ways = replace(call.case, direction="both") if call.case.is_backward else call.case
    run = replace(call, case=both_ways).run(package, "meta")
    with plans(gpu) as found:
        run.call()
    return found


def differences(launches: Sequence[Sequence[Launch]]) -> list[str]:
    """What differs between two calls' launches, in words."""
    if len(launches[0]) != len(launches[1]):
        return [f"launches {len(launches[0])} -> {len(launches[1])}"]
    found = []
    for was, now in zip(*launches, strict=True):
        before, after = was.compiled(), now.compiled()
        facts = [facts_of(was, before), facts_of(now, after)]
        words = [
            f"{name} {facts[0][name]} -> {facts[1][name]}"
            for name in FACTS
            if facts[0][name] != facts[1][name]
        ]
        if without_places(before) != without_places(after):  # Equal PTX makes equal opcodes.
            words += changed_opcodes(*(operations(code, "sass") for code in (before, after)))
        found += [f"{now.name}: {word}" for word in words]
    return found


def facts_of(launch: Launch, code: Compiled) -> dict[str, object]:
    return {"grid": launch.grid, **{name: getattr(code, name) for name in FACTS[1:]}}


def without_places(code: Compiled) -> str:
    """PTX without the kernel's name, and references to the source file."""
    ptx = code.stages["ptx"].partition(".section")[0]  # The rest is for debuggers.
    ptx = re.sub(r"(?m)//.*|^\s*\.(?:loc|file)\b.*|^\$L__(?:tmp|func_)\w+:", "", ptx)
    return " ".join(ptx.replace(code.kernel, "kernel").split())


def changed_opcodes(before: Sequence, after: Sequence) -> list[str]:
    was, now = ([operation.opcode for operation in code] for code in (before, after))
    if was == now:
        return []
    counts = Counter(now)
    counts.subtract(was)
    changed = sorted((-abs(n), f"{name} {n:+}") for name, n in counts.items() if n)
    listed = [words for _, words in changed[:MOST_OPCODES]]
    listed += ["..."] * (len(changed) > MOST_OPCODES)
    words = ", ".join(listed) or "the same opcodes in another order"
    return [f"instructions {len(was)} -> {len(now)}: {words}"]


# times


def time_call(call: Call, packages: Sequence[ModuleType]) -> dict:
    """Per cent of a copy, before and after."""
    gc.collect()
    runs = {n: call.run(p, "cuda").call for n, p in zip(NAMES, packages, strict=True)}
    copy = Copy().run(Inputs(call.case)).call
    found = measure(runs | {"copy": copy}, rounds=ROUNDS)
    us = {name: timing.median_us for name, timing in found.items()}
    per_cent = 100 * call.copies * us["copy"]
    row = {name: round(per_cent / us[name], 2) for name in NAMES}
    row["scatter"] = round(max(t.spread for t in found.values()) * row["after"], 2)
    return row | {"limit": round(100 * call.case.own_limit, 2), "microseconds": us}


def in_a_line(row: dict) -> str:
    differs = f"{row['after'] - row['before']:+.1f}, scatter {row['scatter']:.1f}"
    limit = f"limit {row['limit']:.1f}, copy {row['microseconds']['copy']:.1f} us"
    return f"{row['before']:.1f} -> {row['after']:.1f} ({differs}), {limit}"


# the packages, in all processes


def copy_packages(checkouts: Sequence[Path], folder: Path) -> None:
    """Copy both packages to `folder`, under different names.

    PyTorch registers operators under the package's name, and Triton reads the source files of
    kernels.
    """
    for name, checkout in zip(NAMES, checkouts, strict=True):
        package = checkout / "rope_kernels"
        if not (package / "__init__.py").is_file():
            raise SystemExit(f"{package} is not a package; accepted: the folder of a checkout")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package, folder / f"rope_kernels_{name}", ignore=ignored)


def load_packages(folder: Path) -> list[ModuleType]:
    sys.path.insert(0, str(folder))
    return [importlib.import_module(f"rope_kernels_{name}") for name in NAMES]


def start_process(folder: Path) -> None:
    """Run first in each process."""
    global packages
    packages = load_packages(folder)
    torch.set_num_threads(1)


def compile_call(number: int) -> dict:
    """Compile a call of both packages; without a GPU, compare the machine code."""
    call = all_calls()[number]
    try:
        if torch.cuda.is_available():  # Triton caches kernels on disk, for the process that times.
            for package in packages:
                call.run(package, "cuda").call()
            torch.cuda.synchronize()
            return {}
        return {"differs": differences([launches_of(call, package) for package in packages])}
    except Exception as error:  # The other calls are compared anyway.
        return {"differs": [f"{type(error).__name__}: {error}"]}


# the command


def rows_of(calls: dict[int, Call], folder: Path) -> Iterator[dict]:
    workers = min(8, os.cpu_count() or 1, len(calls))
    context = get_context("spawn")  # CUDA doesn't work in forks.
    with ProcessPoolExecutor(workers, context, start_process, (folder,)) as pool:
        compiled = pool.map(compile_call, calls)
        if torch.cuda.is_available():  # Nothing else may run while calls are timed.
            compiled, both = list(compiled), load_packages(folder)
        for call, row in zip(calls.values(), compiled, strict=True):
            yield {"call": call.title} | (row or time_call(call, both))


def main(arguments: Sequence[str] | None = None) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("before", type=Path, help="a folder that contains rope_kernels")
    parser.add_argument("after", type=Path)
    only = "only calls whose title contains each of these words"
    parser.add_argument("--only", default="", metavar="WORDS", help=only)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all results to FILE")
    options = parser.parse_args(arguments)
    words = options.only.split()
    calls = {n: x for n, x in enumerate(all_calls()) if all(word in x.title for word in words)}
    if not calls:
        parser.error(f"no call has {options.only!r} in its title")
    where, rows = circumstances(), []
    print(origin(**where))
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        copy_packages((options.before, options.after), Path(folder))
        for row in rows_of(calls, Path(folder)):
            rows.append(row)
            if "before" in row:
                print(f"{row['call']}: {in_a_line(row)}", flush=True)
            elif row["differs"]:
                print(row["call"], *row["differs"], sep="\n    ", flush=True)
    unequal = [row for row in rows if row.get("differs")]
    print(f"{len(rows)} calls: {len(unequal)} differ or failed")
    if options.json:
        text = json.dumps(where | {"rows": rows}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 1 if unequal else 0


if __name__ == "__main__":
    sys.exit(main())
