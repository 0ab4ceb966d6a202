"""Cases of vLLM's and flashinfer's tests of their caches, as calls of `rope_to_cache`.

Only facts are theirs: sizes, layouts, and how slots and pages are drawn. They compare with
a tolerance, or with other kernels of their own. Here a loop in plain PyTorch says what q, k and
both whole caches hold: the same bits. Where the kernel fuses products, q and k may be one rounding
apart. On the CPU there are fewer tokens, heads and blocks. Left out is what
`rope_to_cache` does not have: latent attention (MLA), and caches of other dtypes. The sources:

- vLLM (vllm-project/vllm) 0022859, tests/kernels/attention/test_cache.py;
- vLLM 386e7cf (pull request 43355), tests/kernels/attention/test_fused_rope_kvcache.py;
- flashinfer (flashinfer-ai/flashinfer) fb28d72, tests/attention/test_page.py there,
  and tests/trace/test_append_paged_kv_cache_reference_correctness.py.
"""

from itertools import accumulate

import torch

from pairwise import cover
from rope_kernels import rope_to_cache

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
HALF, BOTH = (BF16, FP16), (False, True)
PAIRS, APART = ("B2NH", "B2HN"), ("2BNH", "2BHN")  # the layouts in memory; 2: keys and values
POSITIONS = 4096


def small(tokens, device):
    """What the interpreter has time for. The last page of 16 is as full as before."""
    return tokens if device == "cuda" or tokens < 32 else 16 + tokens % 16


def few(heads, device):
    return heads if device == "cuda" else max(2, heads // 8)


def pick(n, below, device):
    return torch.randperm(below, device=device)[:n]


def random_qkv(tokens, heads, kv_heads, d, dtype, device):
    """Slices of one projection."""
    qkv = torch.randn(tokens, heads + 2 * kv_heads, d, device=device).to(dtype)
    return qkv.split((heads, kv_heads, kv_heads), dim=1)


def cos_sin(rotary_dim, dtype, device):
    """As both projects keep them: side by side, one column for each pair."""
    powers = torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim
    angles = torch.arange(POSITIONS)[:, None] * 10000.0**-powers
    return torch.cat((angles.cos(), angles.sin()), -1).to(device, dtype).chunk(2, dim=-1)


def new_caches(layout, blocks, page, heads, d, dtype, device):
    """Views (blocks, page, heads, d), full of what must stay where nothing is written."""
    sizes = {"B": blocks, "N": page, "H": heads, "2": 2}
    shape = [*(sizes[letter] for letter in layout), d]
    caches = torch.randn(shape, device=device).to(dtype).unbind(layout.index("2"))
    return caches if layout.index("N") < layout.index("H") else [x.transpose(1, 2) for x in caches]


# what a call should do


def turned(x, table, ids, interleaved=False):
    """In fp32: the first elements of each head turn."""
    x = x.float()
    cos, sin = (column[ids.long()][:, None].float() for column in table)
    turns, stays = x.tensor_split([2 * cos.shape[-1]], dim=-1)
    a, b = (turns[..., ::2], turns[..., 1::2]) if interleaved else turns.chunk(2, dim=-1)
    pair = a * cos - b * sin, b * cos + a * sin
    turns = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat((turns, stays), -1)


def assert_writes(qkv, table, ids, caches, slots, where=None, **options):
    """Call, and compare q, k and both whole caches with a loop over the tokens."""
    given, before = [x.clone() for x in qkv], [x.clone() for x in caches]
    options = {"rounding": "upcast"} | options  # no products are fused, as in plain PyTorch
    got = rope_to_cache(
        *(*qkv, table, *caches, slots),
        **(where or {"position_ids": ids}),
        **options,
        rotary_dim=2 * table[0].shape[-1],
        return_k=True,
    )
    eps = 0 if options["rounding"] else torch.finfo(qkv[0].dtype).eps
    interleaved = options.get("interleaved", False)
    for x, before_call in zip(got, given, strict=False):
        wanted = turned(before_call, table, ids, interleaved).to(x.dtype)
        torch.testing.assert_close(x, wanted, rtol=eps, atol=1e-5 if eps else 0)
    assert all(torch.equal(x, y) for x, y in zip(qkv, given, strict=True))  # nothing in place
    for cache, wanted, rows in zip(caches, before, (got[1], given[2]), strict=True):
        for token, slot in enumerate(slots.tolist()):
            if slot >= 0:
                wanted[divmod(slot, cache.shape[1])] = rows[token]
        assert torch.equal(cache, wanted)


# vLLM


@cover(
    d=(64, 80, 256),
    page=(8, 16, 32),
    blocks=(512, 5000),
    dtype=(BF16, FP32),
    layout=PAIRS,
)
def test_vllm_reshape_and_cache_flash(d, page, blocks, dtype, layout, device):
    """0022859, test_cache.py: 21 tokens, 8 heads."""
    heads, blocks = few(8, device), blocks if device == "cuda" else blocks // 128
    qkv = random_qkv(21, heads, heads, d, dtype, device)
    caches = new_caches(layout, blocks, page, heads, d, dtype, device)
    slots, ids = (pick(21, n, device) for n in (blocks * page, POSITIONS))
    assert_writes(qkv, cos_sin(d, dtype, device), ids, caches, slots)


@cover(dtype=HALF, kv_heads=(32, 8), interleaved=BOTH, tokens=(1, 8, 128, 2048))
def test_vllm_fused_rope_and_cache(dtype, kv_heads, interleaved, tokens, device):
    """386e7cf, test_fused_rope_kvcache.py: any numbers as cos and sin.

    32 heads of 128 elements, 256 blocks of 16. Of 4 tokens or more, the first one has no slot.
    """
    tokens, kv_heads = small(tokens, device), few(kv_heads, device)
    slots, ids = (pick(tokens, n, device) for n in (256 * 16, POSITIONS))
    if tokens >= 4:
        slots[0] = -1
    qkv = random_qkv(tokens, few(32, device), kv_heads, 128, dtype, device)
    table = torch.randn(POSITIONS, 128, device=device).to(dtype).chunk(2, dim=-1)
    caches = new_caches("2BNH", 256, 16, kv_heads, 128, dtype, device)
    assert_writes(qkv, table, ids, caches, slots, interleaved=interleaved)


# flashinfer


def paged(new, lengths, page, in_order=True):
    """Slots and positions of the `new` last tokens of each request, and how many pages there are.

    The pages of a request are where flashinfer's `kv_indices` says, from its `kv_indptr` on.
    """
    kv_indptr = [0, *accumulate(-(-length // page) for length in lengths)]
    pages = kv_indptr.pop()
    kv_indices = (torch.arange(pages) if in_order else torch.randperm(pages)).tolist()
    places = [
        (kv_indices[start + i // page] * page + i % page, i)
        for start, n, length in zip(kv_indptr, new, lengths, strict=True)
        for i in range(length - n, length)
    ]
    return *torch.tensor(places).unbind(1), pages


@cover(
    batch={  # new tokens and lengths of requests, page, kv heads, d
        "prefill": ((45, 8, 25, 22), (45, 8, 25, 22), 16, 32, 128),
        "4 of 2": ((3, 1), (3, 1), 16, 8, 64),
        "7 of 3": ((4, 2, 1), (4, 2, 1), 8, 2, 128),
        "mixed": ((21, 1, 0, 8, 1), (45, 30, 0, 58, 70), 16, 32, 128),
    },
    contiguous=BOTH,
    dtype=HALF,
    layout=PAIRS + APART,
    in_order=BOTH,
    rounding=("upcast", None),
)
def test_flashinfer_append(batch, contiguous, dtype, layout, in_order, rounding, device):
    """fb28d72, test_page.py and the trace test: requests of any length, each in pages of its own.

    There are 1000 pages. 'mixed' is ours, of lengths in their files: the second chunk of a prefill,
    decodes and a request without tokens in one batch. Pages in any order are ours, too.
    """
    new, lengths, page, heads, d = batch
    heads, pages = few(heads, device), 1000 if device == "cuda" else 20
    slots, ids, _ = (torch.as_tensor(x).to(device) for x in paged(new, lengths, page, in_order))
    qkv = random_qkv(sum(new), heads, heads, d, dtype, device)
    starts = [length - n for n, length in zip(new, lengths, strict=True)]
    starts, bounds = (torch.tensor(x, device=device) for x in (starts, [0, *accumulate(new)]))
    where = {"cu_seqlens": bounds, "start_positions": starts}
    qkv = [x.contiguous() for x in qkv] if contiguous else qkv
    caches = new_caches(layout, pages, page, heads, d, dtype, device)
    table = cos_sin(d, dtype, device)
    assert_writes(qkv, table, ids, caches, slots, where=where, rounding=rounding)
