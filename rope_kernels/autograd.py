"""The public functions: check the arguments, rotate, know the gradient."""

from functools import partial

import torch
from torch import Tensor

from . import launch, reference
from .angles import Angles
from .checks import check_arguments, check_inplace, check_values
from .formats import view_as_sbhd
from .frequencies import RotaryPositionEmbedding
from .kinds import is_traced, is_transformed, known_of
from .launch import two

Freqs = Tensor | tuple[Tensor, Tensor] | RotaryPositionEmbedding


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Freqs,
    tensor_format: str = "sbhd",
    *,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int = 0,
) -> Tensor:
    """Apply rotary position embedding to a query or key tensor.

    Element i of the rotary slice turns together with element i + d2/2 (half-split pairing), or
    element 2i with 2i + 1 (interleaved). Differentiable in `t` and `freqs`, as often as you like.
    Takes TransformerEngine's keyword calls as they are, but that `fused` is False there by default.

    Args:
        t: (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), as `tensor_format` says; fp32,
            fp16, bf16 or fp64; any strides.
        freqs: on the device of `t`, one of
            - angles in radians, (s2, 1, 1, d2), fp32 (fp64 too with fp64 `t`), even d2 <= d;
            - (cos, sin), each (s2, d2) or (b, s2, d2), of any of the dtypes above;
            - a `RotaryPositionEmbedding`: angles are made on the fly, right to fp32's last digits.
            s2 >= s * cp_size. A pair's members may differ in angle. Elements d2, d2 + 1, ... of the
            head dimension pass through unchanged.
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd' (packed sequences).
        fused: True: one kernel, fp32 math (fp64 for fp64 `t`), one rounding; cos and sin of angles
            up to 10^7 radians to 2e-7, and to 5e-7 for fp16 and bf16, where a GPU computes them.
            False: plain PyTorch that rounds cos and sin to `t.dtype` first, as TransformerEngine's
            unfused function.
        cu_seqlens: for 'thd' alone, (sequences + 1,), int32 or int64: where each sequence starts,
            then where the last one ends. Positions restart at 0 in each. With `cp_size` > 1: of the
            whole, padded sequences.
        start_positions: (b,), or (sequences,) with `cu_seqlens`, int8 to int64 or uint8: the
            position of the first token of each sequence, if it is not 0.
        position_ids: (b, s) or (1, s), or (t,) with 'thd', int8 to int64 or uint8: the position of
            every token. Leaves nothing for `cp_rank` and for the starts in `cu_seqlens` to say.
        interleaved: neighbours are a pair; a table of angles repeats as 0, 0, 1, 1, ...
        inplace: overwrite the rotary slice of `t` and return `t`. A view is fine, `q` in a packed
            qkv too, unless autograd forbids it: then an error says so.
        cp_size: number of ranks that share each sequence (context parallelism). `t` holds two of
            its 2 * cp_size chunks: number cp_rank and number 2 * cp_size - 1 - cp_rank.
        cp_rank: which of these ranks this is.

    Returns:
        A contiguous tensor of the shape and dtype of `t`, or `t` itself with `inplace`. Tokens past
        `cu_seqlens[-1]` come out unrotated. A position past the table gives NaN where its value is
        not read back: on a GPU, and in plain PyTorch under `torch.compile`.

    Raises:
        TypeError: a dtype that is not accepted, or something else where a tensor or a bool is due.
        ValueError: shapes, devices, values or options do not fit together.

    Source: TransformerEngine's `apply_rotary_pos_emb`; RoFormer, equation (34).
    """
    named, where = {"t": t}, (cu_seqlens, start_positions, position_ids)
    angles = check_arguments(named, freqs, tensor_format, *where, interleaved, cp_size, cp_rank)
    return _rotate_named(named, angles, inplace, fused)[0]


def rope_qk(
    q: Tensor, k: Tensor, freqs: Freqs, tensor_format: str = "sbhd", **options
) -> tuple[Tensor, Tensor]:
    """Apply rotary position embedding to queries and keys, both in one launch.

    Args:
        q: queries, as `t` in `apply_rotary_pos_emb`; what is not named here is as there.
        k: keys, like `q` but for the number of heads and the strides.
        options: the keyword arguments of `apply_rotary_pos_emb`, `fused` and `inplace` too.

    Returns:
        (q, k) rotated: each as `apply_rotary_pos_emb` returns it, bit by bit.

    Raises:
        TypeError, ValueError: as `apply_rotary_pos_emb`.
    """
    inplace, fused = options.pop("inplace", False), options.pop("fused", True)
    angles = check_arguments({"q": q, "k": k}, freqs, tensor_format, **options)
    return _rotate_named({"q": q, "k": k}, angles, inplace, fused)


def rope_fw(t: Tensor, freqs: Freqs, tensor_format: str = "sbhd", **options) -> Tensor:
    """Rotate `t`: the forward pass alone, unknown to autograd and not for `torch.func`.

    Arguments, result and errors as in `apply_rotary_pos_emb`.

    Source: the study's `rope_fw`; TransformerEngine's `fused_rope_forward`.
    """
    with torch.no_grad():
        return apply_rotary_pos_emb(t, freqs, tensor_format, **options)


def rope_bw(grad: Tensor, freqs: Freqs, tensor_format: str = "sbhd", **options) -> Tensor:
    """Take the gradient of the rotated tensor to that of `t`: the backward pass alone.

    The transpose of the forward's linear map: the rotation by minus the angle where the members of
    a pair have the same angle, and still the exact gradient where they have not. `grad` has the
    shape of `rope_fw`'s output, and any strides, 0 in expanded gradients too; the other arguments,
    the result and the errors are as in `apply_rotary_pos_emb`.

    Source: the study's `rope_bw`; TransformerEngine's `fused_rope_backward`.
    """
    inplace, fused = options.pop("inplace", False), options.pop("fused", True)
    angles = check_arguments({"grad": grad}, freqs, tensor_format, **options)
    with torch.no_grad():
        return _rotate_named({"grad": grad}, angles, inplace, fused, transpose=True)[0]


def _rotate_named(
    named: dict[str, Tensor], angles: Angles, inplace: bool, fused: bool, transpose: bool = False
) -> tuple[Tensor, ...]:
    """Rotate checked tensors: into new ones, or in place."""
    tensors = tuple(named.values())
    if not inplace:
        return _rotate(tensors, angles, fused, transpose)
    check_inplace(named, angles)
    wants_grad = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    if not _kernel_serves(tensors, angles, fused) or (wants_grad and angles.known is None):
        for t, out in zip(tensors, _rotate(tensors, angles, fused, transpose), strict=True):
            t[..., : angles.rotary_dim].copy_(out[..., : angles.rotary_dim])
    elif wants_grad:
        _Rotation.apply(*two(tensors), *angles[:2], angles, transpose, True)
    elif angles.known is None:
        _rotate_inplace_op(*angles[:9], transpose, tensors)
    else:
        launch.rotate(tensors, angles, transpose, inplace=True)
        torch.autograd.graph.increment_version([t for t in tensors if not t.is_inference()])
    return tensors


def _rotate(
    tensors: tuple[Tensor, ...], angles: Angles, fused: bool, transpose: bool
) -> tuple[Tensor, ...]:
    """Rotate into new tensors, by the shortest way that has the derivatives asked for."""
    if not _kernel_serves(tensors, angles, fused):
        return reference.rotate(tensors, angles, fused, transpose)
    if torch.is_grad_enabled():
        for x in (*tensors, *angles[:2]):
            if x is not None and x.requires_grad:
                inputs = *two(tensors), *angles[:2]
                if angles.known is not None:
                    return _apply(*inputs, angles, transpose, False)
                # torch.compile wants each input of a Function to be an object of its own
                inputs = (None if x is None else x.view_as(x) for x in inputs)
                return _Rotation.apply(*inputs, angles, transpose, False)
    return _launch(tensors, angles, transpose, False)


def _kernel_serves(tensors: tuple[Tensor, ...], angles: Angles, fused: bool) -> bool:
    """Or do PyTorch's operators? They have all the rules, and suit tensors of every class."""
    if angles.known is None and (is_transformed() or not is_traced()):
        return False
    return fused and launch.runs_in_triton(tensors[0])


def _launch(tensors: tuple, angles: Angles, transpose: bool, inplace: bool) -> tuple[Tensor, ...]:
    if angles.known is None:  # traced, and never in place
        return tuple(_rotate_op(*angles[:9], transpose, tensors))
    return launch.rotate(tensors, angles, transpose, inplace)


class _Rotation(torch.autograd.Function):
    """y = A t, where the matrix A depends on the angles only.

    So the gradient is A^T grad, the gradient's gradient is A again, and nothing of `t` need be
    saved, unless the table wants a gradient: one function, with a flag, is its own backward.
    """

    @staticmethod
    def forward(ctx, q, k, table, sin, angles, transpose, inplace):
        tensors = (q,) if k is None else (q, k)
        ctx.options, ctx.transpose = angles[5:9], transpose
        ctx.table_wants = ctx.needs_input_grad[2] or ctx.needs_input_grad[3]
        ctx.save_for_backward(table, sin, *angles[2:5], *(tensors if ctx.table_wants else ()))
        ctx.set_materialize_grads(False)
        if inplace:
            ctx.mark_dirty(*tensors)
        outs = _launch(tensors, angles, transpose, inplace)
        if k is not None and not ctx.table_wants:
            wants = zip(outs, ctx.needs_input_grad, strict=False)
            ctx.mark_non_differentiable(*(out for out, wanted in wants if not wanted))
        return outs

    @staticmethod
    def backward(ctx, *grads):
        saved, needs, gradients = ctx.saved_tensors, ctx.needs_input_grad, [None] * 7
        given = {i: g for i, g in enumerate(grads) if g is not None and needs[i]}
        known = known_of(saved[0], ctx.options, *given.values(), *saved[1:5])
        angles, rotated = (*saved[:5], *ctx.options, known), ()
        if given and known is not None and not torch.is_grad_enabled():
            rotated = launch.rotate(tuple(given.values()), angles, not ctx.transpose)
        elif given:
            rotated = _rotate(tuple(given.values()), Angles(*angles), True, not ctx.transpose)
        for i, gradient in zip(given, rotated, strict=True):
            gradients[i] = gradient
        if ctx.table_wants and any(g is not None for g in grads):
            tensors, angles = saved[5:], Angles(*angles)
            gradients[2:4] = reference.table_gradients(tensors, grads, angles, ctx.transpose)
        return tuple(gradients)


# `_Rotation.apply` but for its look for what torch.func left behind: `known_of` has looked
_apply = super(torch.autograd.Function, _Rotation).apply

# For torch.compile, which does not look into an operator: the same launch.
_ANGLES = (
    "Tensor table, Tensor? sin, Tensor? cu_seqlens, Tensor? start_positions, Tensor? position_ids, "
    "str tensor_format, bool interleaved, SymInt cp_size, SymInt cp_rank, bool transpose"
)


def _run(*inputs, inplace: bool = False) -> list[Tensor] | None:
    transpose, tensors = inputs[9], tuple(inputs[10])
    known = known_of(inputs[0], inputs[5:9], *tensors, *inputs[1:5])
    angles = Angles(*inputs[:9], known)
    if inplace:
        check_inplace(dict(zip("qk" if len(tensors) == 2 else "t", tensors, strict=True)), angles)
    check_values(angles, view_as_sbhd(tensors[0], angles.tensor_format).shape[0])
    outs = launch.rotate(tensors, angles, transpose, inplace)
    return None if inplace else list(outs)


_rotate_op = torch.library.custom_op(
    "rope_kernels::rotate",
    _run,
    mutates_args=(),
    schema=f"({_ANGLES}, Tensor[] tensors) -> Tensor[]",
)
_rotate_op.register_fake(
    lambda *inputs: [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in inputs[10]]
)
_rotate_inplace_op = torch.library.custom_op(
    "rope_kernels::rotate_inplace",
    partial(_run, inplace=True),
    mutates_args={"tensors"},
    schema=f"({_ANGLES}, Tensor(a!)[] tensors) -> ()",
)
