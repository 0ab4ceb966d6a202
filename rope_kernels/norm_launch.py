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
from .normalization import Normalization, Wanted
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
    rows = tensors, outs, weights, rstds, sumsqs
    if not all([t.numel() for t in tensors]):
        rows = _of_tensors_with_elements(tensors, *rows)
    if rows[0]:
        stored = rows[0] if inplace else [t.resolve_neg() for t in rows[0]]
        given = forward_tensors(stored, *rows[1:], positions, rotation)
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
    given_sums: bool,
    wanted: Wanted,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Gradients of the inputs, of the weights, and of sums of squares, in at most two launches.

    With weights of each head, those of q and of k are added up in a launch each.

    Args:
        grads: of the outputs.
        kept: the inputs.
        rstds, positions: what the forward returned.
        weights, rotation, norm: as in the forward.
        given_sums: the forward's sums of squares came from elsewhere.
        wanted: which gradients are computed. What is not wanted is returned as ().
    """
    if positions is not None:
        rotation = at_positions(rotation, positions)
    outs, of_weights, of_sums = (), (), ()
    if wanted.inputs:
        outs = tuple([torch.empty_like(x, memory_format=torch.contiguous_format) for x in kept])
    if wanted.weights:
        of_weights = [torch.empty_like(w, memory_format=torch.contiguous_format) for w in weights]
    if wanted.sums:
        of_sums = tuple([torch.empty_like(x) for x in rstds])
    rows = grads, kept, outs, weights, rstds, of_sums
    filled = of_weights
    if not all([x.numel() for x in kept]):
        *rows, filled = _of_tensors_with_elements(kept, *rows, of_weights)
        for x, w in zip(kept, of_weights, strict=False):
            if not x.numel():
                w.zero_()
    if rows[0]:
        grads, kept, *others = rows
        grads, kept = ([x.resolve_neg() for x in row] for row in (grads, kept))
        given = backward_tensors(grads, kept, *others, rotation)
        options = rotation, norm, given_sums, positions is not None
        _launch_backward(given, filled, *options)
    return outs, tuple(of_weights), of_sums


def _launch_backward(
    given: BackwardTensors,
    of_weights: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    given_sums: bool,
    packed: bool,
) -> None:
    """The launch that goes through all rows, and the one that adds up gradients of weights."""
    signature = BACKWARD, packed, given_sums, len(of_weights), *rotation.options, *norm.fields
    entry = fastpath.entry_of_launch(signature, given)
    options = rotation, norm, bool(of_weights), given_sums, packed
    shares = None if entry is None else entry.shares
    if shares is None:
        shares = shares_of(plan_backward(given, *options), len(of_weights))
    if entry is not None:
        entry.shares = shares
    row = given.q.shape[-1]
    partials = [given.q_rstd.new_empty(n, row) for n in shares] or of_weights
    q_partial, k_partial = _two(partials)
    given = given._replace(q_partial=q_partial, k_partial=k_partial)
    _launch(entry, given, lambda: plan_backward(given, *options))
    if shares:
        _sum_partials(partials, of_weights)


def _of_tensors_with_elements(
    tensors: Sequence[Tensor], *rows: Sequence[Tensor]
) -> tuple[list[Tensor], ...]:
    """Rows without what belongs to an empty tensor, which no program of a kernel has."""
    kept = [i for i, t in enumerate(tensors) if t.numel()]
    return tuple([[row[i] for i in kept] if row else [] for row in rows])


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


def _sum_partials(partials: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    """Write gradients of the weights: the sums of the programs' shares, in a fixed order."""
    pairs = [(x.view(-1, out.numel()), out) for x, out in zip(partials, outs, strict=True)]
    same_width = len({out.numel() for out in outs}) == 1
    for row in [pairs] if same_width else [[pair] for pair in pairs]:
        given = sum_tensors([x for x, _ in row], [out for _, out in row])
        _launch(fastpath.entry_of_launch((SUM,), given), given, lambda given=given: plan_sum(given))


def _two(tensors: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """Those of q and of k: None where there is none."""
    return both(tuple(tensors)) if tensors else (None, None)


def _contiguous(weights: Sequence[Tensor]) -> list[Tensor]:
    return [w.resolve_neg().contiguous() for w in weights]


def _expanded(sumsqs: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Sums of squares, one for each row, that of all heads repeated."""
    pairs = zip(sumsqs, tensors, strict=False)
    return [x.resolve_neg().expand(t.shape[:-1]) for x, t in pairs]
