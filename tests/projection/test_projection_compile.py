"""`split_qkv_rope` under torch.compile: operators, forward and backward."""

import pytest
import torch

from inputs import sequence_starts
from pairwise import cover
from projections import HEADS, KV_HEADS, PACKINGS, B, D, S, projection
from rope_kernels import RotaryPositionEmbedding, split_qkv_rope
from rope_kernels.autograd import operators
from rope_kernels.call.packed_format import PackedFormat
from rope_kernels.call.rotation import Normalization, Rotation

FORMATS = ("sbhd", "bhsd"), ("bshd", "bshd"), ("thd", "thd")


def weights_of(device, wanted):
    return [torch.rand(D, device=device) + 0.5 for _ in range(2 if wanted else 0)]


@cover(packing=PACKINGS, format_pair=FORMATS, weights=(False, True), dynamic=(False, True))
def test_compiled_as_eager(packing, format_pair, weights, dynamic, device, needs_triton):
    rope = RotaryPositionEmbedding(D).to(device)
    tensor_format, output_format = format_pair
    cu_seqlens = sequence_starts(tensor_format, S, B, device)
    where = {} if cu_seqlens is None else {"cu_seqlens": cu_seqlens}

    def step(qkv, *weights):
        named = dict(zip(("q_weight", "k_weight"), weights, strict=False))
        q, k, v = split_qkv_rope(
            *(qkv * 1, rope, HEADS, KV_HEADS),
            packing=packing,
            tensor_format=tensor_format,
            output_format=output_format,
            **named,
            **where,
        )
        return q.square().sum() + (k * v).sum(), q, k, v

    leaves = projection(tensor_format, torch.float32, device), *weights_of(device, weights)
    found = []
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for function in (step, compiled):
        own = [x.detach().requires_grad_() for x in leaves]
        loss, *outs = function(*own)
        found.append([*outs, *torch.autograd.grad(loss, own)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("wanted", [(False, True, True), (True, True, True)])
def test_the_operators_pass_opcheck(wanted, device, needs_triton):
    rope = RotaryPositionEmbedding(D).to(device)
    packed = PackedFormat(HEADS, KV_HEADS, "grouped", "sbhd", "bhsd")
    norm = Normalization(1e-6, 0.0, False, False, False, D)
    rotation = Rotation(rope.turns(None), norm=norm)
    leaves = projection("sbhd", torch.float32, device), *weights_of(device, True)
    qkv, *weights = [x.requires_grad_(y) for x, y in zip(leaves, wanted, strict=True)]
    values = *packed, True, *operators._values_of(rotation)
    torch.library.opcheck(operators._split_op, (qkv, weights, True, *values))


def test_a_backward_that_is_traced_alone(device, needs_triton):
    """As compiled autograd does it: the forward was eager."""
    rope = RotaryPositionEmbedding(D).to(device)
    for weights in (weights_of(device, False), weights_of(device, True)):
        named = dict(zip(("q_weight", "k_weight"), weights, strict=False))
        found = []
        for compiled in (False, True):
            torch.manual_seed(0)
            qkv = projection("bshd", torch.float32, device).requires_grad_()
            q, k, v = split_qkv_rope(qkv, rope, HEADS, KV_HEADS, tensor_format="bshd", **named)
            loss = q.square().sum() + (k * v).sum()
            with torch._dynamo.config.patch(compiled_autograd=compiled):
                backward = torch.compile(lambda x: x.backward(), backend="eager")
                backward(loss) if compiled else loss.backward()
            found.append(qkv.grad)
        torch.testing.assert_close(*found)
