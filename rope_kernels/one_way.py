"""One direction alone, by the study's names, and the quarter turn that RoPE is written with."""

import torch
from torch import Tensor

from . import reference
from .api import rotate_call
from .call import Call, Freqs, OutputPairing
from .checks import check_rotate_half
from .formats import TensorFormat


def rope_fw(
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
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
) -> Tensor:
    """Rotate `t`: the forward pass alone, not recorded by autograd and not for `torch.func`.

    Arguments, result and errors as in `apply_rotary_pos_emb`.

    Source: the study's `rope_fw`; TransformerEngine's `fused_rope_forward`.
    """
    rest = cu_seqlens, start_positions, position_ids, interleaved, cp_size, cp_rank, fused, inplace
    rest += rotary_dim, rotary_start, inverse, output_pairing
    with torch.no_grad():
        return rotate_call(Call(("t",), (t,), freqs, tensor_format, *rest))[0]


def rope_bw(
    grad: Tensor,
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
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
) -> Tensor:
    """Take the gradient of the rotated tensor to that of `t`: the backward pass alone.

    The transpose of the forward's linear map: the rotation by minus the angle where the members of
    a pair have the same angle, and still the exact gradient where they don't. `grad` has the
    shape of `rope_fw`'s output, and any strides, 0 in expanded gradients too; the other arguments,
    the result and the errors are as in `apply_rotary_pos_emb`.

    Source: the study's `rope_bw`; TransformerEngine's `fused_rope_backward`.
    """
    rest = cu_seqlens, start_positions, position_ids, interleaved, cp_size, cp_rank, fused, inplace
    rest += rotary_dim, rotary_start, inverse, output_pairing
    call = Call(("grad",), (grad,), freqs, tensor_format, *rest, transpose=True)
    with torch.no_grad():
        return rotate_call(call)[0]


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Turn every pair (x1, x2) of the last dimension by a quarter, to (-x2, x1).

    Args:
        x: any shape (..., d2) with even d2; any dtype that has negative numbers.
        interleaved: x1 and x2 are neighbors, elements 2i and 2i + 1, instead of i and i + d2/2.

    Returns:
        A new tensor like `x`. Applied twice it gives -x.

    Raises:
        TypeError: `x` is not a tensor, or `interleaved` is not a bool.
        ValueError: the last dimension is odd.

    Source: TransformerEngine's `_rotate_half`; the quarter turn in RoFormer, equation (34).
    """
    check_rotate_half(x, interleaved)
    return reference.rotate_half(x, interleaved)
