"""`rope_qk`: queries and keys in one launch, each as if it had been rotated alone, bit by bit.

Values, strides and gradients are in `test_ops.py`; here is what else two tensors can be: one and
the same, far apart, one without elements or without a gradient.
"""

import pytest
import torch

from inputs import FORMATS, angles, shape_of
from launches import launched_by
from pairwise import cover
from rope_kernels import apply_rotary_pos_emb, rope_qk
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

S, B, D, D2 = 6, 2, 10, 6


@pytest.fixture
def launches(whole_way):
    """A list that grows with every launch of a kernel, by the number of tensors it rotates."""
    counted = []

    def counting(kernel, grid, arguments, options):
        counted.append(sum(t is not None for t in arguments[:2]))
        return kernel.run(*arguments, grid=grid, warmup=False, **options)

    with launched_by(counting):
        yield counted


def check(q, k, freqs, tensor_format, **options):
    """Both are as two single calls make them, which are right; and the inputs are left alone."""
    before = q.clone(), k.clone()
    outs = rope_qk(q, k, freqs, tensor_format, **options)
    assert isinstance(outs, tuple) and len(outs) == 2
    for x, out, unchanged in zip((q, k), outs, before, strict=True):
        assert out.shape == x.shape and out.dtype == x.dtype and out.is_contiguous()
        assert torch.equal(out, apply_rotary_pos_emb(x, freqs, tensor_format, **options))
        assert_rounded_once(out, rotate_fp64(x, freqs, tensor_format, **options))
        assert torch.equal(x, unchanged)


def leaves(q, k, wants="q and k"):
    """Both as leaves, of which those named require a gradient."""
    return q.detach().requires_grad_("q" in wants), k.detach().requires_grad_("k" in wants)


# shapes and strides


def test_one_tensor_as_both(device):
    q = torch.randn(S, B, 3, D, device=device)
    check(q, q, angles(S, D2, device), "sbhd")


@pytest.mark.parametrize("large", ("q", "k"))
def test_offsets_of_each_need_64_bits(large, device):
    """Neighbors in d lie 2^29 elements apart, 6 of them; the other tensor is an ordinary one."""
    shape, step = (6, 1, 2, 6), 2**29
    memory = torch.empty(5 * step + 64, dtype=torch.float16, device=device)
    far = memory.as_strided(shape, (2, 2, 1, step)).copy_(torch.randn(shape))
    near = torch.randn(6, 1, 3, 6, dtype=torch.float16, device=device)
    check(*((far, near) if large == "q" else (near, far)), angles(6, 6, device), "sbhd")


# nothing to rotate


EMPTY = {
    "q has no heads": (S, B, 0, 2),
    "k has no heads": (S, B, 3, 0),
    "neither has heads": (S, B, 0, 0),
    "no batch": (S, 0, 3, 2),
    "no positions": (0, B, 3, 2),
}


@cover(sizes=EMPTY, tensor_format=FORMATS)
def test_empty_tensors(tensor_format, sizes, device, launches):
    s, b, *heads = sizes
    q, k = leaves(*(torch.randn(shape_of(tensor_format, s, b, h, D), device=device) for h in heads))
    starts = torch.tensor([0, s * b], device=device) if tensor_format == "thd" else None
    freqs, options = angles(S * B, D2, device), {"cu_seqlens": starts}
    outs = rope_qk(q, k, freqs, tensor_format, **options)
    grads = [torch.randn_like(out) for out in outs]
    got = torch.autograd.grad(outs, (q, k), grads)
    for x, out, grad, grad_x in zip((q, k), outs, grads, got, strict=True):
        assert out.shape == grad_x.shape == x.shape
        assert_rounded_once(out.detach(), rotate_fp64(x.detach(), freqs, tensor_format, **options))
        assert_rounded_once(grad_x, gradient_fp64(x, freqs, tensor_format, grad, **options))
    not_empty = sum(x.numel() > 0 for x in (q, k))
    assert launches == ([not_empty] * 2 if not_empty else [])


# launches


@pytest.mark.parametrize("leaf,launched", (("freqs", 0), ("k", 1)))
def test_backward_launches_only_for_those_who_want_a_gradient(leaf, launched, launches, device):
    """Where the table alone wants one, no gradient of a tensor is made."""
    q, k = torch.randn(5, 2, 3, 10, device=device), torch.randn(5, 2, 1, 10, device=device)
    freqs = angles(5, 8, device)
    wants = {"freqs": freqs, "k": k}[leaf].requires_grad_()
    out = rope_qk(q, k, freqs)[1]
    before = len(launches)
    torch.autograd.grad(out, wants, torch.randn_like(out))
    assert len(launches) - before == launched


@pytest.mark.parametrize("used,backward", (("q and k", 2), ("q", 1), ("k", 1)))
def test_one_launch_forward_and_one_backward(used, backward, device, launches):
    q, k = leaves(*(torch.randn(S, B, h, D, device=device) for h in (7, 5)))
    outs = zip("qk", rope_qk(q, k, angles(S, D2, device)), strict=True)
    sum(out.sum() for name, out in outs if name in used).backward()
    assert launches == [2, backward]
