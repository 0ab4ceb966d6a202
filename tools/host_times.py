"""Time what the CPU needs for a cached call: two checkouts in one process, alternated.

    python tools/host_times.py ../before .
    python tools/host_times.py ../before . --only norm --json times.json

Tensors are tiny, so that a GPU keeps up with the CPU. Figures are medians over turns, in
microseconds; `of x * 2` are multiples of PyTorch's time for `x * 2`, in the same turns. `forward`
is without a gradient, `recorded` a forward that autograd records, `both` forward and backward. On a
machine with many cores, run it with `taskset -c 2` for steadier figures.

Without a GPU, launches are stubbed, and only Python's part is measured. These figures can't be
compared with those on a GPU, because on a CPU the package also checks the values of positions.
"""

import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from sized_calls import Call, Case
from two_checkouts import (
    DEVICE,
    HAS_GPU,
    ROOT,
    choose_engine,
    copy_packages,
    load_packages,
    parser_of,
)

sys.path.insert(0, str(ROOT))

from benchmarks.case import ANGLES, FP32_OF_PAIRS, NO_TABLE, Row
from rope_lab.records import circumstances, origin
from rope_lab.timing import in_turns

LIMIT = "x * 2"
# Without a GPU, a backward runs in the same thread, so the time of other threads doesn't count.
clock = time.perf_counter if HAS_GPU else time.thread_time


def all_cases() -> list[Case]:
    two = Row("rope_qk", NO_TABLE, "bshd", s=4, h=4, k_heads=2, d=64)
    one = replace(two, k_heads=0)
    norm, norms = (replace(row, function="qk_norm_rope") for row in (one, two))
    cache = replace(two, function="rope_to_cache", tensor_format="thd", position_ids=True)
    split = {"options": {"packing": "qkv"}, "function": "split_qkv_rope"}
    case = partial(Case, "", backward=True)
    return [
        case("apply_rotary_pos_emb, a table", replace(one, table=ANGLES)),
        case("apply_rotary_pos_emb, on the fly", one),
        case("rope_qk, on the fly", two),
        case("rope_qk, (cos, sin)", replace(two, table=FP32_OF_PAIRS)),
        case("rope_qk, an int start", two, {"start_positions": 100}),
        case("norm_rope", norm),
        case("qk_norm_rope", norms),
        case("split_qkv_rope", two, **split),
        Case("", "rope_to_cache", cache),
    ]


def ways_of(call: Call) -> dict[str, Callable]:
    """A call without a gradient, recorded, and with its backward."""
    leaves = call.leaves
    given = [x.detach() if isinstance(x, Tensor) else x for x in call.given]
    forward = partial(call.function, *given, **call.options)
    recorded = partial(call.function, *call.given, **call.options)
    if not leaves:
        return {"forward": forward}

    def results() -> tuple[Tensor, ...]:
        outs = recorded()
        return outs if isinstance(outs, tuple) else (outs,)

    grads = [torch.randn_like(out) for out in results()]
    return {
        "forward": forward,
        "recorded": recorded,
        "both": lambda: torch.autograd.grad(results(), leaves, grads),
    }


def time_of(call: Callable, calls: int) -> float:
    """Microseconds to queue a call."""
    call()
    synchronize()
    begin = clock()
    for _ in range(calls):
        call()
    queued = clock() - begin
    synchronize()
    return queued / calls * 1e6


def synchronize() -> None:
    if HAS_GPU:
        torch.cuda.synchronize()


def leave_out_launches() -> None:
    """Let the interpreter run no kernel, and return a stub that later calls launch."""
    from triton.runtime.interpreter import InterpretedFunction

    class Launched:
        def __getitem__(self, grid: tuple) -> Callable:
            return lambda *arguments, **options: None

    InterpretedFunction.run = lambda *arguments, **options: Launched()


def rows_of(packages: Sequence[ModuleType], wanted: str, turns: int, calls: int) -> list[dict]:
    """Measure all calls with these words in their name, and print each."""
    x = torch.randn(1, 4, 4, 64, dtype=torch.bfloat16, device=DEVICE, requires_grad=True)
    limit = ways_of(Call(lambda t: t * 2, (x,), {}, (x,)))
    rows = []
    titles = f"{'before':>8} {'after':>8} {'differs':>8}   {'of ' + LIMIT:>14}"
    print(f"{'microseconds':34} {'way':9} {titles}")
    for case in all_cases():
        name = case.name
        if not case.has(wanted):
            continue
        before, after = (ways_of(case.call(package, DEVICE)) for package in packages)
        ways = {"before": before, "after": after}
        for way in before:
            cases = {package: of_package[way] for package, of_package in ways.items()}
            gc.collect()
            found = in_turns(cases | {LIMIT: limit[way]}, partial(time_of, calls=calls), turns)
            row = {key: statistics.median(times) for key, times in found.items()}
            rows.append({"call": name, "way": way} | {x: round(us, 2) for x, us in row.items()})
            us, then, of_limit = row["before"], row["after"], row[LIMIT]
            times = f"{us:8.2f} {then:8.2f} {then - us:+8.2f}"
            multiples = f"{us / of_limit:6.2f} {then / of_limit:6.2f}"
            print(f"{name:34} {way:9} {times}   {multiples}", flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--calls", type=int, default=200, help="in each turn")
    options = parser.parse_args(arguments)
    choose_engine()
    where = circumstances()
    what = (
        "what the CPU needs to queue a call" if HAS_GPU else "Python's share; no GPU, no launches"
    )
    print(f"{what}: {origin(**where)}")
    with tempfile.TemporaryDirectory(prefix="host_times-") as folder:
        copy_packages(options.before, options.after, Path(folder))
        packages = load_packages(Path(folder))
        if not HAS_GPU:
            leave_out_launches()
        gc.disable()
        rows = rows_of(packages, options.only, options.turns, options.calls)
    if options.json:
        found = {"measured": what, **where, "turns": options.turns, "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
