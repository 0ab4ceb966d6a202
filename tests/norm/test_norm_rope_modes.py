"""`norm_rope` in place: a version more, and no gradient."""

import pytest
import torch

from rope_kernels import norm_rope
from test_norm_rope import QK_NORM_ROPE


def test_in_place_raises_the_version(device):
    sample = QK_NORM_ROPE.sample(device)
    tensors = sample.given["q"], sample.given["k"]
    versions = [t._version for t in tensors]
    sample.call(inplace=True)
    assert all(t._version > n for t, n in zip(tensors, versions, strict=True))
    with torch.inference_mode():
        t = torch.randn(sample.given["q"].shape, device=device)
        norm_rope(t, None, sample.freqs, inplace=True)


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
