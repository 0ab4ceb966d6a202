"""One launch that rotates: from tensors to a plan, and the kernel that it runs."""

import torch
from torch import Tensor

from ..call.rotation import Rotation, memory_for
from . import fastpath
from .plan import RopeTensors, as_read
from .rope_plan import make_plan
from .run import run

# Of the kernel's tensors: outputs, and perhaps what a module has.
NOT_IN_A_SIGNATURE = tuple(map(RopeTensors._fields.index, ("q_out", "k_out", "table", "axes")))


def rotate(
    tensors: tuple[Tensor, ...], rotation: Rotation, inplace: bool, entry: fastpath.Entry | None
) -> tuple[Tensor, ...]:
    """Rotate one or two tensors, known to be good, in one launch of the kernel.

    The results are new and contiguous; or with `inplace` the tensors themselves, of which only the
    rotary slice is touched. `entry` is what the fast path remembers of such calls.
    """
    outs = tensors  # a pending minus sign of a view may stay: -x turned is minus x turned
    if not inplace:
        outs = memory_for(tensors, rotation)
    pairs = (*tensors, *outs) if len(tensors) == 2 else (*tensors, None, *outs, None)
    given = *pairs, *rotation.tensors
    if entry is not None and entry.launch is not None and entry.launch(given):
        return outs
    # Triton launches on the current device. If that was another one, try again on this one.
    with torch.cuda.device_of(tensors[0]):
        if entry is None or entry.launch is None or not entry.launch(given):
            _plan_and_run(RopeTensors(*given), rotation, inplace, entry)
    return outs


def _plan_and_run(
    given: RopeTensors, rotation: Rotation, inplace: bool, entry: fastpath.Entry | None
) -> None:
    tensors = as_stored(given, inplace)
    if tensors.q is None:
        return
    plan = make_plan(tensors, rotation, inplace)
    compiled = run(plan, tensors)
    copied = any(x is not y for x, y in zip(tensors, given, strict=True))
    if entry is not None and not copied:
        unsigned = tuple([i for i in NOT_IN_A_SIGNATURE if given[i] is not None])
        entry.launch = fastpath.shortest_launch(compiled, plan.programs, plan.arguments, unsigned)


def as_stored(given: RopeTensors, inplace: bool) -> RopeTensors:
    """The tensors as the kernel reads them; without q or k where they have no elements."""
    pairs = (given.q, given.q_out), (given.k, given.k_out)
    pairs = [(t, out) for t, out in pairs if t is not None and t.numel()]
    (q, q_out), (k, k_out) = [*pairs, (None, None), (None, None)][:2]
    if not inplace:
        q, k = (None if t is None else t.resolve_neg() for t in (q, k))
    read = as_read(given.table, given.sin, given.cu_seqlens, given.starts)
    return RopeTensors(q, k, q_out, k_out, *read, given.ids, given.axes)
