"""The public functions: check the arguments, rotate, know the gradient."""

import torch
from torch import Tensor

from . import reference
from .checks import check_arguments
from .launch import rotate

_NO_FREQS_GRADIENT = (
    "freqs requires a gradient, which the fused kernel does not give; pass fused=False, or "
    "freqs.detach()"
)


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Tensor,
    tensor_format: str = "sbhd",
    *,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
) -> Tensor:
    """Apply rotary position embedding to a query or key tensor; differentiable in `t`.

    Element i of the rotary slice is rotated together with element i + d2/2 (half-split pairing).
    Takes TransformerEngine's keyword calls as they are, with one difference: `fused` is True unless
    you say otherwise (there it defaults to False).

    Args:
        t: (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), as `tensor_format` says; fp32,
            fp16, bf16 or fp64; any strides.
        freqs: angles in radians, (s2, 1, 1, d2), fp32 (fp64 too with fp64 `t`), on the device of
            `t`; even d2 <= d, s2 >= s. `RotaryPositionEmbedding` makes them. The two halves may
            differ. Elements d2, d2 + 1, ... of the head dimension pass through unchanged.
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd' (packed sequences).
        fused: True: one kernel, fp32 math (fp64 for fp64 `t`), one rounding. False: plain PyTorch
            that rounds cos and sin to `t.dtype` first, as TransformerEngine's unfused function
            does; differentiable in `freqs` too.
        cu_seqlens: for 'thd', and only there: (b + 1,), int32 or int64, on the device of `t`: where
            each packed sequence starts, then where the last one ends. Positions restart at 0 in
            each sequence.

    Returns:
        A contiguous tensor of the shape and dtype of `t`. Tokens past `cu_seqlens[-1]` come out
        unrotated. A packed position past the table (its values are not read back from a GPU) gives
        NaN.

    Raises:
        TypeError: an argument is no tensor or has a dtype that is not accepted.
        ValueError: shapes, devices or formats do not fit together, or `freqs` requires a gradient
            with `fused=True`.

    Source: TransformerEngine's `apply_rotary_pos_emb`; RoFormer, equation (34).
    """
    if not fused:
        return reference.apply_rotary_pos_emb(t, freqs, tensor_format, cu_seqlens=cu_seqlens)
    check_arguments(t, freqs, tensor_format, cu_seqlens)
    if freqs.requires_grad and torch.is_grad_enabled():
        raise ValueError(_NO_FREQS_GRADIENT)
    return _Rotation.apply(t, freqs, tensor_format, cu_seqlens, False)


def rope_fw(
    t: Tensor,
    freqs: Tensor,
    tensor_format: str = "sbhd",
    *,
    cu_seqlens: Tensor | None = None,
) -> Tensor:
    """Rotate `t`: the forward pass alone, unknown to autograd and not for `torch.func`.

    Arguments, result and errors as in `apply_rotary_pos_emb` with `fused=True`.

    Source: the study's `rope_fw`; TransformerEngine's `fused_rope_forward`.
    """
    check_arguments(t, freqs, tensor_format, cu_seqlens)
    with torch.no_grad():
        return rotate(t, freqs, tensor_format, cu_seqlens, transpose=False)


def rope_bw(
    grad: Tensor,
    freqs: Tensor,
    tensor_format: str = "sbhd",
    *,
    cu_seqlens: Tensor | None = None,
) -> Tensor:
    """Take the gradient of the rotated tensor to that of `t`: the backward pass alone.

    The transpose of the forward's linear map: the rotation by minus the angle where the two halves
    of `freqs` are alike, and still the exact gradient where they are not.

    Args:
        grad: gradient of the loss with respect to the output of `rope_fw`, of the same shape; any
            strides, stride 0 of expanded gradients included. The rest as in `rope_fw`.

    Returns:
        The gradient with respect to `t`, contiguous.

    Raises:
        TypeError, ValueError: as `apply_rotary_pos_emb`.

    Source: the study's `rope_bw`; TransformerEngine's `fused_rope_backward`.
    """
    check_arguments(grad, freqs, tensor_format, cu_seqlens, name="grad")
    with torch.no_grad():
        return rotate(grad, freqs, tensor_format, cu_seqlens, transpose=True)


class _Rotation(torch.autograd.Function):
    """y = A t, where the matrix A depends on `freqs` only.

    So the gradient is A^T grad, the gradient's gradient is A again, and nothing of `t` need be
    saved: one function, with a flag, is its own backward.
    """

    @staticmethod
    def forward(t, freqs, tensor_format, cu_seqlens, transpose):
        return rotate(t, freqs, tensor_format, cu_seqlens, transpose)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, freqs, ctx.tensor_format, cu_seqlens, ctx.transpose = inputs
        ctx.save_for_backward(freqs, cu_seqlens)
        ctx.save_for_forward(freqs, cu_seqlens)  # the same two, for `jvp`
        ctx.set_materialize_grads(False)  # a tangent of freqs is None, not zeros, if it has none

    @staticmethod
    def backward(ctx, grad):
        if ctx.needs_input_grad[1]:  # under vmap, freqs does not say so earlier
            raise ValueError(_NO_FREQS_GRADIENT)
        if grad is None:
            return None, None, None, None, None
        freqs, cu_seqlens = ctx.saved_tensors
        grad_t = _Rotation.apply(grad, freqs, ctx.tensor_format, cu_seqlens, not ctx.transpose)
        return grad_t, None, None, None, None

    @staticmethod
    def jvp(ctx, t_tangent, freqs_tangent, *_):
        if freqs_tangent is not None:
            raise ValueError(_NO_FREQS_GRADIENT)
        if t_tangent is None:
            return None
        freqs, cu_seqlens = ctx.saved_tensors
        return _Rotation.apply(t_tangent, freqs, ctx.tensor_format, cu_seqlens, ctx.transpose)

    @staticmethod
    def vmap(info, in_dims, t, freqs, tensor_format, cu_seqlens, transpose):
        t_dim, freqs_dim, _, cu_seqlens_dim, _ = in_dims
        if freqs_dim is None and cu_seqlens_dim is None:
            return _rotate_as_more_heads(t, t_dim, freqs, tensor_format, cu_seqlens, transpose)
        # different angles for each entry: one launch each
        outputs = [
            _Rotation.apply(
                _select(t, t_dim, i),
                _select(freqs, freqs_dim, i),
                tensor_format,
                _select(cu_seqlens, cu_seqlens_dim, i),
                transpose,
            )
            for i in range(info.batch_size)
        ]
        return torch.stack(outputs), 0


def _rotate_as_more_heads(t, t_dim, freqs, tensor_format, cu_seqlens, transpose):
    """Rotate a vmapped `t` in one launch: heads share their angles, so fold the batch into them.

    Folding copies `t`, unless the batch already lies beside the heads.
    """
    head_dim = tensor_format.index("h")
    t = t.movedim(t_dim, head_dim)
    folded = t.flatten(head_dim, head_dim + 1)
    out = _Rotation.apply(folded, freqs, tensor_format, cu_seqlens, transpose)
    return out.unflatten(head_dim, t.shape[head_dim : head_dim + 2]), head_dim


def _select(value, dim, index):
    return value if dim is None else value.select(dim, index)
