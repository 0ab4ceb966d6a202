"""More than 2^31 elements: offsets that 32 bits cannot hold.

Tensors are rotated in place, there and back again. In between, every row must have changed, and
tokens around element 2^31, at both ends and here and there are compared with fp64; afterwards all
elements must be back. The small cases show on any machine that these checks work.
"""

import pytest
import torch

from inputs import shape_of
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
    rope_to_cache,
    split_qkv_rope,
)
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

EDGE, SMALL_EDGE = 2**31, 2**12
MOST_MEMORY = 40 * 2**30

CASES = {  # format, b, heads of t or of q and k, d, rotary share: nothing that a block divides
    "sbhd": ("sbhd", 1, (17,), 128, 1.0),
    "bshd": ("bshd", 3, (5,), 96, 0.5),
    "bhsd": ("bhsd", 1, (17,), 128, 1.0),
    "thd": ("thd", 1, (41,), 80, 0.75),
    "q and k": ("bshd", 1, (19, 17), 128, 1.0),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


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


class Large:
    """Tensors of which each has more than `edge` elements, and the tokens of them to look at."""

    def __init__(self, case, edge, device):
        self.format, b, heads, d, rotary = case
        tokens = edge // (b * min(heads) * d) + 5
        self.tensors = [
            torch.empty(shape_of(self.format, tokens, b, h, d), dtype=torch.bfloat16, device=device)
            for h in heads
        ]
        self.freqs = RotaryPositionEmbedding(d, rotary).to(device)
        self.s_dim = {"sbhd": 0, "bshd": 1, "bhsd": 2, "thd": 0}[self.format]
        positions = torch.arange(tokens)
        self.options, in_sequence = {}, tokens
        if self.format == "thd":
            starts, in_sequence = [0, tokens // 3, tokens // 3 + 1], tokens - 2
            cu_seqlens = torch.tensor([*starts, in_sequence], device=device)
            self.options["cu_seqlens"] = cu_seqlens
            for start in starts[1:]:
                positions[start:] = torch.arange(tokens - start)
        unturned = (positions[:in_sequence] == 0).sum().item() + tokens - in_sequence
        self.unturned_rows = [unturned * b * h for h in heads]

        edges = [self.token_of_element(t, edge) for t in self.tensors]
        seen = {0, 1, tokens // 2, tokens - 4, tokens - 3, tokens - 2, tokens - 1}
        seen |= {token % tokens for edge in edges for token in (edge - 1, edge, edge + 1)}
        seen |= set(torch.randint(tokens, (40,)).tolist())
        self.seen = sorted(seen)
        ids = positions[self.seen].to(device)
        self.options_of_seen = {"position_ids": ids if self.format == "thd" else ids[None]}
        if self.format == "thd":  # tokens that come in no sequence are the last ones here too
            inside = sum(token < in_sequence for token in self.seen)
            self.options_of_seen["cu_seqlens"] = torch.tensor([0, inside], device=device)

    def token_of_element(self, t, number):
        assert t.is_contiguous() and t.numel() > number
        return number // t.stride(self.s_dim) % t.shape[self.s_dim]

    def seen_of(self, t):
        return torch.stack([t.select(self.s_dim, token) for token in self.seen], self.s_dim)

    def assert_rotated(self, seen_before, t):
        want = rotate_fp64(seen_before, self.freqs, self.format, **self.options_of_seen)
        assert_rounded_once(self.seen_of(t), want)

    def assert_gradient(self, seen_grad, grad_t):
        want = gradient_fp64(seen_grad, self.freqs, self.format, seen_grad, **self.options_of_seen)
        assert_rounded_once(self.seen_of(grad_t), want)


def in_parts(*tensors):
    """Rows of all of them, a part at a time: 2^31 elements at once would need much memory."""
    rows = [t.view(-1, t.shape[-1]).split(2**20) for t in tensors]
    return zip(*rows, strict=True)


def count_equal_rows(t, other):
    return sum((a == b).all(-1).sum().item() for a, b in in_parts(t, other))


def largest_difference(t, other):
    return max((a.float() - b.float()).abs().max().item() for a, b in in_parts(t, other))


def check_there_and_back_in_place(case, edge, device):
    large = Large(case, edge, device)
    originals = [t.normal_().clone() for t in large.tensors]
    rotate = rope_qk if len(large.tensors) == 2 else rope_fw
    rotate(*large.tensors, large.freqs, large.format, inplace=True, **large.options)
    for t, original, unturned in zip(large.tensors, originals, large.unturned_rows, strict=True):
        large.assert_rotated(large.seen_of(original), t)
        assert count_equal_rows(t, original) == unturned
        rotated = large.seen_of(t)
        rope_bw(t, large.freqs, large.format, inplace=True, **large.options)
        large.assert_gradient(rotated, t)
        # two roundings to 8 bits of numbers below 16
        assert largest_difference(t, original) < 0.1


@pytest.mark.gpu
@each_case
def test_there_and_back_in_place(case):
    check_there_and_back_in_place(case, EDGE, "cuda")


@each_case
def test_small_there_and_back_in_place(case, device):
    check_there_and_back_in_place(case, SMALL_EDGE, device)


def check_autograd(case, edge, device):
    """Out of place, and with the gradient that .sum() sends."""
    large = Large(case, edge, device)
    (t,) = large.tensors
    t.normal_().requires_grad_()
    out = apply_rotary_pos_emb(t, large.freqs, large.format, **large.options)
    large.assert_rotated(large.seen_of(t.detach()), out.detach())
    grad = torch.tensor(-1.5, dtype=t.dtype, device=device).expand(t.shape)
    (grad_t,) = torch.autograd.grad(out, t, grad)
    large.assert_gradient(large.seen_of(grad), grad_t)
    (unturned,) = large.unturned_rows
    assert count_equal_rows(out.detach(), t.detach()) == unturned
    assert sum((a == -1.5).all(-1).sum().item() for (a,) in in_parts(grad_t)) == unturned


@pytest.mark.gpu
def test_autograd():
    check_autograd(CASES["bhsd"], EDGE, "cuda")


def test_small_autograd(device):
    check_autograd(CASES["bhsd"], SMALL_EDGE, device)


def check_table(kind, edge, device):
    """Rows, or batch entries, of the table lie edge / 2 elements apart; there are three."""
    d, s, b = 16, 7, 3
    if kind == "angles":
        memory = torch.zeros(edge + d, device=device)
        freqs = memory.as_strided((3, 1, 1, d), (edge // 2, 1, 1, 1))
        freqs.normal_(std=10)
        ids = torch.randint(3, (b, s), device=device)
    else:
        memory = torch.zeros(2, edge + s * d, dtype=torch.bfloat16, device=device)
        freqs = tuple(m.as_strided((b, s, d), (edge // 2, d, 1)).normal_() for m in memory)
        ids = None
    t, grad = (torch.randn(s, b, 5, d, device=device) for _ in "tg")
    out = rope_fw(t, freqs, position_ids=ids)
    assert_rounded_once(out, rotate_fp64(t, freqs, "sbhd", position_ids=ids))
    grad_t = rope_bw(grad, freqs, position_ids=ids)
    assert_rounded_once(grad_t, gradient_fp64(t, freqs, "sbhd", grad, position_ids=ids))


each_table = pytest.mark.parametrize("kind", ("angles", "cos_sin_per_batch"))


@pytest.mark.gpu
@each_table
def test_table(kind):
    check_table(kind, EDGE, "cuda")


@each_table
def test_small_table(kind, device):
    check_table(kind, SMALL_EDGE, device)


STEP = 2**30  # elements from one to the next; of three, the last begins at element 2^31


def three_apart(dim, sizes, device):
    """A tensor of which only a dimension of three has large strides, with random elements.

    As much memory lies before it: an offset that wraps around is wrong, and ends no process.
    """
    small = torch.randn(sizes, device=device).half()
    strides = [STEP if i == dim else step for i, step in enumerate(small.stride())]
    memory = torch.empty(4 * STEP + small.numel(), dtype=small.dtype, device=device)
    return memory.as_strided(sizes, strides, 2 * STEP).copy_(small)


@pytest.mark.parametrize("dim", (0, 1, 2))
def test_tokens_entries_and_heads_far_apart(dim, device):
    t, rope = three_apart(dim, (3, 3, 3, 8), device), RotaryPositionEmbedding(8).to(device)
    for function in (rope_fw, lambda t, rope: norm_rope(t, None, rope)):
        assert torch.equal(function(t, rope), function(t.contiguous(), rope))


def test_tokens_of_a_projection_far_apart(device):
    qkv, rope = three_apart(0, (3, 2, 4 * 8), device), RotaryPositionEmbedding(8).to(device)
    outs, wants = (split_qkv_rope(x, rope, 2, 1) for x in (qkv, qkv.contiguous()))
    assert all(map(torch.equal, outs, wants))


def test_blocks_of_a_cache_far_apart(device):
    q, k, v = torch.randn(3, 3, 1, 8, device=device).half()
    caches = three_apart(0, (3, 2, 2, 8), device).unsqueeze(3).unbind(2)
    ids = torch.tensor([5, 1, 3], device=device)
    rope = RotaryPositionEmbedding(8).to(device)
    _, want = rope_to_cache(q, k, v, rope, *caches, ids, position_ids=ids, return_k=True)
    for cache, rows in zip(caches, (want, v), strict=True):
        assert torch.equal(cache[ids // 2, ids % 2], rows)


@pytest.mark.parametrize(
    "rotate,inplace", [(rope_fw, True), (lambda t, f, **o: norm_rope(t, None, f, **o), False)]
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
