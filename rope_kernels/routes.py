"""What every public function does with its `Call`: check it, choose a route, rotate."""

from dataclasses import replace
from enum import Enum

import torch
from torch import Tensor

from . import reference
from .autograd import norm_function, rope_function, split_function
from .autograd.norm_function import Rows
from .autograd.operators import (
    rope_to_cache_by_operator,
    rotate_by_operator,
    split_qkv_rope_backward_by_operator,
    split_qkv_rope_by_operator,
)
from .call.arguments import CAST_LAST, LIKE_MODELS, Call, Freqs
from .call.cache_checks import check_cache_call, check_written
from .call.checks import check_call, check_inplace, check_values
from .call.formats import view_as_sbhd
from .call.norm_checks import check_norm_call
from .call.projection_checks import check_projection, check_projection_call
from .call.rotation import Normalization, Rotation
from .embedding import RotaryPositionEmbedding
from .launch import fastpath, launch
from .launch.fastpath import Entry
from .launch.plan import q_and_k
from .machine.engine import runs_in_triton
from .machine.modes import has_memory, is_traced, is_transformed, wants_grad

Tables = tuple[Tensor, Tensor | None]  # angles or cosines, and sines


class Route(Enum):
    KERNEL = "our kernel, launched at once"
    OPERATOR = "our kernel as an operator, which torch.compile records"
    PYTORCH = "operators of PyTorch, which have all derivatives and suit tensors of every class"


KERNEL, OPERATOR, PYTORCH = Route


def choose_route(fused: bool, tensors: tuple[Tensor | None, ...]) -> Route:
    """Which way a call goes. `tensors` are all of its tensors, the one to rotate first.

    The fast path skips this for calls that look like one for which KERNEL was chosen. Otherwise the
    first line that is true decides:

    ===================================================================  ========
    `fused` is not True, or an argument is not a tensor                  PYTORCH
    torch.func, forward mode or torch.jit.trace                          PYTORCH
    no engine: a CPU without the interpreter, no Triton, a meta tensor   PYTORCH
    torch.compile, make_fx or FakeTensorMode                             OPERATOR
    a class that overrides operators, a wrapper of torch.func            PYTORCH
    else                                                                 KERNEL
    ===================================================================  ========
    """
    if fused is not True or is_transformed():
        return PYTORCH
    if not all(x is None or isinstance(x, Tensor) for x in tensors):
        return PYTORCH
    if tensors[0] is None or not runs_in_triton(tensors[0]):
        return PYTORCH
    if is_traced():
        return OPERATOR
    return KERNEL if all(has_memory(x) for x in tensors) else PYTORCH


def rotate_call(call: Call) -> tuple[Tensor, ...]:
    """Check a call, describe its rotation, choose a route, and rotate; normalize too if it says so.

    A call that looks like one that launched a kernel before is neither checked again, but for
    values and memory, nor routed.
    """
    tensors, tables, norm = call.tensors, tables_of(call.freqs), call.norm
    beside, recorded = (), None
    if norm is not None:
        beside = norm.weights
        recorded = wants_grad((*tensors, *beside))
    entry = fastpath.entry_of_call(call, tables, beside, recorded)
    if entry is not None and entry.launch is not None:
        route, num_positions = KERNEL, entry.num_positions
    else:
        given = *tensors, *tables, *call.where, *beside
        route = choose_route(call.fused, given)
        num_positions = check_call(call) if norm is None else check_norm_call(call)
        if entry is not None:
            entry.num_positions = num_positions
    rotation = rotation_of(call, tables, num_positions)
    if rotation.table.is_cpu and rotation.looks_up_positions and not is_traced():
        # on a GPU values are not read; if traced, the operator checks them when it runs
        check_values(rotation, view_as_sbhd(tensors[0], call.tensor_format).shape[0])
    if call.inplace:
        check_inplace(call.names, tensors, rotation, () if norm is None else norm.named)
    if norm is None:
        return _rotate(tensors, rotation, route, call.inplace, entry)
    return _normalize_and_rotate(call, rotation, route, recorded, entry)


def rotation_of(call: Call, tables: Tables, num_positions: int | None) -> Rotation:
    """The rotation that a checked call asks for, from `tables_of` and what `check_call` said."""
    table, sin = tables
    one_per_pair, attention_factor = False, 1.0
    if isinstance(call.freqs, RotaryPositionEmbedding):
        table, attention_factor = call.freqs.turns(num_positions), call.freqs.attention_factor
    elif call.rotary_dim is not None and call.rotary_dim != table.shape[-1]:
        one_per_pair = True
    return Rotation(
        table,
        sin,
        cu_seqlens=call.cu_seqlens,
        start_positions=call.start_positions,
        position_ids=call.position_ids,
        tensor_format=call.tensor_format,
        interleaved=call.interleaved,
        cp_size=call.cp_size,
        cp_rank=call.cp_rank,
        cp_order=call.cp_order,
        transpose=call.transpose,
        one_per_pair=one_per_pair,
        rotary_start=call.rotary_start,
        inverse=call.inverse,
        to_half_split=call.output_pairing == "half" and call.interleaved,
        rounding=call.rounding_with(table, sin),
        attention_factor=attention_factor,
        promoted_from=call.promoted_from,
        keeps_strides=call.keeps_strides,
    )


def tables_of(freqs: Freqs) -> Tables:
    """What `freqs` holds: angles, or cosines and sines, or a module's inverse frequencies."""
    if isinstance(freqs, Tensor):
        return freqs, None
    if isinstance(freqs, RotaryPositionEmbedding):
        return freqs.inv_freq, None
    return tuple(freqs) if isinstance(freqs, (tuple, list)) else (freqs, None)


# A rotation alone


def _rotate(
    tensors: tuple[Tensor, ...],
    rotation: Rotation,
    route: Route,
    inplace: bool,
    entry: Entry | None,
) -> tuple[Tensor, ...]:
    """Rotate checked tensors by the route chosen, with the derivatives that autograd wants."""
    recorded = wants_grad(tensors)
    if wants_grad((rotation.table, rotation.sin)):
        route = PYTORCH  # the kernel has no gradient of a table
    if inplace and (route is PYTORCH or (route is OPERATOR and recorded)):
        return _rotate_and_copy(tensors, rotation, route)
    if route is PYTORCH:
        return reference.rotate(tensors, rotation, rotation.rounding)
    if route is OPERATOR:
        return rotate_by_operator(tensors, rotation, inplace)
    if recorded:
        return _launch_recorded(tensors, rotation, inplace, entry)
    outs = launch.rotate(tensors, rotation, inplace, entry)
    if inplace:
        _count_as_written(outs)
    return outs


def _rotate_and_copy(
    tensors: tuple[Tensor, ...], rotation: Rotation, route: Route
) -> tuple[Tensor, ...]:
    """In place where the route itself can't overwrite: into new memory, and back."""
    outs = _rotate(tensors, rotation, route, inplace=False, entry=None)
    for t, out in zip(tensors, outs, strict=True):
        turned = out.narrow(-1, rotation.rotary_start, rotation.rotary_dim)
        t.narrow(-1, rotation.rotary_start, rotation.rotary_dim).copy_(turned)
    return tensors


def _launch_recorded(
    tensors: tuple[Tensor, ...], rotation: Rotation, inplace: bool, entry: Entry | None
) -> tuple[Tensor, ...]:
    """Launch the kernel as a Function of autograd."""
    inputs = *q_and_k(tensors), rotation, inplace, entry
    outs = rope_function.apply_to_plain_tensors(*inputs, _rotate_gradients)
    return tensors if inplace else outs


def _rotate_gradients(grads: tuple[Tensor, ...], rotation: Rotation) -> tuple[Tensor, ...]:
    """Rotate the gradients of checked tensors, by the transposed map."""
    entry = launch.entry_of_rotation(grads, rotation, inplace=False)
    if entry is not None and entry.launch is not None:
        route = KERNEL
    else:
        route = choose_route(True, (*grads, *rotation.tensors))
    return _rotate(grads, rotation, route, inplace=False, entry=entry)


def _count_as_written(tensors: tuple[Tensor, ...]) -> None:
    """Tell autograd what a kernel has overwritten, so that it refuses a backward that needs it."""
    torch.autograd.graph.increment_version([t for t in tensors if not t.is_inference()])


# A norm and a rotation


def _normalize_and_rotate(
    call: Call, rotation: Rotation, route: Route, recorded: bool, entry: Entry | None
) -> tuple[Tensor, ...]:
    """Normalize and rotate the tensors of a checked call: in one launch, or in one for each."""
    # a norm has no operator, for compilers fuse PyTorch's, and no kernel has a gradient of a table
    if route is OPERATOR or wants_grad((rotation.table, rotation.sin)):
        route = PYTORCH
    if entry is not None and entry.launch is not None:
        rotation.norm = entry.norm
        return _normalize(_rows_of(call), rotation, route, call.inplace, recorded, entry)
    launches, rotation.norm = launches_of(call), normalization_of(call)
    if entry is not None:
        entry.norm = rotation.norm
    alone, outs = entry if len(launches) == 1 else None, ()
    for rows in launches:
        outs += _normalize(rows, rotation, route, call.inplace, recorded, alone)
    return outs


def launches_of(call: Call) -> list[Rows]:
    """What a checked call normalizes in one launch: both tensors, if their weights are alike."""
    weights = call.norm.weights
    if len({None if w is None else w.dtype for w in weights}) == 1:
        return [_rows_of(call)]
    return [Rows((t,), _given((w,))) for t, w in zip(call.tensors, weights, strict=True)]


def normalization_of(call: Call) -> Normalization:
    """How a checked call normalizes."""
    norm = call.norm
    # no model rounds before it multiplies by a weight with an offset
    with_offset = call.rounding == "model" and norm.weight_offset != 0
    return Normalization(
        eps=norm.eps,
        weight_offset=norm.weight_offset,
        after=norm.norm_after,
        like_model=call.rounding in LIKE_MODELS,
        casts_last=with_offset or call.rounding == CAST_LAST,
    )


def _rows_of(call: Call) -> Rows:
    """The tensors of a call that takes one launch."""
    return Rows(call.tensors, _given(call.norm.weights))


def _given(tensors: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
    return () if tensors[0] is None else tensors  # of one launch: all of them, or none


def _normalize(
    rows: Rows,
    rotation: Rotation,
    route: Route,
    inplace: bool,
    recorded: bool,
    entry: Entry | None,
) -> tuple[Tensor, ...]:
    """Normalize and rotate what takes one launch, by the route chosen."""
    if route is PYTORCH:
        outs = reference.norm_rope(*rows, rotation)
        if not inplace:
            return outs
        for t, out in zip(rows.tensors, outs, strict=True):
            t.copy_(out)
        return rows.tensors
    # q's launch may need no gradient when k's does
    if recorded and wants_grad([x for row in rows for x in row]):
        inputs = *norm_function.inputs_of(rows), rotation, entry
        return norm_function.apply_to_plain_tensors(*inputs)
    outs, _, _ = launch.norm_rope(*rows, rotation, inplace, False, entry)
    if inplace:
        _count_as_written(outs)
    return outs


# A rotation, and a write into caches


def write_to_cache_call(call: Call) -> tuple[Tensor, ...]:
    """Check a call that writes into caches, choose a route, rotate and write.

    Returns q, and k if the call asks for it.
    """
    tables, cache = tables_of(call.freqs), call.cache
    entry = fastpath.entry_of_call(call, tables, cache.tensors)
    known = entry is not None and entry.launch is not None
    if not known or wants_grad((*call.tensors, *tables, *cache.tensors)):
        check_cache_call(call)
    rotation = rotation_of(call, tables, None)
    given = *call.tensors, *cache.tensors, *rotation.tensors
    if known or (not is_traced() and all([has_memory(x) for x in given])):
        check_written(call.tensors, call.inplace, cache.tensors, rotation)
    if rotation.table.is_cpu and not is_traced():
        check_values(rotation, len(call.tensors[0]))
    (q, k), route = call.tensors, KERNEL
    if not known:
        route = choose_route(call.fused, (*call.tensors, *tables, *call.where, *cache.tensors))
        has_work = q.numel() and k.numel() and cache.k_cache.numel()
        if route is not PYTORCH and not has_work:  # the kernel can't do without rows and slots
            route = PYTORCH
    like = {"memory_format": torch.contiguous_format}
    q_out = q if call.inplace else torch.empty_like(q, **like)
    k_out = torch.empty_like(k, **like) if cache.return_k else None
    given = call.tensors, (q_out, k_out), cache.tensors, rotation
    if route is KERNEL:
        launch.rope_to_cache(*given, entry)
        written = (cache.k_cache, cache.v_cache, q) if call.inplace else cache.tensors[1:3]
        _count_as_written(written)
    elif route is OPERATOR:
        rope_to_cache_by_operator(*given)
    else:
        reference.rope_to_cache(*given)
    return (q_out, k_out) if cache.return_k else (q_out,)


# A projection that is split, and a rotation


def split_call(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Check a call that splits a projection, choose a route, split and rotate."""
    (qkv,), tables, packed = call.tensors, tables_of(call.freqs), call.packed
    entry = fastpath.entry_of_call(call, tables)
    if entry is not None and entry.launch is not None:
        route, num_positions = KERNEL, entry.num_positions
    else:
        check_projection(qkv, packed)
        call = replace(call, tensors=packed.slices(qkv)[:2])
        num_positions = check_projection_call(call)
        route = choose_route(call.fused, (qkv, *tables, *call.where))
        if entry is not None:
            entry.num_positions = num_positions
    if wants_grad(tables):
        route = PYTORCH  # the kernel has no gradient of a table
    rotation = rotation_of(call, tables, num_positions)
    if rotation.table.is_cpu and rotation.looks_up_positions and not is_traced():
        check_values(rotation, packed.views(qkv)[0].shape[0])
    rotation.tensor_format = "sbhd"  # of the views that rows are found by
    if route is PYTORCH:
        return reference.split_qkv_rope(qkv, packed, rotation)
    if route is OPERATOR:
        return split_qkv_rope_by_operator(qkv, packed, rotation)
    if wants_grad((qkv,)):
        inputs = qkv, packed, rotation, entry, _take_back_to_projection
        return split_function.apply_to_plain_tensors(*inputs)
    return launch.split_qkv_rope(qkv, packed, rotation, entry)


def _take_back_to_projection(*given):
    """A backward may be traced when the forward was not."""
    run = split_qkv_rope_backward_by_operator if is_traced() else launch.split_qkv_rope_backward
    return run(*given)
