"""`split_qkv_rope`: what it alone has. Values and gradients are in `test_ops.py`."""

import pytest
import torch

from ops import OPS, SplitSample
from rope_kernels import RotaryPositionEmbedding, rope_qk
from rope_kernels.serving import split_qkv_rope
from yardstick import heads_of, in_format

HEADS, KV_HEADS = SplitSample.HEADS, SplitSample.KV_HEADS
(OP,) = (op for op in OPS if op.name == "split_qkv_rope")


def test_gradients_of_projections_with_the_same_strides(device):
    """The same memory read as sbhd and as bshd: what goes back is laid out as the format says."""
    rope = RotaryPositionEmbedding(20).to(device)
    qkv = torch.randn(7, 2, (HEADS + 2 * KV_HEADS) * 20, device=device)
    for x, tensor_format in 2 * [(qkv, "sbhd"), (qkv.transpose(0, 1), "bshd")]:
        leaf, other = (x.detach().requires_grad_() for _ in range(2))
        formats = {"tensor_format": tensor_format, "output_format": "bhsd"}
        outs = split_qkv_rope(leaf, rope, HEADS, KV_HEADS, packing="grouped", **formats)
        q, k, v = heads_of(other, "grouped", 20, HEADS, KV_HEADS)
        wanted = [*rope_qk(q, k, rope, tensor_format), v]
        wanted = [in_format(y, tensor_format, "bhsd") for y in wanted]
        grads = [torch.randn_like(y) for y in outs]
        found = torch.autograd.grad(outs, leaf, grads)
        assert torch.equal(*found, *torch.autograd.grad(wanted, other, grads))


def test_a_compiled_call_is_launched_again_too(interpreter, device):
    """The operator remembers launches of its own."""
    torch._dynamo.reset()
    sample = OP.sample(device)
    compiled = torch.compile(sample.call, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        sample.check_values(compiled())
    assert interpreter is None or len(interpreter.by_jit) == len(interpreter.by_handle) == 1


def test_a_gradient_that_autograd_does_not_find_is_an_error(device, needs_triton, monkeypatch):
    """Of q alone PyTorch computes it. What cuts PyTorch's graph must not leave `grad` None."""
    qkv = torch.randn(1, 3, (HEADS + 2 * KV_HEADS) * 20, device=device, requires_grad=True)
    rope = RotaryPositionEmbedding(20).to(device)
    q, _, _ = split_qkv_rope(qkv, rope, HEADS, KV_HEADS, tensor_format="bshd")
    monkeypatch.setattr(
        torch.autograd, "grad", lambda outs, inputs, *_, **__: (None,) * len(inputs)
    )
    with pytest.raises(RuntimeError, match=r"^no input that requires a gradient got one: a tracer"):
        q.sum().backward()
