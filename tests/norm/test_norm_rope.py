"""`qk_norm_rope` with one weight for both, in full tiles, and in place: see `test_ops.py`."""

import pytest
import torch

from ops import OPS

QK_NORM_ROPE = next(op for op in OPS if op.name == "qk_norm_rope")


def test_the_same_weight_for_q_and_k(device):
    """Its gradient is the sum of both."""
    sample = QK_NORM_ROPE.sample(device)
    leaf = sample.given["q_weight"].requires_grad_()
    exact = leaf.detach().double().requires_grad_()
    outs = sample.call({"k_weight": leaf})
    grads = [torch.randn_like(out) for out in outs]
    (got,) = torch.autograd.grad(outs, leaf, grads)
    outs = sample.defined({**sample.given, "q_weight": exact, "k_weight": exact})
    (want,) = torch.autograd.grad(outs, exact, [grad.double() for grad in grads])
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def test_a_row_that_no_head_has_adds_nothing(device):
    """Most tiles of a backward are full: they have 16 rows only if at most one in 20 is empty."""
    QK_NORM_ROPE.sample(device, heads=(15, 16), s=2).check()


@pytest.mark.parametrize(
    "which, fused", (("q", True), ("k", False), ("q_weight", False), ("k_weight", True))
)
def test_in_place_refuses_gradients(which, fused, device):
    """Of x and of the weights; within no_grad they are fine."""
    sample = QK_NORM_ROPE.sample(device)
    sample.given[which].requires_grad_()
    before = {n: x.detach().clone() for n, x in sample.given.items()}
    with pytest.raises(
        ValueError, match=r"^inplace is True, and a tensor requires a gradient; acc"
    ):
        sample.call(inplace=True, fused=fused)
    assert all(torch.equal(x, before[n]) for n, x in sample.given.items())
    with torch.no_grad():
        q, _ = sample.call(inplace=True, fused=fused)
    assert q is sample.given["q"] and not torch.equal(q, before["q"])
