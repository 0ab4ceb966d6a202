"""`norm_rope` with what training does: saved tensors, checkpoints, autocast.

And in place, where gradients are refused.
"""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from inputs import angles, contiguous
from norm_yardstick import norm_rope_fp64
from rope_kernels import norm_rope, qk_norm_rope, reference
from rope_kernels.launch import launch
from test_norm_rope import Sample
from yardstick import assert_near

S, B, H, D, D2 = 3, 2, 3, 20, 12  # of a `Sample`

# what autograd keeps


def saved_by(function):
    """The memory that autograd keeps for a backward, and what the function returns."""
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        out = function()
    return {x.data_ptr() for x in saved}, out


@pytest.mark.parametrize("tensor_format", ("bshd", "thd"))
@pytest.mark.usefixtures("needs_triton")
def test_the_input_is_kept_and_not_the_output(tensor_format, device):
    sample = Sample(device, tensor_format, heads=(3, 2))
    q, k, *weights = (x.requires_grad_() for x in (*sample.tensors, *sample.weights))
    options = {"norm_after": True, **sample.options}
    kept, outs = saved_by(
        lambda: qk_norm_rope(q, k, *weights, sample.freqs, tensor_format, **options)
    )
    inputs, results = {q.data_ptr(), k.data_ptr()}, {out.data_ptr() for out in outs}
    assert inputs <= kept and not kept & results
    # q, k; 1 / rms of each; two weights; the table; cu_seqlens, positions
    assert len(kept) == 2 + 2 + 2 + 1 + 2 * (tensor_format == "thd")


@pytest.mark.usefixtures("needs_triton")
def test_the_input_may_not_be_overwritten_and_the_output_may(device):
    sample = Sample(device, heads=(3,))
    (t,), (weight,) = sample.tensors, sample.weights
    x = t.requires_grad_() * 1
    out = norm_rope(x, weight, sample.freqs, norm_after=True)
    with torch.no_grad():
        out.add_(1)
    torch.autograd.grad(out, t, torch.ones_like(t), retain_graph=True)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(out, t, torch.ones_like(t))


# checkpointing, autocast


@pytest.mark.parametrize("use_reentrant", (False, True))
def test_checkpointing_changes_no_bit_of_a_gradient(use_reentrant, device):
    sample = Sample(device, heads=(3,))
    leaves = [x.requires_grad_() for x in (*sample.tensors, *sample.weights)]
    grad = torch.randn_like(leaves[0])

    def block(t, weight):
        out = norm_rope(torch.sin(t), weight, sample.freqs, norm_after=True)
        return norm_rope(out * t, weight, sample.freqs, norm_after=True)

    plain = torch.autograd.grad(block(*leaves), leaves, grad)
    checkpoint(block, *leaves, use_reentrant=use_reentrant).backward(grad)
    for leaf, want in zip(leaves, plain, strict=True):
        assert torch.equal(leaf.grad, want)


def test_under_autocast_the_dtype_of_x_is_kept(device):
    projection, x = nn.Linear(16, H * D).to(device), torch.randn(S, B, 16, device=device)
    weight = torch.randn(D, device=device, requires_grad=True)  # a parameter, in fp32
    freqs = angles(S, D2, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        q = projection(x).view(S, B, H, D)
        q.retain_grad()
        out = norm_rope(q, weight, freqs)
        assert q.dtype == out.dtype == torch.bfloat16
        assert norm_rope(q.detach().float(), weight, freqs).dtype == torch.float32
    grad = torch.randn_like(out)
    out.backward(grad)
    leaves = [q.detach().double().requires_grad_(), weight.detach().double().requires_grad_()]
    want = norm_rope_fp64(*leaves, freqs)
    assert_near(out.detach(), want.detach(), want.detach().abs().max())
    wants = torch.autograd.grad(want, leaves, grad.double())
    for leaf, want in zip((q, weight), wants, strict=True):
        assert_near(leaf.grad, want, want.abs().max())
    assert projection.weight.grad.dtype == weight.grad.dtype == torch.float32


# in place


def test_in_place_raises_the_version(device):
    sample = Sample(device)
    versions = [t._version for t in sample.tensors]
    qk_norm_rope(*sample.tensors, *sample.weights, sample.freqs, inplace=True)
    assert all(t._version > n for t, n in zip(sample.tensors, versions, strict=True))
    with torch.inference_mode():
        t = contiguous((S, B, H, D), torch.float32, device)
        norm_rope(t, None, sample.freqs, inplace=True)


@pytest.mark.parametrize("which, fused", ((0, True), (1, False), (2, False), (3, True)))
def test_in_place_refuses_gradients(which, fused, device):
    """Of x and of the weights; within no_grad they are fine."""
    sample = Sample(device)
    given = [*sample.tensors, *sample.weights]
    given[which].requires_grad_()
    before = [x.detach().clone() for x in given]
    with pytest.raises(
        ValueError, match=r"^inplace is True, and a tensor requires a gradient; acc"
    ):
        qk_norm_rope(*given, sample.freqs, inplace=True, fused=fused)
    assert all(torch.equal(x, y) for x, y in zip(given, before, strict=True))
    with torch.no_grad():
        q, _ = qk_norm_rope(*given, sample.freqs, inplace=True, fused=fused)
    assert q is given[0] and not torch.equal(q, before[0])


@pytest.mark.usefixtures("needs_triton")
def test_unfused_is_plain_pytorch(device, monkeypatch):
    sample = Sample(device)
    want = qk_norm_rope(*sample.tensors, *sample.weights, sample.freqs)
    monkeypatch.setattr(launch, "norm_rope", None)
    got = qk_norm_rope(*sample.tensors, *sample.weights, sample.freqs, fused=False)
    torch.testing.assert_close(got, want)
    sample.check(fused=False)
    monkeypatch.undo()
    monkeypatch.setattr(reference, "norm_rope", None)
    sample.check()  # by the kernels alone
