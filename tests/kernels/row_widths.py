"""How wide a call's loads and stores of elements can be: what its addresses and its tile allow."""

import math
from collections import Counter
from dataclasses import dataclass

from torch import Tensor

from rope_kernels.launch.layout import strides_of
from rope_kernels.launch.plan import (
    BackwardTensors,
    CacheTensors,
    ForwardTensors,
    Plan,
    SplitTensors,
    SumTensors,
    Tensors,
)
from rope_kernels.launch.tiles import WHOLE_ROWS

WIDEST = 16  # bytes a thread, in one access


@dataclass(frozen=True)
class Part:
    """What one `tl.load` or `tl.store` of a kernel takes of a program's rows."""

    elements: int  # of a program, those that are masked off too
    steps: tuple[int, ...]  # elements: what divides all of them starts at the same alignment


def row_loads(plan: Plan, tensors: Tensors, warp_size: int) -> dict[int, int]:
    """Loads of elements that the plan asks for at best: bytes a thread -> number of instructions.

    The kernel that adds partial sums has them for elements.

    Args:
        plan: from `plan_for` or `plans_with_backward`.
        tensors: of that plan.
        warp_size: threads in a warp of the GPU.
    """
    if isinstance(tensors, SumTensors):
        tile = Part(plan.constants["BLOCK_N"] * plan.constants["BLOCK_D"], _steps_of_sum(plan))
        return _accesses(plan, [tile], (tensors.q_partial, tensors.k_partial), warp_size)
    if isinstance(tensors, BackwardTensors):
        reads, writes = _pairings(plan)
        grads = _accesses(plan, _parts(plan, writes), (tensors.q_grad, tensors.k_grad), warp_size)
        kept = _accesses(plan, _parts(plan, reads), (tensors.q, tensors.k), warp_size)
        return dict(sorted((Counter(grads) + Counter(kept)).items()))
    parts = _parts(plan, _pairings(plan)[0])
    if plan.kernel == WHOLE_ROWS:
        parts.append(_other_members(plan))
    return _accesses(plan, parts, (tensors.q, tensors.k), warp_size)


def row_stores(plan: Plan, tensors: Tensors, warp_size: int) -> dict[int, int]:
    """Stores of elements that the plan asks for at best, in the same form."""
    reads, writes = _pairings(plan)
    if isinstance(tensors, SumTensors):
        parts = [Part(plan.constants["BLOCK_D"], _steps_of_sum(plan))]
    else:
        parts = _parts(plan, reads if isinstance(tensors, BackwardTensors) else writes)
    return _accesses(plan, parts, (tensors.q_out, tensors.k_out), warp_size)


def stores_more_than_rows(tensors: Tensors) -> bool:
    """Whether a kernel with a norm also stores a number of each row, positions or partial sums."""
    if isinstance(tensors, ForwardTensors):
        return tensors.q_rstd is not None
    if isinstance(tensors, (CacheTensors, SplitTensors)):
        return True  # rows of v, and those of k in a cache twice
    if isinstance(tensors, BackwardTensors):
        return tensors.q_partial is not None
    return False


def bytes_aligned(tensors: tuple[Tensor | None, ...]) -> int:
    """Bytes, up to 16, that divide the address of every row; one element if rows have gaps."""
    aligned = WIDEST
    for t in tensors:
        if t is not None:
            size, (*steps, last) = t.element_size(), strides_of(t)
            aligned = math.gcd(aligned, t.data_ptr(), *(step * size for step in steps))
            aligned = aligned if last == 1 else size
    return aligned


def _pairings(plan: Plan) -> tuple[bool, bool]:
    """Whether pairs are interleaved in the input of a forward, and in its output."""
    head = plan.constants.get("head")
    return (False, False) if head is None else (head.reads_interleaved, head.writes_interleaved)


def _steps_of_sum(plan: Plan) -> tuple[int, int]:
    return plan.constants["D"], plan.constants["BLOCK_D"]


def _parts(plan: Plan, interleaved: bool) -> list[Part]:
    head, tile = plan.constants["head"], plan.constants["tile"]
    half, tail, start = head.half, head.tail, head.start
    rows = tile.positions * tile.rows
    if plan.kernel == WHOLE_ROWS:
        return [Part(rows * head.columns, (2 * half + tail, start))]
    pairs = rows * head.columns
    if interleaved:
        parts = [Part(2 * pairs, (2 * half, start))]
    else:
        parts = [Part(pairs, (half, start))] * 2
    if tail:
        parts.append(Part(rows * head.tail_columns, (2 * half, start, tail)))
    return parts


def _other_members(plan: Plan) -> Part:
    [whole] = _parts(plan, False)
    return Part(whole.elements, (*whole.steps, plan.constants["head"].half))


def _accesses(
    plan: Plan, parts: list[Part], tensors: tuple[Tensor | None, ...], warp_size: int
) -> dict[int, int]:
    size, threads = tensors[0].element_size(), plan.num_warps * warp_size
    aligned, found = bytes_aligned(tensors), Counter()
    for part in parts:
        of_a_thread = max(1, part.elements // threads) * size
        width = math.gcd(aligned, *(step * size for step in part.steps), of_a_thread)
        found[width] += of_a_thread // width
    return dict(sorted(found.items()))
