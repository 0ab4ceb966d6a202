"""`qk_norm_rope` with one weight for both. Values and gradients are in `test_ops.py`."""

import torch

from inputs import angles
from norm_yardstick import norm_rope_fp64
from rope_kernels import qk_norm_rope


def test_the_same_weight_for_q_and_k(device):
    """Its gradient is the sum of both."""
    tensors = [torch.randn(3, 2, heads, 20, device=device) for heads in (3, 1)]
    weight, freqs = 1 + torch.randn(20, device=device), angles(3, 12, device)
    grads = [torch.randn_like(t) for t in tensors]
    leaf = weight.clone().requires_grad_()
    outs = qk_norm_rope(*tensors, leaf, leaf, freqs)
    (got,) = torch.autograd.grad(outs, leaf, grads)
    wide = weight.double().requires_grad_()
    outs = [norm_rope_fp64(t, wide, freqs) for t in tensors]
    (want,) = torch.autograd.grad(outs, wide, [grad.double() for grad in grads])
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
