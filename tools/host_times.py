"""What the CPU needs for a call, once it is known: two checkouts in one process, by turns.

    python tools/host_times.py ../before .
    python tools/host_times.py ../before . --only norm --json times.json

Tensors are tiny, so that a GPU keeps up with the CPU. Each figure is a median over turns, in
microseconds; `of x * 2` are multiples of what PyTorch needs for that, in the same turns. The ways
are `forward`, without a gradient; `recorded`, a forward that autograd records; and `both`, which is
forward and backward. On a machine with many cores, `taskset -c 2` before the command steadies them.

Without a GPU launches are stubbed: what is timed is Python's share. Figures of the two kinds can't
be compared, for on a CPU the package also checks the values of positions.
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor

from two_checkouts import DEVICE, HAS_GPU, ROOT, choose_engine, copy_packages, load_packages

sys.path.insert(0, str(ROOT))

from benchmarks.row_inputs import function_of
from rope_lab.records import circumstances, origin
from rope_lab.timing import in_turns

B, S, HEADS, KV_HEADS, D = 1, 4, 4, 2, 64
BLOCKS, PAGE = 2, 16
LIMIT = "x * 2"
# A CPU alone runs a backward in the same thread, and others' work there doesn't count.
clock = time.perf_counter if HAS_GPU else time.thread_time
BSHD, THD = {"tensor_format": "bshd"}, {"tensor_format": "thd"}
Tensors = tuple[Tensor, ...]


def random(*sizes: int) -> Tensor:
    return torch.randn(sizes, dtype=torch.bfloat16, device=DEVICE)


def tensors() -> SimpleNamespace:
    """What both packages are given."""
    return SimpleNamespace(
        q=random(B, S, HEADS, D),
        k=random(B, S, KV_HEADS, D),
        qkv=random(B, S, (HEADS + 2 * KV_HEADS) * D),
        packed=(random(S, HEADS, D), random(S, KV_HEADS, D), random(S, KV_HEADS, D)),
        caches=random(2, BLOCKS, PAGE, KV_HEADS, D).unbind(),
        slots=torch.arange(S, device=DEVICE),
        ids=torch.arange(S, device=DEVICE),
        weights=(random(D), random(D)),
    )


def calls_of(package: ModuleType, x: SimpleNamespace) -> dict[str, tuple[Callable, Tensors]]:
    """By name: a call, and what it is given that may have a gradient."""
    rope = package.RotaryPositionEmbedding(D).to(DEVICE)
    table = rope(S)
    of_pairs = table.flatten(1)[:, : D // 2]  # the other half repeats it
    cos, sin = of_pairs.cos(), of_pairs.sin()
    heads = {"num_heads": HEADS, "num_kv_heads": KV_HEADS}
    w, w_k = x.weights
    one, two, qkv = (x.q,), (x.q, x.k), (x.qkv,)

    norm_rope = function_of(package, "norm_rope")
    qk_norm_rope = function_of(package, "qk_norm_rope")
    split_qkv_rope = function_of(package, "split_qkv_rope")
    rope_to_cache = function_of(package, "rope_to_cache")

    def rotate(freqs: object) -> Callable:
        return lambda t: package.apply_rotary_pos_emb(t, freqs, **BSHD)

    def rotate_both(freqs: object, **options: object) -> Callable:
        return lambda q, k: package.rope_qk(q, k, freqs, **options)

    def to_cache(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        written = *x.caches, x.slots
        return rope_to_cache(q, k, v, rope, *written, position_ids=x.ids)

    return {
        "apply_rotary_pos_emb, a table": (rotate(table), one),
        "apply_rotary_pos_emb, on the fly": (rotate(rope), one),
        "rope_qk, on the fly": (rotate_both(rope, **BSHD), two),
        "rope_qk, (cos, sin)": (rotate_both((cos, sin), rotary_dim=D, **BSHD), two),
        "rope_qk, an int start": (rotate_both(rope, start_positions=100, **BSHD), two),
        "norm_rope": (lambda t, w: norm_rope(t, w, rope, **BSHD), (x.q, w)),
        "qk_norm_rope": (
            lambda q, k, w, w_k: qk_norm_rope(q, k, w, w_k, rope, **BSHD),
            (x.q, x.k, w, w_k),
        ),
        "split_qkv_rope": (lambda t: split_qkv_rope(t, rope, **heads, **BSHD), qkv),
        "rope_to_cache": (to_cache, x.packed),
    }


def ways_of(name: str, call: Callable, given: Tensors) -> dict[str, Callable]:
    """A call without a gradient, recorded, and with its backward."""
    if name == "rope_to_cache":  # which has none
        return {"forward": lambda: call(*given)}
    leaves = [x.detach().requires_grad_() for x in given]

    def results(tensors: Sequence[Tensor]) -> Tensors:
        outs = call(*tensors)
        return outs if isinstance(outs, tuple) else (outs,)

    grads = [torch.randn_like(out) for out in results(given)]
    return {
        "forward": lambda: call(*given),
        "recorded": lambda: call(*leaves),
        "both": lambda: torch.autograd.grad(results(leaves), leaves, grads),
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
    """Let the interpreter run no kernel, and return what a later call launches, as the compiler."""
    from triton.runtime.interpreter import InterpretedFunction

    class Launched:
        def __getitem__(self, grid: tuple) -> Callable:
            return lambda *arguments, **options: None

    InterpretedFunction.run = lambda *arguments, **options: Launched()


def rows_of(
    before: ModuleType, after: ModuleType, wanted: str, turns: int, calls: int
) -> list[dict]:
    """Measure all calls with `wanted` in their name, and print each."""
    x, rows = tensors(), []
    by_package = {"before": calls_of(before, x), "after": calls_of(after, x)}
    limit = ways_of(LIMIT, lambda t: t * 2, (x.q,))
    titles = f"{'before':>8} {'after':>8} {'differs':>8}   {'of ' + LIMIT:>14}"
    print(f"{'microseconds':34} {'way':9} {titles}")
    for name in by_package["before"]:
        if wanted not in name:
            continue
        ways = {package: ways_of(name, *calls[name]) for package, calls in by_package.items()}
        for way in ways["before"]:
            cases = {package: of_package[way] for package, of_package in ways.items()}
            gc.collect()
            found = in_turns(cases | {LIMIT: limit[way]}, partial(time_of, calls=calls), turns)
            row = {name: statistics.median(times) for name, times in found.items()}
            rows.append({"call": name, "way": way} | {x: round(us, 2) for x, us in row.items()})
            us, then, of_limit = row["before"], row["after"], row[LIMIT]
            times = f"{us:8.2f} {then:8.2f} {then - us:+8.2f}"
            multiples = f"{us / of_limit:6.2f} {then / of_limit:6.2f}"
            print(f"{name:34} {way:9} {times}   {multiples}", flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a folder that holds rope_kernels")
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="calls with these in their name"
    )
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--calls", type=int, default=200, help="in each turn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures, too")
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
        rows = rows_of(*packages, options.only, options.turns, options.calls)
    if options.json:
        found = {"measured": what, **where, "turns": options.turns, "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
