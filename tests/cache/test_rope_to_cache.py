"""`rope_to_cache`: q and k as `rope_qk` has them, and in each slot what a loop puts there."""

import pytest
import torch

from inputs import angles, contiguous, packed_qkv, sliced_with_offset
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, rope_qk, rope_to_cache
from rope_kernels.launch import launch

T, HEADS, KV_HEADS, D, PAGE = 13, 5, 3, 24, 4
BLOCKS = 6


def vllm(blocks, page, heads, d, dtype, device):
    return torch.zeros(2, blocks, page, heads, d, dtype=dtype, device=device).unbind()


def vllm_heads_first(blocks, page, heads, d, dtype, device):
    """k and v side by side, each head's positions together: LBHNC."""
    kv_cache = torch.zeros(blocks, heads, page, 2 * d, dtype=dtype, device=device)
    return kv_cache.transpose(1, 2).chunk(2, dim=-1)


def vllm_blocks_inside(blocks, page, heads, d, dtype, device):
    kv_cache = torch.zeros(page, 2, heads, blocks, d, dtype=dtype, device=device)
    return kv_cache.permute(1, 3, 0, 2, 4).unbind()


def sglang(blocks, page, heads, d, dtype, device):
    """Flat: a page has one position."""
    flat = torch.zeros(2, blocks * page, heads, d, dtype=dtype, device=device)
    return [x.unsqueeze(1) for x in flat]


def static(blocks, page, heads, d, dtype, device):
    """transformers': (b, h, s, d), a block is a sequence."""
    caches = torch.zeros(2, blocks, heads, page, d, dtype=dtype, device=device)
    return [x.transpose(1, 2) for x in caches]


CACHES = (vllm, vllm_heads_first, vllm_blocks_inside, sglang, static)


class Sample:
    """Tokens in any order of slots; -1 has none, and the last token has no entry at all."""

    def __init__(self, device, dtype=torch.float32, cache=vllm, kind=torch.int64, **more):
        d, layout = more.get("d", D), more.get("layout", contiguous)
        self.q = layout((T, HEADS, d), dtype, device)
        self.k, self.v = (layout((T, KV_HEADS, d), dtype, device) for _ in range(2))
        self.caches = cache(BLOCKS, PAGE, KV_HEADS, d, dtype, device)
        for x in self.caches:
            x.copy_(torch.randn(x.shape))  # what must stay where nothing is written
        self.before = [x.clone() for x in self.caches]
        self.slots = torch.randperm(BLOCKS * PAGE)[: T - 1].to(device, kind)
        self.slots[4] = -1
        self.freqs = more.get("freqs", RotaryPositionEmbedding(more.get("rotary_dim", d)))
        if isinstance(self.freqs, RotaryPositionEmbedding):
            self.freqs = self.freqs.to(device)
        ids = torch.randint(0, 40, (T,), device=device)
        self.where = more.get("where", {"position_ids": ids})

    def call(self, **options):
        return rope_to_cache(
            *(self.q, self.k, self.v, self.freqs, *self.caches, self.slots),
            **self.where,
            **options,
        )

    def expected(self, rows, cache, before):
        """The cache with these rows in their slots, token by token."""
        wanted, page = before.clone(), cache.shape[1]
        for token, slot in enumerate(self.slots.tolist()):
            if slot >= 0:
                wanted[slot // page, slot % page] = rows[token]
        return wanted

    def check(self, rotated, returned, **options):
        """`rotated`: q and k as another function gives them, from copies."""
        v = self.v.clone()
        q, k = returned if options.get("return_k") else (returned, rotated[1])
        assert_same(q, rotated[0])
        assert_same(k, rotated[1])
        assert_same(self.caches[0], self.expected(k, *self.of(0)))
        assert torch.equal(self.caches[1], self.expected(v, *self.of(1)))

    def of(self, i):
        return self.caches[i], self.before[i]


def assert_same(got, wanted):
    """The same bits, but for the order in which a norm's squares are added."""
    finfo = torch.finfo(got.dtype)
    torch.testing.assert_close(got, wanted, rtol=2 * finfo.eps, atol=finfo.eps, equal_nan=True)


@cover(
    cache=CACHES,
    dtype=(torch.float32, torch.bfloat16, torch.float16),
    kind=(torch.int32, torch.int64),
    layout=(contiguous, packed_qkv, sliced_with_offset),
    return_k=(False, True),
    inplace=(False, True),
)
def test_every_layout(cache, dtype, kind, layout, return_k, inplace, device):
    sample = Sample(device, dtype, cache, kind, layout=layout)
    given = sample.q.clone(), sample.k.clone()
    rotated = rope_qk(*given, sample.freqs, "thd", **sample.where)
    options = {"return_k": return_k, "inplace": inplace}
    returned = sample.call(**options)
    sample.check(rotated, returned, **options)
    q = returned[0] if return_k else returned
    assert (q is sample.q) == inplace
    assert torch.equal(sample.k, given[1])
    if not inplace:
        assert torch.equal(sample.q, given[0]) and q.is_contiguous()


@cover(
    options=(
        {},
        {"interleaved": True},
        {"inverse": True},
        {"rotary_start": 4},
        {"rounding": "model"},
        {"rounding": "upcast"},
    ),
    freqs=("module", "angles", "cos and sin"),
    where=("ids", "packed", "packed with starts"),
    fused=(True, False),
)
def test_every_rotation(options, freqs, where, fused, device):
    rotary_dim = 16
    tables = {
        "module": RotaryPositionEmbedding(
            rotary_dim, interleaved=options.get("interleaved", False)
        ),
        "angles": angles(40, rotary_dim, device),
        "cos and sin": tuple(torch.randn(2, 40, rotary_dim, device=device)),
    }
    bounds = torch.tensor([0, 4, 4, T - 2], device=device, dtype=torch.int32)
    places = {
        "ids": {"position_ids": torch.randint(0, 40, (T,), device=device)},
        "packed": {"cu_seqlens": bounds},
        "packed with starts": {
            "cu_seqlens": bounds,
            "start_positions": torch.tensor([7, 0, 11], device=device),
        },
    }
    sample = Sample(device, freqs=tables[freqs], where=places[where])
    options = options | {"fused": fused}
    if not fused:
        options.setdefault("rounding", "once")
    rotated = rope_qk(sample.q, sample.k, sample.freqs, "thd", **sample.where, **options)
    sample.check(rotated, sample.call(**options))


@pytest.mark.parametrize("d", (2, 20, 128, 256))
def test_any_head_dim(d, device):
    sample = Sample(device, torch.bfloat16, d=d)
    rotated = rope_qk(sample.q, sample.k, sample.freqs, "thd", **sample.where)
    sample.check(rotated, sample.call())


def test_a_slot_that_occurs_twice_harms_no_other(device):
    sample = Sample(device)
    sample.slots[7] = sample.slots[2]
    rotated = rope_qk(sample.q, sample.k, sample.freqs, "thd", **sample.where)
    sample.call()
    block, place = divmod(int(sample.slots[2]), PAGE)
    for i, rows in enumerate((rotated[1], sample.v)):
        wanted = sample.expected(rows, *sample.of(i))
        got = sample.caches[i][block, place]
        same = [(got[h] == rows[t, h]).all() for h in range(KV_HEADS) for t in (2, 7)]
        assert sum(same) == KV_HEADS  # of each head one of the two
        wanted[block, place] = got
        assert torch.equal(sample.caches[i], wanted)


def test_a_slot_outside_the_cache(device):
    """An error where values can be read; never a write."""
    sample = Sample(device)
    sample.slots[3] = BLOCKS * PAGE
    if device == "cpu":
        with pytest.raises(ValueError, match=r"slot_mapping has 24; accepted: slots below 24"):
            sample.call()
        assert all(torch.equal(x, y) for x, y in zip(sample.caches, sample.before, strict=True))
        return
    rotated = rope_qk(sample.q, sample.k, sample.freqs, "thd", **sample.where)
    q = sample.call()
    sample.slots[3] = -1
    sample.check(rotated, q)


def test_another_call_of_the_same_looks(device):
    """The fast path takes new slots, new caches and new values."""
    for _ in range(3):
        sample = Sample(device, torch.bfloat16)
        rotated = rope_qk(sample.q, sample.k, sample.freqs, "thd", **sample.where)
        sample.check(rotated, sample.call())


def test_one_launch(device, monkeypatch, whole_way):
    launched, run = [], launch.run
    monkeypatch.setattr(launch, "run", lambda *x: launched.append(x[0].kernel) or run(*x))
    sample = Sample(device)
    sample.call(return_k=True)
    assert launched == ["rope_to_cache_kernel"]


def test_no_tokens(device):
    sample = Sample(device)
    sample.q, sample.k, sample.v = (x[:0] for x in (sample.q, sample.k, sample.v))
    sample.slots, sample.where = (
        sample.slots[:0],
        {"position_ids": sample.where["position_ids"][:0]},
    )
    assert sample.call().shape == (0, HEADS, D)
    assert torch.equal(sample.caches[0], sample.before[0])


def test_a_pending_sign_is_kept(device):
    """The imaginary part of a conjugate is minus what memory holds."""
    sample = Sample(device)
    parts = [torch.view_as_complex(torch.randn(T, KV_HEADS, D, 2, device=device)) for _ in range(2)]
    sample.k, sample.v = (x.conj().imag for x in parts)
    assert sample.k.is_neg()
    rotated = rope_qk(sample.q, sample.k, sample.freqs, "thd", **sample.where)
    sample.check(rotated, sample.call(inplace=True))


@pytest.mark.gpu
def test_in_a_cuda_graph(device):
    sample = Sample(device, torch.bfloat16)
    for _ in range(2):
        sample.call(inplace=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sample.call(inplace=True)
    for x in (sample.q, sample.k, sample.v):
        x.normal_()
    sample.slots.copy_(torch.randperm(BLOCKS * PAGE)[: T - 1])
    for x, before in zip(sample.caches, sample.before, strict=True):
        x.copy_(before)
    rotated = rope_qk(sample.q, sample.k, sample.freqs, "thd", **sample.where)
    graph.replay()
    sample.check(rotated, sample.q)
