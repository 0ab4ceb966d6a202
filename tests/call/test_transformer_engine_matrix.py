"""TransformerEngine's own test of `apply_rotary_pos_emb`, all cases, with a random gradient added.

Source of the parameters: tests/pytorch/test_fused_rope.py of TransformerEngine at b8eea8a. Its
tolerances are kept where ours are not tighter (`yardstick.py`): results are compared with fp64.
"""

import itertools

import pytest
import torch

from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
GRADIENTS = ("expanded", "dense", "random")
CU_SEQLENS = [0, 400, 542, 711, 727, 752, 1270, 1426, 1450, 1954, 2044, 2048]

# 576 dense and 48 packed cases there, with two gradients; a third gradient here
DENSE = {
    "dtype": DTYPES,
    "s": (2048, 4096),
    "d": (128, 256),
    "rotary": (0.5, 1.0),
    "margin": (0, 10),  # positions in the table past the sequence
    "dims": (None, (0, 1), (2, 3)),  # permuted in memory
    "tensor_format": ("sbhd", "bshd"),
    "gradient": GRADIENTS,
}
THD = {name: DENSE[name] for name in ("dtype", "d", "rotary", "gradient")}
THD["dims"] = None, (1, 2)


def product(axes):
    return pytest.mark.parametrize(",".join(axes), list(itertools.product(*axes.values())))


def gradient_of(out, kind):
    """The three losses: sum * 2 (an expanded gradient), out * ones, and a random direction."""
    if kind == "expanded":
        return torch.full((), 2.0, dtype=out.dtype, device=out.device).expand(out.shape)
    return torch.ones_like(out) if kind == "dense" else torch.randn_like(out)


def check(t, freqs, tensor_format, gradient, cu_seqlens=None):
    t.requires_grad_()
    out = apply_rotary_pos_emb(t, freqs, tensor_format=tensor_format, cu_seqlens=cu_seqlens)
    assert out.is_contiguous()
    assert_rounded_once(out.detach(), rotate_fp64(t.detach(), freqs, tensor_format, cu_seqlens))
    grad = gradient_of(out.detach(), gradient)
    (grad_t,) = torch.autograd.grad(out, t, grad)
    assert_rounded_once(grad_t, gradient_fp64(t, freqs, tensor_format, grad, cu_seqlens))


def permuted(shape, dims, dtype, device):
    t = torch.rand(shape, dtype=dtype, device=device)
    return t if dims is None else t.transpose(*dims).contiguous().transpose(*dims)


def check_dense(dtype, s, d, rotary, margin, dims, tensor_format, gradient, heads, device):
    shape = (s, 2, heads, d) if tensor_format == "sbhd" else (2, s, heads, d)
    freqs = RotaryPositionEmbedding(d, rotary).to(device)(s + margin)
    check(permuted(shape, dims, dtype, device), freqs, tensor_format, gradient)


def check_thd(dtype, d, rotary, dims, gradient, cu_seqlens, heads, device):
    freqs = RotaryPositionEmbedding(d, rotary).to(device)(cu_seqlens[-1])
    t = permuted((cu_seqlens[-1], heads, d), dims, dtype, device)
    check(t, freqs, "thd", gradient, torch.tensor(cu_seqlens, dtype=torch.int32, device=device))


@pytest.mark.gpu
@product(DENSE)
def test_dense(dtype, s, d, rotary, margin, dims, tensor_format, gradient):
    check_dense(dtype, s, d, rotary, margin, dims, tensor_format, gradient, 64, "cuda")


@pytest.mark.gpu
@product(THD)
def test_thd(dtype, d, rotary, dims, gradient):
    check_thd(dtype, d, rotary, dims, gradient, CU_SEQLENS, 64, "cuda")


# the same values at a size that the interpreter can bear


@cover(**DENSE)
def test_small_dense(dtype, s, d, rotary, margin, dims, tensor_format, gradient, device):
    check_dense(dtype, s // 512, d, rotary, margin, dims, tensor_format, gradient, 3, device)


@cover(**THD)
def test_small_thd(dtype, d, rotary, dims, gradient, device):
    check_thd(dtype, d, rotary, dims, gradient, [n // 64 for n in CU_SEQLENS], 3, device)
