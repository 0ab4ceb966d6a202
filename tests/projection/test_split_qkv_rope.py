"""`split_qkv_rope`: what it alone has. Values and gradients are in `test_ops.py`."""

import pytest
import torch

from projections import HEADS, KV_HEADS, B, D, S, projection
from rope_kernels import RotaryPositionEmbedding, rope_qk, split_qkv_rope
from yardstick import heads_of, in_format


def split(qkv, freqs, packing, format_pair, **options):
    tensor_format, output_format = format_pair
    return split_qkv_rope(
        *(qkv, freqs, HEADS, KV_HEADS),
        packing=packing,
        tensor_format=tensor_format,
        output_format=output_format,
        **options,
    )


def in_pieces(qkv, freqs, packing, format_pair, **options):
    """The same with the other public functions."""
    tensor_format, output_format = format_pair
    q, k, v = heads_of(qkv, packing, D, HEADS, KV_HEADS)
    q, k = rope_qk(q, k, freqs, tensor_format, **options)
    return [in_format(x, tensor_format, output_format) for x in (q, k, v)]


def test_one_token_is_new_memory_too(device):
    """Its slices are contiguous, and might come back as they are."""
    qkv = projection("thd", torch.float32, device)[:1]
    ids = torch.tensor([3], device=device)
    for fused in (False, True):
        rope = RotaryPositionEmbedding(D).to(device)
        outs = split(qkv, rope, "qkv", ("thd", "thd"), position_ids=ids, fused=fused)
        addresses = [x.untyped_storage().data_ptr() for x in (qkv, *outs)]
        assert len(set(addresses)) == 4


def test_gradients_of_projections_with_the_same_strides(device):
    """The same memory read as sbhd and as bshd: what goes back is laid out as the format says."""
    rope = RotaryPositionEmbedding(D).to(device)
    qkv = torch.randn(S, B, (HEADS + 2 * KV_HEADS) * D, device=device)
    for _ in range(2):
        for x, tensor_format in ((qkv, "sbhd"), (qkv.transpose(0, 1), "bshd")):
            leaf, other = (x.detach().requires_grad_() for _ in range(2))
            given = rope, "grouped", (tensor_format, "bhsd")
            outs, wanted = (f(y, *given) for f, y in ((split, leaf), (in_pieces, other)))
            grads = [torch.randn_like(y) for y in outs]
            found = torch.autograd.grad(outs, leaf, grads)
            assert torch.equal(*found, *torch.autograd.grad(wanted, other, grads))


@pytest.mark.gpu
def test_more_than_2_31_elements():
    """Offsets within the projection pass 32 bits, forward and backward."""
    heads, d = HEADS + 2 * KV_HEADS, 128
    tokens = 2**31 // (heads * d) + 5
    qkv = torch.empty(tokens, heads * d, device="cuda", dtype=torch.bfloat16)
    ids, rope = torch.arange(tokens, device="cuda") % 1000, RotaryPositionEmbedding(d).cuda()
    few = torch.cat([torch.arange(4), torch.arange(tokens - 8, tokens)]).cuda()
    qkv[few] = torch.randn(12, heads * d, device="cuda").bfloat16()
    qkv.requires_grad_()
    given = rope, HEADS, KV_HEADS
    options = {"tensor_format": "thd", "packing": "grouped"}
    outs = split_qkv_rope(qkv, *given, position_ids=ids, **options)
    some = qkv.detach()[few].requires_grad_()
    wanted = split_qkv_rope(some, *given, position_ids=ids[few], **options)
    for out, want in zip(outs, wanted, strict=True):
        assert torch.equal(out[few], want)
    grads = [torch.zeros_like(x) for x in outs]
    of_some = [torch.randn_like(x) for x in wanted]
    for grad, x in zip(grads, of_some, strict=True):
        grad[few] = x
    (gradient,) = torch.autograd.grad(outs, qkv, grads)
    assert torch.equal(gradient[few], torch.autograd.grad(wanted, some, of_some)[0])
