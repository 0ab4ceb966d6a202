"""`norm_rope` in place: a version more, and no gradient."""

import pytest
import torch

from rope_kernels import norm_rope, qk_norm_rope
from test_norm_rope import Sample


def test_in_place_raises_the_version(device):
    sample = Sample(device)
    versions = [t._version for t in sample.tensors]
    qk_norm_rope(*sample.tensors, *sample.weights, sample.freqs, inplace=True)
    assert all(t._version > n for t, n in zip(sample.tensors, versions, strict=True))
    with torch.inference_mode():
        norm_rope(torch.randn(3, 2, 3, 20, device=device), None, sample.freqs, inplace=True)


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
