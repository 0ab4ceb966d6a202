"""`split_qkv_rope` under torch.compile: operators, forward and backward."""

import pytest
import torch

from inputs import sequence_starts
from pairwise import cover
from projections import HEADS, KV_HEADS, PACKINGS, B, D, S, projection
from rope_kernels import RotaryPositionEmbedding, split_qkv_rope
from rope_kernels.autograd import operators
from rope_kernels.call.packed_format import PackedFormat
from rope_kernels.call.rotation import Rotation

FORMATS = ("sbhd", "bhsd"), ("bshd", "bshd"), ("thd", "thd")


@cover(packing=PACKINGS, format_pair=FORMATS, dynamic=(False, True))
def test_compiled_as_eager(packing, format_pair, dynamic, device, needs_triton):
    rope = RotaryPositionEmbedding(D).to(device)
    tensor_format, output_format = format_pair
    cu_seqlens = sequence_starts(tensor_format, S, B, device)
    where = {} if cu_seqlens is None else {"cu_seqlens": cu_seqlens}

    def step(qkv):
        q, k, v = split_qkv_rope(
            *(qkv * 1, rope, HEADS, KV_HEADS),
            packing=packing,
            tensor_format=tensor_format,
            output_format=output_format,
            **where,
        )
        return q.square().sum() + (k * v).sum(), q, k, v

    qkv, found = projection(tensor_format, torch.float32, device), []
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for function in (step, compiled):
        own = qkv.detach().requires_grad_()
        loss, *outs = function(own)
        found.append([*outs, *torch.autograd.grad(loss, own)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="there no operator of ours runs on a CPU, to look at values"
)
def test_a_position_past_the_table_is_an_error_when_the_graph_runs(needs_triton):
    """On a CPU: a trace knows no values."""
    qkv, freqs = projection("sbhd", torch.float32, "cpu"), RotaryPositionEmbedding(D)(S)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(ids):
        return split_qkv_rope(qkv, freqs, HEADS, KV_HEADS, position_ids=ids)

    ids = torch.arange(S).repeat(B, 1)
    step(ids)
    with pytest.raises(ValueError, match=f"s2 = {S} positions; the last position in use needs"):
        step(ids + 1)


def test_the_operators_pass_opcheck(device, needs_triton):
    rope = RotaryPositionEmbedding(D).to(device)
    packed = PackedFormat(HEADS, KV_HEADS, "grouped", "sbhd", "bhsd")
    rotation = Rotation(rope.turns(None))
    qkv = projection("sbhd", torch.float32, device).requires_grad_()
    values = *packed, *operators._values_of(rotation)
    torch.library.opcheck(operators._split_op, (qkv, *values))
    grads = [torch.randn_like(x).half() for x in packed.outputs(qkv.detach())]
    torch.library.opcheck(operators._split_backward_op, (grads, *values))


def test_a_backward_that_is_traced_alone(device, needs_triton):
    """As compiled autograd does it: the forward was eager."""
    rope = RotaryPositionEmbedding(D).to(device)
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        qkv = projection("bshd", torch.float32, device).requires_grad_()
        q, k, v = split_qkv_rope(qkv, rope, HEADS, KV_HEADS, tensor_format="bshd")
        loss = q.square().sum() + (k * v).sum()
        with torch._dynamo.config.patch(compiled_autograd=compiled):
            backward = torch.compile(lambda x: x.backward(), backend="eager")
            backward(loss) if compiled else loss.backward()
        found.append(qkv.grad)
    torch.testing.assert_close(*found)
