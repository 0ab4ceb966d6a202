"""`qk_norm_rope` on a GPU: what Inductor makes of it, and the same bits in each run."""

import pytest
import torch

from counted import queued_by
from inputs import FORMATS, angles, packed_qkv, sequence_starts, shape_of
from rope_kernels import qk_norm_rope

pytestmark = pytest.mark.gpu


def normalized(tensor_format="sbhd", layout=None, dtype=torch.bfloat16, s=64, **options):
    """Queries, keys and weights, and a function of these."""
    make = layout or (lambda shape, dtype, device: torch.randn(shape, dtype=dtype, device=device))
    shapes = *(shape_of(tensor_format, s, 2, h, 128) for h in (8, 2)), (128,), (128,)
    leaves = [make(x, dtype, "cuda").detach() for x in shapes[:2]]
    leaves += [torch.randn(x, dtype=dtype, device="cuda") for x in shapes[2:]]
    freqs = angles(2 * s, 128, "cuda")
    options["cu_seqlens"] = sequence_starts(tensor_format, s, 2, "cuda")
    leaves = [x.requires_grad_() for x in leaves]
    return leaves, lambda *leaves: qk_norm_rope(*leaves, freqs, tensor_format, **options)


NORMS = {
    **{tensor_format: {"tensor_format": tensor_format} for tensor_format in FORMATS},
    "packed qkv": {"layout": packed_qkv},
    "norm after": {"norm_after": True},
    "model": {"rounding": "model"},
}


@pytest.mark.parametrize("name", NORMS)
def test_inductor_fuses_a_norm(name):
    """Fewer kernels than PyTorch's operators, and the values of ours."""
    torch._dynamo.reset()
    leaves, rotate = normalized(**NORMS[name])
    function = torch.compile(rotate, fullgraph=True)
    found = []
    for call in (function, rotate):
        outs = call(*leaves)
        grads = [torch.ones_like(out) for out in outs]
        found.append([*outs, *torch.autograd.grad(outs, leaves, grads)])
    for got, want in zip(*found, strict=True):
        most = float(want.detach().abs().max())
        torch.testing.assert_close(got, want, rtol=2**-6, atol=2**-6 * most)
    _, plain = normalized(**NORMS[name], fused=False)
    ours, fused, each = (queued_by(lambda f=f: f(*leaves))[0] for f in (rotate, function, plain))
    assert not {*fused} & {*ours} and len(fused) < len(each)


@pytest.mark.parametrize("norm_after", (False, True))
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32), ids=str)
@pytest.mark.parametrize("tensor_format", FORMATS)
def test_gradients_of_weights_are_equal_bit_for_bit_in_100_runs(tensor_format, dtype, norm_after):
    """With atomics no two runs on a GPU agree."""
    leaves, rotate = normalized(tensor_format, None, dtype, 1000, norm_after=norm_after)
    outs = rotate(*leaves)
    grads = [torch.randn_like(out) for out in outs]
    first = torch.autograd.grad(outs, leaves, grads, retain_graph=True)
    between = torch.randn(1024, 1024, device="cuda")
    for i in range(100):
        if i % 2:  # other work, so that programs end in another order
            between = between @ between
        found = torch.autograd.grad(outs, leaves, grads, retain_graph=True)
        assert all(map(torch.equal, found, first))
