"""The public functions, and the one decision which way a call goes: `choose_route`."""

from enum import Enum
from typing import Unpack

import torch
from torch import Tensor

from . import reference
from .autograd.rope_function import apply_to_plain_tensors
from .autograd.rope_operator import rotate_by_operator, rotate_inplace_by_operator
from .call.arguments import (
    Call,
    Freqs,
    OutputPairing,
    RopeOptions,
    Rounding,
    refuse_unknown,
    shows_options,
)
from .call.checks import check_call, check_inplace, check_values
from .call.cp_orders import CpOrder
from .call.formats import TensorFormat, view_as_sbhd
from .call.rotation import Rotation
from .embedding import PER_PAIR, AnglesPerPair, RotaryPositionEmbedding
from .launch import fastpath, launch_rope
from .launch.plan import two
from .machine.engine import runs_in_triton
from .machine.modes import has_memory, is_dtensor, is_traced, is_transformed, wants_grad

Tables = tuple[Tensor, Tensor | None]  # angles or cosines, and sines


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
    *,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int = 0,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
    rounding: Rounding | None = None,
) -> Tensor:
    """Apply rotary position embedding to a query or key tensor.

    Element i of the rotary slice turns together with element i + d2/2 (half-split pairing), or
    element 2i with 2i + 1 (interleaved). Differentiable in `t` and `freqs`, as often as you like.
    Takes TransformerEngine's keyword calls as they are; only the default of `fused` differs.

    Args:
        t: (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), as `tensor_format` says; fp32,
            fp16, bf16 or fp64; any strides. Of a DTensor each rank rotates its shard, without
            communication, and a DTensor comes back: docs/kernels.md says what may be sharded.
        freqs: on the device of `t`, one of
            - angles in radians, (s2, 1, 1, d2), fp32 (fp64 too with fp64 `t`), even d2 <= d;
            - (cos, sin), each (s2, d2) or (b, s2, d2), of any of the dtypes above;
            - a `RotaryPositionEmbedding`: angles are made on the fly, right to fp32's last digits;
            - what its `angles_per_pair` or `cos_sin_per_pair` returned.
            s2 >= s * cp_size. Column i belongs to element i of the rotary slice, so a pair's
            members may differ in angle. Or to pair i, in tables d2 / 2 wide: see `rotary_dim`.
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd' (packed sequences).
        fused: True: one kernel, fp32 math (fp64 for fp64 `t`), one rounding; cos and sin of angles
            up to 10^7 radians to 2e-7, and to 5e-7 for fp16 and bf16, where a GPU computes them.
            False: plain PyTorch that rounds cos and sin to `t.dtype` first, as TransformerEngine's
            unfused function; unless `rounding` says otherwise.
        cu_seqlens: for 'thd' alone, (sequences + 1,), int32 or int64: where each sequence starts,
            then where the last one ends. Positions restart at 0 in each. With `cp_size` > 1: of the
            whole, padded sequences.
        start_positions: (b,), or (sequences,) with `cu_seqlens`, int8 to int64 or uint8: the
            position of the first token of each sequence, if it is not 0. An int, () or (1,): that
            of all sequences.
        position_ids: (b, s) or (1, s), or (t,) with 'thd', int8 to int64 or uint8: the position of
            every token. Overrides `cp_rank`, and the starts in `cu_seqlens`. With a module of
            several axes also (axes, b, s), (axes, 1, s) or (axes, t), where pair i turns by
            `position_ids[axes[i]]`. Other positions are then the same on all axes.
        interleaved: neighbors are a pair; tables, cos and sin too, repeat as 0, 0, 1, 1, ... Some
            Hugging Face models (GLM, Ernie 4.5, Helium) hand over 0, 1, ..., 0, 1, ... instead.
        inplace: overwrite the rotary slice of `t` and return `t`. A view is fine, `q` in a packed
            qkv too, unless autograd forbids it: then an error says so.
        cp_size: number of ranks that share each sequence (context parallelism).
        cp_rank: which of these ranks this is.
        cp_order: what `t` holds of a sequence. 'zigzag': chunks number cp_rank and
            2 * cp_size - 1 - cp_rank of its 2 * cp_size. 'contiguous': chunk number cp_rank of its
            cp_size. 'round_robin': tokens cp_rank, cp_rank + cp_size, ... See `cp_positions`.
        rotary_dim: d2, an even number; None: the width of the table. With it, a table may be d2 / 2
            wide: column i then belongs to pair i, in both pairings. FlashAttention, flashinfer,
            vLLM, GPT-J and gpt_oss store such tables. Of cos and sin side by side in one tensor, as
            vLLM has them, pass the views `cache.chunk(2, dim=-1)`. A module, and the tables per
            pair that it made, know their own.
        rotary_start: elements rotary_start to rotary_start + d2 - 1 turn. All others pass through;
            in place they are not touched.
        inverse: negate the sine and nothing else: turn by minus the angle. That undoes a rotation
            only where the members of each pair have the same angle. The transpose of this map is
            `rope_bw(..., inverse=True)`.
        output_pairing: 'same', or 'half': write half-split pairs, whatever is read, as DeepSeek V3
            does with interleaved ones. Gradients are permuted back. Not with `inplace`.
        rounding: where values are rounded to `t.dtype`. 'once', which None means to a kernel: fp32
            math with fused multiply-adds, one rounding. The others have the bits of models' own
            functions in PyTorch, given their (cos, sin); docs/kernels.md names the models. 'model':
            each product is rounded, and their sum; so are cos and sin of angles. 'upcast': as
            'once', but nothing is fused. 'promoted': forward as 'upcast', gradients as 'model'.
            'model' means 'promoted' where the dtype of (cos, sin) is not that of `t`, as in
            autocast. Gradients of `freqs` are summed in fp32, whatever it is.

    Returns:
        A contiguous tensor of the shape and dtype of `t`, or `t` itself with `inplace`. Tokens past
        `cu_seqlens[-1]` come out unrotated (and permuted, if `output_pairing` permutes). A module
        turns by negative positions too. In a table they are no more than those past its end: an
        error on the CPU, NaN where values are not read back, which is on a GPU, and in plain
        PyTorch under `torch.compile`.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor or bool where one is expected.
        ValueError: shapes, devices, values or options do not fit together.

    Source: TransformerEngine's `apply_rotary_pos_emb`; RoFormer, equation (34).
    """
    call = Call(
        tensors=(t,),
        freqs=freqs,
        tensor_format=tensor_format,
        fused=fused,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        interleaved=interleaved,
        inplace=inplace,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        inverse=inverse,
        output_pairing=output_pairing,
        rounding=rounding,
    )
    return rotate_call(call)[0]


@shows_options(RopeOptions)
def rope_qk(
    q: Tensor,
    k: Tensor,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
    **options: Unpack[RopeOptions],
) -> tuple[Tensor, Tensor]:
    """Apply rotary position embedding to queries and keys, both in one launch.

    Args:
        q: queries, as `t` in `apply_rotary_pos_emb`; what is not named here is as there.
        k: keys, like `q` but for the number of heads and the strides.

    Returns:
        (q, k) rotated: each as `apply_rotary_pos_emb` returns it, bit for bit.

    Raises:
        TypeError, ValueError: as `apply_rotary_pos_emb`.
    """
    refuse_unknown(rope_qk, options, RopeOptions)
    call = Call(tensors=(q, k), freqs=freqs, tensor_format=tensor_format, **options)
    q, k = rotate_call(call)
    return q, k


@shows_options(RopeOptions)
def rope_fw(
    t: Tensor, freqs: Freqs, tensor_format: TensorFormat = "sbhd", **options: Unpack[RopeOptions]
) -> Tensor:
    """Rotate `t`: the forward pass alone, not recorded by autograd and not for `torch.func`.

    Arguments, result and errors as in `apply_rotary_pos_emb`.

    Source: the study's `rope_fw`; TransformerEngine's `fused_rope_forward`.
    """
    refuse_unknown(rope_fw, options, RopeOptions)
    call = Call(tensors=(t,), freqs=freqs, tensor_format=tensor_format, **options)
    with torch.no_grad():
        return rotate_call(call)[0]


@shows_options(RopeOptions)
def rope_bw(
    grad: Tensor, freqs: Freqs, tensor_format: TensorFormat = "sbhd", **options: Unpack[RopeOptions]
) -> Tensor:
    """Take the gradient of the rotated tensor to that of `t`: the backward pass alone.

    The transpose of the forward's linear map: the rotation by minus the angle where the members of
    a pair have the same angle, and still the exact gradient where they don't. `grad` has the
    shape of `rope_fw`'s output, and any strides, 0 in expanded gradients too; the other arguments,
    the result and the errors are as in `apply_rotary_pos_emb`.

    Source: the study's `rope_bw`; TransformerEngine's `fused_rope_backward`.
    """
    refuse_unknown(rope_bw, options, RopeOptions)
    call = Call(
        tensors=(grad,), freqs=freqs, tensor_format=tensor_format, transpose=True, **options
    )
    with torch.no_grad():
        return rotate_call(call)[0]


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
    """What every public function does: check, describe the rotation, choose a route, rotate."""
    tensors, tables = call.tensors, tables_of(call.freqs)
    entry = fastpath.entry_of_call(call, tables)
    if entry is not None and entry.launch is not None:
        route, num_positions = KERNEL, entry.num_positions
    else:
        if entry is None and any(map(is_dtensor, (*tensors, *tables, *call.where))):
            from .sharded.calls import rotate_shards  # loads torch.distributed.tensor

            return rotate_shards(call, rotate_call)
        route = choose_route(call.fused, (*tensors, *tables, *call.where))
        num_positions = check_call(call)
        if entry is not None:
            entry.num_positions = num_positions
    rotation = rotation_of(call, tables, num_positions)
    if rotation.table.is_cpu and rotation.looks_up_positions and not is_traced():
        # on a GPU values are not read; if traced, the operator checks them when it runs
        check_values(rotation, view_as_sbhd(tensors[0], call.tensor_format).shape[0])
    if call.inplace:
        check_inplace(call.names, tensors, rotation)
    return _rotate(tensors, rotation, route, entry, call.inplace)


def rotation_of(call: Call, tables: Tables, num_positions: int | None) -> Rotation:
    """The rotation that a checked call asks for, from `tables_of` and what `check_call` said."""
    (table, sin), axes = tables, None
    one_per_pair, attention_factor = isinstance(call.freqs, PER_PAIR), 1.0
    if isinstance(call.freqs, RotaryPositionEmbedding):
        table, attention_factor = call.freqs.turns(num_positions), call.freqs.attention_factor
        axes = None if call.position_ids is None else call.axes
    elif call.rotary_dim is not None and call.rotary_dim != table.shape[-1]:
        one_per_pair = True
    return Rotation(
        table,
        sin,
        cu_seqlens=call.cu_seqlens,
        start_positions=call.start_positions,
        position_ids=call.position_ids,
        axes=axes,
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
    if isinstance(freqs, AnglesPerPair):
        return freqs.angles, None
    return tuple(freqs) if isinstance(freqs, (tuple, list)) else (freqs, None)


def _rotate_gradients(grads: tuple[Tensor, ...], rotation: Rotation) -> tuple[Tensor, ...]:
    """Rotate the gradients of checked tensors, by the transposed map."""
    entry = fastpath.entry_of_rotation(rotation, grads, inplace=False)
    if entry is not None and entry.launch is not None:
        route = KERNEL
    else:
        route = choose_route(True, (*grads, *rotation.tensors))
    return _rotate(grads, rotation, route, entry, inplace=False)


def _rotate(
    tensors: tuple[Tensor, ...],
    rotation: Rotation,
    route: Route,
    entry: fastpath.Entry | None,
    inplace: bool,
) -> tuple[Tensor, ...]:
    """Rotate checked tensors by the route chosen, with the derivatives that autograd wants."""
    recorded = wants_grad((*tensors, rotation.table, rotation.sin))
    if inplace and (route is PYTORCH or (recorded and route is OPERATOR)):
        outs = _rotate(tensors, rotation, route, entry, inplace=False)
        for t, out in zip(tensors, outs, strict=True):
            turned = out.narrow(-1, rotation.rotary_start, rotation.rotary_dim)
            t.narrow(-1, rotation.rotary_start, rotation.rotary_dim).copy_(turned)
        return tensors
    if route is PYTORCH:
        return reference.rotate(tensors, rotation, rotation.rounding)
    if route is OPERATOR:
        run = rotate_inplace_by_operator if inplace else rotate_by_operator
        return run(tensors, rotation)
    if recorded:
        inputs = *two(tensors), rotation.table, rotation.sin
        outs = apply_to_plain_tensors(*inputs, rotation, inplace, entry, _rotate_gradients)
        return tensors if inplace else outs
    outs = launch_rope.rotate(tensors, rotation, inplace, entry)
    if inplace:
        torch.autograd.graph.increment_version([t for t in tensors if not t.is_inference()])
    return outs
