"""What the answer should be: fp64, written apart from the package, one sequence at a time.

Also the comparison with it, whose tolerances are one rounding of the dtype and no more.
"""

from itertools import pairwise

import torch


def rotate_fp64(t, freqs, tensor_format, cu_seqlens=None):
    """RoPE by its definition, in fp64, differentiable."""
    t, freqs = t.double(), freqs.double().reshape(freqs.shape[0], freqs.shape[-1])
    if tensor_format == "thd":
        ends = cu_seqlens.tolist()
        pieces = [
            _rotate_sequence(t[start:end], freqs, position_dim=0) for start, end in pairwise(ends)
        ]
        return torch.cat([*pieces, t[ends[-1] :]])
    return _rotate_sequence(t, freqs, tensor_format.index("s"))


def _rotate_sequence(t, freqs, position_dim):
    half = freqs.shape[1] // 2
    shape = [1] * (t.dim() - 1) + [half]
    shape[position_dim] = t.shape[position_dim]
    angle1, angle2 = (
        part.reshape(shape) for part in freqs[: t.shape[position_dim]].split(half, dim=1)
    )
    x1, x2, tail = t.split([half, half, t.shape[-1] - 2 * half], dim=-1)
    y1 = x1 * torch.cos(angle1) - x2 * torch.sin(angle1)
    y2 = x2 * torch.cos(angle2) + x1 * torch.sin(angle2)
    return torch.cat([y1, y2, tail], dim=-1)


def gradient_fp64(t, freqs, tensor_format, grad, cu_seqlens=None):
    """Gradient of `rotate_fp64` with respect to `t`, by PyTorch's own autograd."""
    leaf = t.detach().double().requires_grad_()
    out = rotate_fp64(leaf, freqs, tensor_format, cu_seqlens)
    (result,) = torch.autograd.grad(out, leaf, grad.double())
    return result


def assert_rounded_once(got, want_fp64):
    """`got` is `want_fp64` but for fp32 arithmetic and one rounding to its dtype.

    Triton's interpreter truncates to bf16 where a GPU rounds to nearest: a whole unit in the last
    place there, half a unit elsewhere.
    """
    half_unit = torch.finfo(got.dtype).eps / 2
    truncates = got.dtype == torch.bfloat16 and not got.is_cuda
    rtol = half_unit * (2.0 if truncates else 1.01)
    atol = 1e-14 if got.dtype == torch.float64 else 2e-6  # cancellation in x1 cos - x2 sin
    rtol = 1e-13 if got.dtype == torch.float64 else max(rtol, 1e-6)
    torch.testing.assert_close(got.double(), want_fp64, rtol=rtol, atol=atol)
