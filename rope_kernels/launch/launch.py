"""The launches of all kernels: from tensors to a plan, and the kernel that it runs.

The only file that finds a kernel by its name.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple

import torch
from torch import Tensor

from ..call.packed_format import PackedFormat, Rows
from ..call.rotation import Rotation, memory_for
from . import fastpath
from .kernel_plans import (
    BACKWARD,
    FORWARD,
    SPLIT,
    TO_CACHE,
    plan_backward,
    plan_norm,
    plan_rope,
    plan_split,
    plan_sum,
    plan_to_cache,
    shares_of,
)
from .plan import (
    BackwardTensors,
    CacheTensors,
    ForwardTensors,
    Plan,
    RopeTensors,
    SplitTensors,
    SumTensors,
    Tensors,
    as_read,
    q_and_k,
    same_memory,
    with_elements,
)

ROPE = "rope_kernel"
# Tensors that no key covers: those that are allocated after it is known, and what a module may own.
_NEW = "q_out", "k_out", "v_out", "q_rstd", "k_rstd", "positions", "table"
_NEW_IN_BACKWARD = "q_out", "k_out", "q_partial", "k_partial"
_UNKEYED = {
    kind: tuple([i for i, name in enumerate(kind._fields) if name in names])
    for kind, names in (
        (RopeTensors, _NEW),
        (ForwardTensors, _NEW),
        (CacheTensors, _NEW),
        (SplitTensors, _NEW),
        (BackwardTensors, _NEW_IN_BACKWARD),
        (SumTensors, SumTensors._fields),
    )
}


def rotate(
    tensors: tuple[Tensor, ...], rotation: Rotation, inplace: bool, entry: fastpath.Entry | None
) -> tuple[Tensor, ...]:
    """Rotate one or two tensors, known to be good, in one launch.

    The results are new and contiguous; or with `inplace` the tensors themselves, of which only the
    rotary slice is touched. `entry` is what the fast path remembers of such calls.
    """
    outs = tensors if inplace else memory_for(tensors, rotation)
    pairs = (*tensors, *outs) if len(tensors) == 2 else (*tensors, None, *outs, None)
    given = *pairs, *rotation.tensors
    if entry is None or entry.launch is None or not entry.launch(given):
        _launch(entry, RopeTensors._make(given), lambda x: plan_rope(x, rotation, inplace), inplace)
    return outs


def entry_of_rotation(
    tensors: tuple[Tensor, ...], rotation: Rotation, inplace: bool
) -> fastpath.Entry | None:
    """What the fast path remembers of all such calls of `rotate`."""
    keyed = *tensors, rotation.table, rotation.sin
    if rotation.looks_up_positions:
        keyed += rotation.where
    return fastpath.entry_of_launch([ROPE, inplace, *rotation.options], keyed)


def norm_rope(
    tensors: Sequence[Tensor],
    weights: Sequence[Tensor],
    rotation: Rotation,
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
        rstds, positions = kept_for_backward(tensors, rotation)
    q_k, of_weights = q_and_k(tensors), q_and_k(weights)
    if entry is None:  # of a call that takes two launches
        options = [FORWARD, inplace, for_backward, *rotation.options]
        keyed = *q_k, *of_weights, *rotation.tensors
        entry = fastpath.entry_of_launch(options, keyed)
    pairs = *q_k, *q_and_k(outs), *of_weights, *q_and_k(rstds)
    given = *pairs, positions, *rotation.tensors
    if entry is None or entry.launch is None or not entry.launch(given):
        _launch(entry, ForwardTensors._make(given), lambda x: plan_norm(x, rotation), inplace)
    return outs, rstds, positions


def rope_to_cache(
    tensors: Sequence[Tensor],
    outs: Sequence[Tensor | None],
    cache: Sequence[Tensor],
    rotation: Rotation,
    entry: fastpath.Entry | None = None,
) -> None:
    """Rotate q and k, known to be good, and write k and v into caches, in one launch.

    Args:
        tensors: q and k.
        outs: where they go: of q, which may be q itself, and of k, or None.
        cache: `tensors` of a `CacheCall`.
        rotation: by which angles.
        entry: what the fast path remembers of such calls.
    """
    (q, k), (v, *caches), inplace = tensors, cache, outs[0] is tensors[0]
    k, v = k.resolve_neg(), v.resolve_neg()  # in place no others are
    if entry is None:
        options = [TO_CACHE, inplace, outs[1] is not None, *rotation.options]
        entry = fastpath.entry_of_launch(options, (*tensors, *cache, *rotation.tensors))
    given = q, k, v, *outs, *caches, *rotation.tensors
    if entry is None or entry.launch is None or not entry.launch(given):
        _launch(entry, CacheTensors._make(given), lambda x: plan_to_cache(x, rotation), inplace)


def split_qkv_rope(
    qkv: Tensor, packed: PackedFormat, rotation: Rotation, entry: fastpath.Entry | None = None
) -> Rows:
    """Split a projection, known to be good, and rotate q and k, in one launch.

    Args:
        qkv: as `packed` says.
        packed: where heads are, and the format of what comes out.
        rotation: by which angles; its format is 'sbhd'.
        entry: what the fast path remembers of such calls.

    Returns:
        q, k and v, contiguous.
    """
    qkv = qkv.resolve_neg()
    rows, outs = packed.slices(qkv), packed.outputs(qkv)
    if entry is None:
        entry = _entry_of_split(rows, packed, rotation)
    given = *rows, *outs, *rotation.tensors
    if entry is None or entry.launch is None or not entry.launch(given):
        _split(entry, packed.views(qkv), packed.seen(outs), packed.group, rotation)
    return outs


def split_qkv_rope_backward(
    grads: Sequence[Tensor], packed: PackedFormat, rotation: Rotation
) -> Tensor:
    """The gradient of a projection, as one tensor, in one launch.

    Args:
        grads: of q, k and v, in the output's format.
        packed, rotation: as in the forward.
    """
    gradient, rotation = packed.gradient(grads), rotation.transposed()
    entry = _entry_of_split(grads, packed, rotation)
    given = *grads, *packed.slices(gradient), *rotation.tensors
    if entry is None or entry.launch is None or not entry.launch(given):
        _split(entry, packed.seen(grads), packed.views(gradient), packed.group, rotation)
    return gradient


def _entry_of_split(
    rows: Sequence[Tensor], packed: PackedFormat, rotation: Rotation
) -> fastpath.Entry | None:
    return fastpath.entry_of_launch([SPLIT, packed, *rotation.options], (*rows, *rotation.tensors))


def kept_for_backward(
    tensors: Sequence[Tensor], rotation: Rotation
) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """Memory for 1 / rms of each row, and for positions of packed tokens."""
    positions = None
    if rotation.cu_seqlens is not None:
        positions = rotation.cu_seqlens.new_empty(tensors[0].shape[0], dtype=torch.int64)
    dtype = torch.promote_types(tensors[0].dtype, torch.float32)
    return tuple([t.new_empty(t.shape[:-1], dtype=dtype) for t in tensors]), positions


def _split(
    entry: fastpath.Entry | None,
    rows: Rows,
    outs: Rows,
    group: int,
    rotation: Rotation,
) -> None:
    tensors = SplitTensors(*rows, *outs, *rotation.tensors)
    _launch(entry, tensors, lambda x: plan_split(x, rotation, group))


class Wanted(NamedTuple):
    """Which gradients a backward computes."""

    inputs: bool
    weights: bool


def norm_rope_backward(
    grads: Sequence[Tensor],
    kept: Sequence[Tensor],
    rstds: Sequence[Tensor],
    positions: Tensor | None,
    weights: Sequence[Tensor],
    rotation: Rotation,
    wanted: Wanted,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Gradients of the inputs and of the weights, in one launch or two.

    Gradients of weights take another one, which adds up the programs' shares.

    Args:
        grads: of the outputs.
        kept: the inputs.
        rstds, positions: what the forward returned.
        weights, rotation: as in the forward.
        wanted: which gradients are computed. What is not wanted is returned as ().
    """
    packed = positions is not None
    if packed:
        rotation = at_positions(rotation, positions)
    like = {"memory_format": torch.contiguous_format}
    outs, of_weights = (), ()
    if wanted.inputs:
        outs = tuple([torch.empty_like(x, **like) for x in kept])
    if wanted.weights:
        of_weights = tuple([torch.empty_like(w, **like) for w in weights])
    where = rotation.start_positions, rotation.position_ids
    tables = rotation.table, rotation.sin, *where
    rows = *q_and_k(grads), *q_and_k(kept)
    norms = *q_and_k(weights), *q_and_k(rstds)
    options = [BACKWARD, packed, wanted, *rotation.options]
    entry = fastpath.entry_of_launch(options, (*rows, *norms, *tables))
    pairs = *rows, *q_and_k(outs), *norms
    if entry is not None and entry.launch is not None:
        row = kept[0].shape[-1]
        partials = [rstds[0].new_empty(n, row) for n in entry.shares]
        if entry.launch((*pairs, *q_and_k(partials), *tables)):
            if entry.shares:
                _sum_partials(partials, of_weights, entry)
            return outs, of_weights
    for x, gradient in zip(kept, of_weights, strict=False):
        if not x.numel():
            gradient.zero_()
    came = BackwardTensors(*pairs, *q_and_k(of_weights), *tables)
    given = with_elements(came)
    if given is not None:

        def plan_of(read: BackwardTensors) -> Plan:
            return plan_backward(read, rotation, wanted.weights, packed)

        _launch_backward(entry if given is came else None, given, plan_of)
    return outs, of_weights


def _launch_backward(
    entry: fastpath.Entry | None,
    given: BackwardTensors,
    plan_of: Callable[[BackwardTensors], Plan],
) -> None:
    """The launch that goes through all rows, and the one that adds up gradients of weights.

    `given` has the gradients of the weights where partial sums go: the plan tells how many of these
    there are.
    """
    of_weights = [x for x in (given.q_partial, given.k_partial) if x is not None]
    shares = shares_of(plan_of(as_read(given)), len(of_weights))
    if entry is not None:
        entry.shares = shares
    partials = [given.q_rstd.new_empty(n, given.q.shape[-1]) for n in shares]
    q_partial, k_partial = q_and_k(partials)
    _launch(entry, given._replace(q_partial=q_partial, k_partial=k_partial), plan_of)
    if shares:
        _sum_partials(partials, of_weights, entry)


def at_positions(rotation: Rotation, positions: Tensor) -> Rotation:
    """The rotation of packed tokens, whose positions the forward has written."""
    where = {"cu_seqlens": None, "start_positions": None, "position_ids": positions}
    return replace(rotation, **where, cp_size=1, cp_rank=0)


def _sum_partials(
    partials: Sequence[Tensor], outs: Sequence[Tensor], entry: fastpath.Entry | None
) -> None:
    """Write gradients of the weights: the sums of the programs' shares, in a fixed order.

    `entry` is that of the launch before: it says all about this one.
    """
    if entry is not None:
        entry.then = entry = entry.then or fastpath.Entry()
    given = *q_and_k(partials), *q_and_k(outs)
    if entry is None or entry.launch is None or not entry.launch(given):
        _launch(entry, SumTensors._make(given), plan_sum)


def _launch(
    entry: fastpath.Entry | None,
    given: Tensors,
    plan_of: Callable[[Tensors], Plan],
    inplace: bool = False,
) -> None:
    """Launch what the fast path remembers of such tensors, or what is planned.

    Args:
        entry: of the key of the launch.
        given: the kernel's tensors as they came.
        plan_of: plans the launch of these, as the kernel reads them.
        inplace: the kernel overwrites what it reads.
    """
    device = given[0].device
    # Triton launches on the current device, and the fast path remembers which one that was.
    with torch.cuda.device(device if device.type == "cuda" else -1):
        if entry is not None and entry.launch is not None and entry.launch(given):
            return
        tensors = given
        if not isinstance(given, SumTensors):
            full = with_elements(given)
            if full is None:
                return
            if full is not given:
                entry = None  # it is of a launch of all of them
            tensors = as_read(full, inplace)
        plan = plan_of(tensors)
        compiled = run(plan, tensors)
        if entry is not None and same_memory(given, tensors):
            unkeyed = tuple([i for i in _UNKEYED[type(given)] if given[i] is not None])
            entry.launch = fastpath.shortest_launch(
                compiled, plan.programs, plan.arguments, unkeyed
            )


def kernel_of(plan: Plan):
    """The Triton kernel that a plan names. Each has a file of its own, of the same name."""
    # the first launch loads Triton, and its own kernel's file, not the import of the package
    return getattr(import_module(f"..kernels.{plan.kernel}", __package__), plan.kernel)


def options_of(plan: Plan) -> dict[str, int | bool]:
    """Options of the compiler. Fusion, which decides last bits, is never left to its default."""
    options = {"num_warps": plan.num_warps, "enable_fp_fusion": plan.fp_fusion}
    return options if plan.max_registers is None else options | {"maxnreg": plan.max_registers}


def run(plan: Plan, tensors: tuple[Tensor | None, ...]):
    """Launch a plan through Triton's JIT, which compiles what is new; return what it compiled."""
    if torch.version.hip is not None:
        tensors = addressed_alike(tensors)
    return kernel_of(plan)[(plan.programs,)](*tensors, **plan.arguments, **options_of(plan))


def addressed_alike(tensors: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """The same memory, of which Triton for AMD believes each tensor to have as much as the largest.

    It addresses up to 2 GiB as a buffer, and can't compile a choice between a pointer into one and
    another pointer, as kernels for q and k make it. (3.7.1 ends the process, in some cases.)
    """
    largest = max([x.untyped_storage().nbytes() for x in tensors if x is not None])
    if largest < 2**31:
        return tensors
    alike = tuple([None if x is None else x.detach() for x in tensors])
    for x in alike:
        if x is not None:
            x.ptr_range = lambda: largest  # what it asks, if there is one
    return alike
