"""`qk_norm_rope` with one weight for both. Values and gradients are in `test_ops.py`."""

import torch

from inputs import angles, contiguous, sequence_starts, shape_of
from norm_yardstick import check, norm_rope_fp64
from rope_kernels import qk_norm_rope

S, B, H, D, D2 = 3, 2, 3, 20, 12  # tiles with rows and positions that are not there


class Sample:
    """Queries and keys, a weight for each, and a table whose pairs have two angles each."""

    def __init__(
        self,
        device,
        tensor_format="sbhd",
        *,
        dtype=torch.float32,
        s=S,
        b=B,
        heads=(H, 1),
        d=D,
        d2=D2,
        layout=contiguous,
    ):
        self.format, self.device = tensor_format, device
        self.tensors = [layout(shape_of(tensor_format, s, b, h, d), dtype, device) for h in heads]
        self.weights = [self.weight(d, dtype) for _ in heads]
        self.freqs = angles(2 * s * b + 2, d2, device)
        self.options = {}
        if tensor_format == "thd":
            self.options["cu_seqlens"] = sequence_starts("thd", s, b, device)

    def weight(self, d, dtype):
        return (1 + torch.randn(d, device=self.device)).to(dtype)

    def check(self, freqs=None, **options):
        freqs = self.freqs if freqs is None else freqs
        options = {**self.options, **options}
        return check(self.tensors, self.weights, freqs, self.format, **options)


def test_the_same_weight_for_q_and_k(device):
    """Its gradient is the sum of both."""
    sample = Sample(device)
    weight = sample.weights[0]
    grads = [torch.randn_like(t) for t in sample.tensors]
    leaf = weight.clone().requires_grad_()
    outs = qk_norm_rope(*sample.tensors, leaf, leaf, sample.freqs)
    (got,) = torch.autograd.grad(outs, leaf, grads)
    wide = weight.double().requires_grad_()
    outs = [norm_rope_fp64(t, wide, sample.freqs) for t in sample.tensors]
    (want,) = torch.autograd.grad(outs, wide, [grad.double() for grad in grads])
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)
