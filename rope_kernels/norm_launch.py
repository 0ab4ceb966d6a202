"""The launches of `norm_kernels.py`: tensors as the kernels read them, and their runs."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from . import fastpath
from .launch import run
from .norm_plan import (
    BACKWARD,
    FORWARD,
    SUM,
    BackwardTensors,
    ForwardTensors,
    SumTensors,
    plan_backward,
    plan_forward,
    plan_sum,
    shares_of,
)
from .normalization import Normalization
from .plan import Plan, as_read, both
from .rotation import Rotation


def norm_rope(
    tensors: Sequence[Tensor],
    weights: Sequence[Tensor],
    sumsqs: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    inplace: bool,
    for_backward: bool,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor | None]:
    """Normalize and rotate one or two tensors, known to be good, in one launch.

    Returns:
        The results, new and contiguous, or with `inplace` the tensors themselves; 1 / rms of their
        rows, fp32 (fp64 for fp64), and positions of packed tokens, int64: both `for_backward` only.
    """
    outs, rstds, positions = tuple(tensors), (), None
    if not inplace:
        outs = tuple([torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors])
    if for_backward:
        if rotation.cu_seqlens is not None:
            positions = rotation.cu_seqlens.new_empty(tensors[0].shape[0], dtype=torch.int64)
        dtype = torch.promote_types(tensors[0].dtype, torch.float32)
        rstds = tuple([t.new_empty(t.shape[:-1], dtype=dtype) for t in tensors])
    stored = tensors if inplace else [t.resolve_neg() for t in tensors]
    given = forward_tensors(stored, outs, weights, rstds, sumsqs, positions, rotation)
    entry = fastpath.entry_of_launch((FORWARD, *rotation.options, *norm.fields), given)
    _launch(entry, given, lambda: plan_forward(given, rotation, norm))
    return outs, rstds, positions


def norm_rope_backward(
    grads: Sequence[Tensor],
    kept: Sequence[Tensor],
    rstds: Sequence[Tensor],
    positions: Tensor | None,
    weights: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    has_sumsq: bool,
    wants_weights: bool,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Gradients of the inputs, of the weights, and of sums of squares, in two launches.

    `kept` are the inputs; `rstds` and `positions` are what the forward returned. Without weights it
    is one launch.
    """
    if positions is not None:
        rotation = at_positions(rotation, positions)
    grads = [x.resolve_neg() for x in grads]
    kept = [x.resolve_neg() for x in kept]
    outs = tuple([torch.empty_like(x, memory_format=torch.contiguous_format) for x in kept])
    sumsq_grads = tuple([torch.empty_like(x) for x in rstds]) if has_sumsq else ()
    given = backward_tensors(grads, kept, outs, weights, rstds, sumsq_grads, rotation)
    packed, wanted = positions is not None, len(weights) if wants_weights else 0
    options = BACKWARD, packed, wanted, *rotation.options, *norm.fields
    entry = fastpath.entry_of_launch(options, given)
    shares = None if entry is None else entry.shares
    if shares is None:
        shares = shares_of(plan_backward(given, rotation, norm, packed), wanted)
    if entry is not None:
        entry.shares = shares
    partials = [rstds[0].new_empty(n, kept[0].shape[-1]) for n in shares]
    q_partial, k_partial = _two(partials)
    given = given._replace(q_partial=q_partial, k_partial=k_partial)
    _launch(entry, given, lambda: plan_backward(given, rotation, norm, packed))
    return outs, _sum_partials(partials, weights[:wanted]), sumsq_grads


def forward_tensors(
    tensors: Sequence[Tensor],
    outs: Sequence[Tensor],
    weights: Sequence[Tensor],
    rstds: Sequence[Tensor],
    sumsqs: Sequence[Tensor],
    positions: Tensor | None,
    rotation: Rotation,
) -> ForwardTensors:
    """The tensors of a forward launch, as the kernel reads them."""
    rows = (*_two(tensors), *_two(outs), *_two(_contiguous(weights)), *_two(rstds))
    sums = _two(_expanded(sumsqs, tensors))
    read = as_read(rotation.table, rotation.sin, rotation.cu_seqlens, rotation.start_positions)
    return ForwardTensors(*rows, *sums, positions, *read, rotation.position_ids)


def backward_tensors(
    grads: Sequence[Tensor],
    kept: Sequence[Tensor],
    outs: Sequence[Tensor],
    weights: Sequence[Tensor],
    rstds: Sequence[Tensor],
    sumsq_grads: Sequence[Tensor],
    rotation: Rotation,
) -> BackwardTensors:
    """The tensors of a backward launch, but for partial sums: the plan tells their number."""
    rows = (*_two(grads), *_two(kept), *_two(outs), *_two(_contiguous(weights)), *_two(rstds))
    read = as_read(rotation.table, rotation.sin, rotation.start_positions)
    return BackwardTensors(*rows, *_two(sumsq_grads), None, None, *read, rotation.position_ids)


def sum_tensors(partials: Sequence[Tensor], outs: Sequence[Tensor]) -> SumTensors:
    """The tensors of the launch that adds partial sums."""
    return SumTensors(*_two(partials), *_two(outs))


def at_positions(rotation: Rotation, positions: Tensor) -> Rotation:
    """The rotation of packed tokens, whose positions the forward has written."""
    where = {"cu_seqlens": None, "start_positions": None, "position_ids": positions}
    return replace(rotation, **where, cp_size=1, cp_rank=0)


def _launch(entry: fastpath.Entry | None, given: tuple, plan: Callable[[], Plan]) -> None:
    """Launch what is planned, or what the fast path remembers of such tensors."""
    if entry is not None and entry.launch is not None and entry.launch(given):
        return
    device = given[0].device
    # Triton launches on the current device, and the fast path remembers which one that was
    with torch.cuda.device(device if device.type == "cuda" else -1):
        if entry is not None and entry.launch is not None and entry.launch(given):
            return
        planned = plan()
        compiled = run(planned, given)
        if entry is not None:
            entry.launch = fastpath.shortest_launch(
                compiled, planned.programs, planned.numbers, all_are_signed=True
            )


def _sum_partials(partials: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Gradients of the weights, in their dtype: the sums of the programs' shares, in order."""
    if not partials:
        return ()
    if weights[0].dim() == 2:
        shares = [x.view(-1, *w.shape) for x, w in zip(partials, weights, strict=True)]
        return tuple([x.sum(0).to(w.dtype) for x, w in zip(shares, weights, strict=True)])
    outs = tuple([torch.empty_like(w, memory_format=torch.contiguous_format) for w in weights])
    given = sum_tensors(partials, outs)
    _launch(fastpath.entry_of_launch((SUM,), given), given, lambda: plan_sum(given))
    return outs


def _two(tensors: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """Those of q and of k: None where there is none."""
    return both(tuple(tensors)) if tensors else (None, None)


def _contiguous(weights: Sequence[Tensor]) -> list[Tensor]:
    return [w.resolve_neg().contiguous() for w in weights]


def _expanded(sumsqs: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Sums of squares, one for each row, that of all heads repeated."""
    pairs = zip(sumsqs, tensors, strict=False)
    return [x.resolve_neg().expand(t.shape[:-1]) for x, t in pairs]
