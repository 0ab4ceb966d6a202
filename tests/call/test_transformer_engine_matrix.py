"""TransformerEngine's own test of `apply_rotary_pos_emb`, all cases, with a random gradient added.

Source of the parameters: tests/pytorch/test_fused_rope.py of TransformerEngine at b8eea8a. Its
tolerances are kept where ours are not tighter (`yardstick.py`): results are compared with fp64.
"""

import itertools

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
GRADIENTS = ("expanded", "dense", "random")
CU_SEQLENS = [0, 400, 542, 711, 727, 752, 1270, 1426, 1450, 1954, 2044, 2048]

DENSE = list(
    itertools.product(
        DTYPES,
        (2048, 4096),  # sequence length
        (128, 256),  # head dimension
        (0.5, 1.0),  # rotary percent
        (0, 10),  # margin: positions in the table past the sequence
        (None, (0, 1), (2, 3)),  # dimensions permuted in memory
        ("sbhd", "bshd"),
        GRADIENTS,
    )
)
THD = list(itertools.product(DTYPES, (128, 256), (0.5, 1.0), (None, (1, 2)), GRADIENTS))


def test_the_matrix_is_complete():
    """576 dense and 48 packed cases there, with two gradients; a third gradient here."""
    assert len(DENSE) == 576 // 2 * 3 and len(THD) == 48 // 2 * 3


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
@pytest.mark.parametrize("dtype,s,d,rotary,margin,dims,tensor_format,gradient", DENSE)
def test_dense(dtype, s, d, rotary, margin, dims, tensor_format, gradient):
    check_dense(dtype, s, d, rotary, margin, dims, tensor_format, gradient, 64, "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype,d,rotary,dims,gradient", THD)
def test_thd(dtype, d, rotary, dims, gradient):
    check_thd(dtype, d, rotary, dims, gradient, CU_SEQLENS, 64, "cuda")


# the same cases at a size the interpreter can bear: 1/128 of the length, 4 heads; 35 + 15 of them


@pytest.mark.parametrize("dtype,s,d,rotary,margin,dims,tensor_format,gradient", DENSE[::25])
def test_small_slice_of_dense(dtype, s, d, rotary, margin, dims, tensor_format, gradient, device):
    check_dense(dtype, s // 128, d, rotary, margin, dims, tensor_format, gradient, 4, device)


@pytest.mark.parametrize("dtype,d,rotary,dims,gradient", THD[::5])
def test_small_slice_of_thd(dtype, d, rotary, dims, gradient, device):
    check_thd(dtype, d, rotary, dims, gradient, [n // 32 for n in CU_SEQLENS], 4, device)
