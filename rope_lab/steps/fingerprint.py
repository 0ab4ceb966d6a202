"""How long you wait for a call of a row: by itself, in a graph, and when one thing changes."""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from rope_kernels import RotaryPositionEmbedding, reference, rope_fw

from ..timing import in_a_graph, in_turns, require_compiled_kernels

CALLS = 32  # in a row: you wait for the host or for the device, whichever is slower
CHANGES = (  # in the order in which notebook 08 asks
    "in a graph",
    "half the programs",
    "twice the arithmetic",
    "twice the dtype",
    "warm L2",
)
_SAMPLES = 30

Call = Callable[[], object]


def fingerprint(calls: dict[str, Call], eighths: Sequence[Call]) -> dict[str, float]:
    """Microseconds a call ("us"), and how many times as long it takes after each of `CHANGES`.

    Times are what you wait for a call in a row of `CALLS`. For "warm L2" both rows are graphs: of
    one eighth again and again, over those of all eighths in turn, which L2 cannot hold together.

    Args:
        calls: one "as it is", and the same after each change that is neither a graph nor L2's.
        eighths: eight calls for an eighth of the positions each.

    Raises:
        RuntimeError: there is no GPU, or Triton's interpreter is on.
    """
    require_compiled_kernels()
    rows = {name: row_of([call]) for name, call in calls.items()}
    rows["in a graph"] = in_a_graph(rows["as it is"])
    rows |= {"cold L2": in_a_graph(row_of(eighths)), "warm L2": in_a_graph(row_of(eighths[:1]))}
    us = waits(rows)
    found = {"us": round(us["as it is"], 2)}
    for name in CHANGES:
        before = us["cold L2" if name == "warm L2" else "as it is"]
        found[name] = round(us[name] / before, 3)
    return found


def row_of(calls: Sequence[Call]) -> Call:
    """`CALLS` calls, these in turn."""
    return lambda: [calls[place % len(calls)]() for place in range(CALLS)]


def waits(rows: dict[str, Call]) -> dict[str, float]:
    """Microseconds a call until the device is done with its row; the rows take turns."""

    def wait(row: Call) -> float:
        begin = time.perf_counter()
        row()
        torch.cuda.synchronize()
        return 1e6 * (time.perf_counter() - begin) / CALLS

    samples = in_turns(rows, wait, _SAMPLES)
    return {name: statistics.median(times) for name, times in samples.items()}


def rows_of_calls() -> dict[str, dict[str, float]]:
    """Microseconds that you wait for one of 32 small calls, eager and ours."""
    t = torch.randn(64, 1, 16, 64, device="cuda", dtype=torch.bfloat16)
    freqs = RotaryPositionEmbedding(64).cuda()(64)
    rotations = {"eager": reference.apply_rotary_pos_emb, "ours": rope_fw}
    rows = {name: row_of([partial(rotate, t, freqs)]) for name, rotate in rotations.items()}
    graphs = {name: in_a_graph(row) for name, row in rows.items()}
    found = {"one by one": waits(rows), "as a graph": waits(graphs)}
    return {way: {name: round(us, 2) for name, us in of.items()} for way, of in found.items()}
