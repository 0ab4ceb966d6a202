"""More than 2^31 elements: what comes of all is what comes of parts, which other tests check.

Offsets of single tokens, heads and entries are in `test_ops_calls.py`, without much memory.
"""

import itertools

import pytest
import torch

from inputs import shape_of
from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb, rope_bw, rope_fw
from rope_kernels.norms import norm_rope

MOST_MEMORY = 40 * 2**30
PARTS = 7

CASES = {  # format, b, heads, d, rotary share: nothing that a block divides
    "sbhd": ("sbhd", 1, 17, 128, 1.0),
    "bshd": ("bshd", 3, 5, 96, 0.5),
    "bhsd": ("bhsd", 1, 17, 128, 1.0),
    "thd": ("thd", 1, 41, 80, 0.75),
}


@pytest.fixture(autouse=True)
def within_the_memory_that_tests_may_use(device):
    if device == "cpu":
        yield
        return
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield
    assert torch.cuda.max_memory_allocated() < MOST_MEMORY
    torch.cuda.empty_cache()


@pytest.mark.parametrize("edge", (2**12, pytest.param(2**31, marks=pytest.mark.gpu)))
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_all_is_what_its_parts_are(case, edge, device):
    """New and in place, a backward, and a gradient as .sum() sends it."""
    tensor_format, b, heads, d, rotary = case
    tokens = edge // (b * heads * d) + 5
    s_dim = {"bshd": 1, "bhsd": 2}.get(tensor_format, 0)
    shape = shape_of(tensor_format, tokens, b, heads, d)
    t = torch.empty(shape, dtype=torch.bfloat16, device=device).normal_()
    assert t.numel() > edge
    rope, ids, options = RotaryPositionEmbedding(d, rotary).to(device), torch.arange(tokens), {}
    if tensor_format == "thd":
        starts = [0, tokens // 3, tokens // 3 + 1, tokens]
        options["cu_seqlens"] = torch.tensor(starts, device=device)
        ids = torch.cat([torch.arange(y - x) for x, y in itertools.pairwise(starts)])
    ids = ids.to(device) if tensor_format == "thd" else ids[None].to(device)

    def assert_like_parts(function, x, out):
        for xs, outs, of_part in zip(
            *(y.chunk(PARTS, s_dim) for y in (x, out)), ids.chunk(PARTS, -1), strict=True
        ):
            assert torch.equal(outs, function(xs, rope, tensor_format, position_ids=of_part))

    for function in (rope_fw, rope_bw):
        out = function(t, rope, tensor_format, **options)
        assert_like_parts(function, t, out)
        del out
    leaf = t.detach().requires_grad_()
    grad = t.new_tensor(-1.5).expand(shape)
    out = apply_rotary_pos_emb(leaf, rope, tensor_format, **options)
    (found,) = torch.autograd.grad(out, leaf, grad)
    assert_like_parts(rope_bw, grad, found)
    del found
    rope_fw(t, rope, tensor_format, inplace=True, **options)
    assert torch.equal(t, out)


@pytest.mark.parametrize(
    "rotate,inplace",
    [(rope_fw, True), (lambda t, f, **o: norm_rope(t, None, f, "sbhd", **o), False)],
)
def test_a_slice_that_starts_past_2_to_31_elements(rotate, inplace):
    """d is the outermost dimension in memory. Only the pages that are touched take memory."""
    d_stride = 2**26
    memory = torch.empty(66 * d_stride, dtype=torch.float16)
    t = memory.as_strided((1, 1, 1, 66), (2**32, 2**32, 2**32, d_stride))
    t.copy_(torch.randn(1, 1, 1, 66))
    options = {"rotary_start": 64, "inplace": inplace}
    want = rotate(t.contiguous(), RotaryPositionEmbedding(2), **options)
    assert torch.equal(rotate(t, RotaryPositionEmbedding(2), **options), want)
