"""The launches of the kernels with a norm: tensors as the kernels read them, and their runs."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..call.normalization import Normalization, Wanted
from ..call.positions import shape_of_kept
from ..call.rotation import Rotation
from . import fastpath
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
from .plan import Plan, as_read, q_and_k
from .run import run

# Which of a kernel's tensors no signature covers: those that are allocated after it is known, and
# what may be a module's.
_NEW = "q_out", "k_out", "q_rstd", "k_rstd", "positions", "table", "axes"
NEW_FORWARD = tuple([ForwardTensors._fields.index(name) for name in _NEW])
_NEW = "q_out", "k_out", "q_sumsq", "k_sumsq", "q_partial", "k_partial"
NEW_BACKWARD = tuple([BackwardTensors._fields.index(name) for name in _NEW])
NEW_SUM = tuple(range(len(SumTensors._fields)))


def norm_rope(
    tensors: Sequence[Tensor],
    weights: Sequence[Tensor],
    sumsqs: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    inplace: bool,
    for_backward: bool,
    entry: fastpath.Entry | None = None,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], Tensor | None]:
    """Normalize and rotate one or two tensors, known to be good, in one launch.

    `entry` is what the fast path remembers of such calls.

    Returns:
        The results, new and contiguous, or with `inplace` the tensors themselves; 1 / rms of their
        rows, fp32 (fp64 for fp64), and positions of packed tokens, int64: both `for_backward` only.
    """
    outs, rstds, positions = tuple(tensors), (), None
    if not inplace:
        outs = tuple([torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors])
    if for_backward:
        if rotation.cu_seqlens is not None:
            shape = shape_of_kept(rotation, tensors[0].shape[0])
            positions = rotation.cu_seqlens.new_empty(shape, dtype=torch.int64)
        dtype = torch.promote_types(tensors[0].dtype, torch.float32)
        rstds = tuple([t.new_empty(t.shape[:-1], dtype=dtype) for t in tensors])
    rows = tensors, outs, weights, rstds, sumsqs
    if entry is None:  # of an operator, or of a call that takes two launches
        signed = *q_and_k(tensors), *q_and_k(weights), *q_and_k(sumsqs), *rotation.tensors
        options = FORWARD, inplace, for_backward, *rotation.options, *norm.values
        entry = fastpath.entry_of_launch(options, signed)
    if entry is not None and entry.launch is not None:
        given = (
            *q_and_k(tensors),
            *q_and_k(outs),
            *q_and_k(weights),
            *q_and_k(rstds),
            *q_and_k(sumsqs),
        )
        if entry.launch((*given, positions, *rotation.tensors)):
            return outs, rstds, positions
    if not all([t.numel() for t in tensors]):
        rows, entry = _of_tensors_with_elements(tensors, *rows), None
    if rows[0]:
        given = forward_tensors(*rows, positions, rotation)

        def read(given: ForwardTensors) -> ForwardTensors:
            return as_read_forward(given, inplace)

        _launch(entry, given, NEW_FORWARD, read, lambda x: plan_forward(x, rotation, norm))
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
    """Gradients of the inputs, of the weights, and of sums of squares, in one to three launches.

    Gradients of weights take another one, which adds up the programs' shares; with weights of each
    head two, if q and k have other numbers of heads, or none, if there is one share.

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
        _launch_backward(rows, filled, rotation, norm, given_sums, positions is not None)
    return outs, tuple(of_weights), of_sums


def _launch_backward(
    rows: Sequence[Sequence[Tensor]],
    of_weights: Sequence[Tensor],
    rotation: Rotation,
    norm: Normalization,
    given_sums: bool,
    packed: bool,
) -> None:
    """The launch that goes through all rows, and the one that adds up gradients of weights.

    `rows` are the first arguments of `backward_tensors`.
    """
    grads, kept, outs, weights, rstds, of_sums = map(q_and_k, rows)
    where = rotation.start_positions, rotation.position_ids, rotation.axes
    tables = rotation.table, rotation.sin, *where
    computed = outs[0] is not None, len(of_weights), of_sums[0] is not None
    options = BACKWARD, packed, given_sums, computed, *rotation.options, *norm.values
    entry = fastpath.entry_of_launch(options, (*grads, *kept, *weights, *rstds, *tables))
    row = kept[0].shape[-1]
    if entry is not None and entry.launch is not None:
        partials = [rstds[0].new_empty(n, row) for n in entry.shares] or of_weights
        given = *grads, *kept, *outs, *weights, *rstds, *of_sums, *q_and_k(partials), *tables
        if entry.launch(given):
            if entry.shares:
                _sum_partials(partials, of_weights, entry)
            return
    given = backward_tensors(*rows, rotation)

    def plan(read: BackwardTensors) -> Plan:
        read = read._replace(q_partial=None, k_partial=None)
        return plan_backward(read, rotation, norm, bool(of_weights), given_sums, packed)

    shares = shares_of(plan(as_read_backward(given)), len(of_weights))
    if entry is not None:
        entry.shares = shares
    partials = [rstds[0].new_empty(n, row) for n in shares] or of_weights
    q_partial, k_partial = q_and_k(partials)
    given = given._replace(q_partial=q_partial, k_partial=k_partial)
    _launch(entry, given, NEW_BACKWARD, as_read_backward, plan)
    if shares:
        _sum_partials(partials, of_weights, entry)


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
    """The tensors of a forward launch, as they came."""
    rows = *q_and_k(tensors), *q_and_k(outs), *q_and_k(weights), *q_and_k(rstds), *q_and_k(sumsqs)
    return ForwardTensors(*rows, positions, *rotation.tensors)


def as_read_forward(given: ForwardTensors, inplace: bool) -> ForwardTensors:
    """The same as the kernel reads them: contiguous weights and lists, a sum for each row."""
    q, k = given.q, given.k
    if not inplace:
        q, k = q.resolve_neg(), None if k is None else k.resolve_neg()
    lists = given.cu_seqlens, given.starts
    table, sin, cu_seqlens, starts = as_read(given.table, given.sin, *lists)
    sums = [(given.q, given.q_sumsq), (given.k, given.k_sumsq)]
    sums = [None if x is None else x.resolve_neg().expand(t.shape[:-1]) for t, x in sums]
    return given._replace(
        q=q,
        k=k,
        q_weight=_contiguous(given.q_weight),
        k_weight=_contiguous(given.k_weight),
        q_sumsq=sums[0],
        k_sumsq=sums[1],
        table=table,
        sin=sin,
        cu_seqlens=cu_seqlens,
        starts=starts,
    )


def backward_tensors(
    grads: Sequence[Tensor],
    kept: Sequence[Tensor],
    outs: Sequence[Tensor],
    weights: Sequence[Tensor],
    rstds: Sequence[Tensor],
    sumsq_grads: Sequence[Tensor],
    rotation: Rotation,
) -> BackwardTensors:
    """The tensors of a backward launch as they came, but for partial sums: the plan tells how many.

    `rotation` is `at_positions`, if tokens are packed.
    """
    rows = (
        *q_and_k(grads),
        *q_and_k(kept),
        *q_and_k(outs),
        *q_and_k(weights),
        *q_and_k(rstds),
        *q_and_k(sumsq_grads),
    )
    where = rotation.start_positions, rotation.position_ids, rotation.axes
    return BackwardTensors(*rows, None, None, rotation.table, rotation.sin, *where)


def as_read_backward(given: BackwardTensors) -> BackwardTensors:
    """The same as the kernel reads them."""
    table, sin, starts = as_read(given.table, given.sin, given.starts)
    rows = given.q_grad, given.k_grad, given.q, given.k
    q_grad, k_grad, q, k = (None if x is None else x.resolve_neg() for x in rows)
    return given._replace(
        q_grad=q_grad,
        k_grad=k_grad,
        q=q,
        k=k,
        q_weight=_contiguous(given.q_weight),
        k_weight=_contiguous(given.k_weight),
        table=table,
        sin=sin,
        starts=starts,
    )


def sum_tensors(partials: Sequence[Tensor], outs: Sequence[Tensor]) -> SumTensors:
    """The tensors of the launch that adds partial sums."""
    return SumTensors(*q_and_k(partials), *q_and_k(outs))


def at_positions(rotation: Rotation, positions: Tensor) -> Rotation:
    """The rotation of packed tokens, whose positions the forward has written."""
    where = {"cu_seqlens": None, "start_positions": None, "position_ids": positions}
    return replace(rotation, **where, cp_size=1, cp_rank=0)


def _launch(
    entry: fastpath.Entry | None,
    given: tuple,
    new: tuple[int, ...],
    read: Callable[[tuple], tuple],
    plan: Callable[[tuple], Plan],
) -> None:
    """Launch what the fast path remembers of such tensors, or what is planned.

    Args:
        entry: of the signature.
        given: the kernel's tensors as they came.
        new: which of these the signature does not cover.
        read: makes of them what the kernel reads.
        plan: makes a plan of that.
    """
    if entry is not None and entry.launch is not None and entry.launch(given):
        return
    device = given[0].device
    # Triton launches on the current device, and the fast path remembers which one that was
    with torch.cuda.device(device if device.type == "cuda" else -1):
        if entry is not None and entry.launch is not None and entry.launch(given):
            return
        tensors = read(given)
        planned = plan(tensors)
        compiled = run(planned, tensors)
        if entry is not None and _same_memory(given, tensors):
            unkeyed = tuple([i for i in new if given[i] is not None])
            entry.launch = fastpath.shortest_launch(
                compiled, planned.programs, planned.arguments, unkeyed
            )


def _same_memory(given: tuple, tensors: tuple) -> bool:
    """Whether no tensor had to be copied. A copy is another one in the next call."""
    pairs = zip(given, tensors, strict=True)
    return all(x is y or x.data_ptr() == y.data_ptr() for x, y in pairs)


def _sum_partials(
    partials: Sequence[Tensor], outs: Sequence[Tensor], entry: fastpath.Entry | None
) -> None:
    """Write gradients of the weights: the sums of the programs' shares, in a fixed order.

    `entry` is that of the launch before: it says all about this one, if that is one launch.
    """
    if outs[0].dim() == 2:  # (h, d): a row of shares has all heads
        partials = [x.view(-1, out.numel()) for x, out in zip(partials, outs, strict=True)]
    if len(outs) == 2 and outs[0].shape != outs[1].shape:
        for pair in zip(partials, outs, strict=True):
            given = sum_tensors(*([x] for x in pair))
            entry = fastpath.entry_of_launch((SUM,), given)
            _launch(entry, given, NEW_SUM, lambda x: x, plan_sum)
        return
    if entry is not None:
        entry.then = entry = entry.then or fastpath.Entry()
        if entry.launch is not None and entry.launch((*q_and_k(partials), *q_and_k(outs))):
            return
    _launch(entry, sum_tensors(partials, outs), NEW_SUM, lambda x: x, plan_sum)


def _contiguous(weight: Tensor | None) -> Tensor | None:
    return None if weight is None else weight.resolve_neg().contiguous()
