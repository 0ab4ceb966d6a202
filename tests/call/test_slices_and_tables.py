"""One column per pair, slices that start anywhere, the inverse, half-split results.

Each keyword through derivatives, transforms and graphs, and the tables that a module makes.
`test_superset_matrix.py` has them with every other option.
"""

import pytest
import torch

from inputs import angles, contiguous
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
)
from rope_lab.compiler.plans import plan_of
from yardstick import assert_rounded_once, rotate_fp64

S, B, H, D, D2, S2 = 4, 2, 3, 13, 8, 9
ALL = {"rotary_dim": D2, "rotary_start": 3, "inverse": True}
KEYWORDS = {  # with a table D2 / 2 wide where there is `rotary_dim`
    "one per pair": {"rotary_dim": D2},
    "one per pair, interleaved": {"rotary_dim": D2, "interleaved": True},
    "start": {"rotary_start": 3},
    "inverse": {"inverse": True},
    "to half": {"interleaved": True, "output_pairing": "half"},
    "all": ALL,
    "all, interleaved": ALL | {"interleaved": True, "output_pairing": "half"},
}
KINDS = ("angles", "cos and sin", "per batch entry")

each_keyword = pytest.mark.parametrize("options", KEYWORDS.values(), ids=KEYWORDS)
each_kind = pytest.mark.parametrize("kind", KINDS)


def columns_of(options):
    return D2 // 2 if "rotary_dim" in options else D2


def table_of(kind, options, device, dtype=torch.float64, rows=S2):
    """Cosines and sines that are none, and independent: their gradients differ."""
    columns = columns_of(options)
    if kind == "angles":
        return angles(rows, columns, device, dtype)
    shape = (B, rows, columns) if kind == "per batch entry" else (rows, columns)
    return tuple(torch.randn(shape, device=device, dtype=dtype) for _ in "cs")


def sbhd(device, dtype=torch.float64, heads=H):
    return torch.randn(S, B, heads, D, device=device, dtype=dtype)


# derivatives, torch.compile: the table's own are in `test_superset_matrix.py`


@each_kind
@each_keyword
def test_double_backward(options, kind, device):
    """By the kernel: the gradient is linear in what comes back, and its own gradient the call."""

    def derivatives(rotate):
        torch.manual_seed(3)
        t = sbhd(device).requires_grad_()
        freqs, grad = table_of(kind, options, device), torch.randn_like(t).requires_grad_()
        out = rotate(t, freqs)
        (first,) = torch.autograd.grad(out, t, grad, create_graph=True)
        return out, first, *torch.autograd.grad(first, grad, torch.randn_like(t))

    gots = derivatives(lambda t, freqs: apply_rotary_pos_emb(t, freqs, **options))
    wants = derivatives(lambda t, freqs: rotate_fp64(t, freqs, "sbhd", **options))
    for got, want in zip(gots, wants, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("name", ("one per pair", "all, interleaved"))
def test_in_one_graph_forward_and_backward(name, device):
    torch.compiler.reset()
    options = KEYWORDS[name]
    t, freqs = sbhd(device, torch.float32), table_of("angles", options, device, torch.float32)
    t.requires_grad_()
    rotate = torch.compile(
        lambda t, freqs: apply_rotary_pos_emb(t, freqs, **options),
        fullgraph=True,
        backend="aot_eager",
    )
    out, want = rotate(t, freqs), apply_rotary_pos_emb(t, freqs, **options)
    assert torch.equal(out, want)
    grad = torch.randn_like(out)
    (got,), (wanted,) = (torch.autograd.grad(x, t, grad) for x in (out, want))
    assert torch.equal(got, wanted)


def test_one_graph_for_any_start(device):
    torch.compiler.reset()
    t, freqs = sbhd(device, torch.float32), angles(S, 2, device)
    rotate = torch.compile(
        lambda t, start: apply_rotary_pos_emb(t, freqs, rotary_dim=4, rotary_start=start),
        fullgraph=True,
        backend="aot_eager",
        dynamic=True,
    )
    for start in (2, 3, 5, 9):
        want = rope_fw(t, freqs, rotary_dim=4, rotary_start=start)
        assert torch.equal(rotate(t, start), want)


# where tokens are


def test_padding_is_permuted_and_not_turned(device):
    """Bit for bit, whatever it holds."""
    t = contiguous((5, 1, 6), torch.float32, device)
    t[3], t[4] = float("inf"), float("nan")
    options = {"cu_seqlens": torch.tensor([0, 2], device=device), "interleaved": True}
    options |= {"output_pairing": "half", "rotary_start": 1}
    out = rope_fw(t, angles(5, 4, device), "thd", **options)
    order = [0, 1, 3, 2, 4, 5]
    torch.testing.assert_close(out[2:], t[2:][..., order], rtol=0, atol=0, equal_nan=True)
    back = rope_bw(out, angles(5, 4, device), "thd", **options)
    torch.testing.assert_close(back[2:], t[2:], rtol=0, atol=0, equal_nan=True)


# one launch


@pytest.mark.parametrize(
    "name", ("one per pair", "one per pair, interleaved", "inverse", "to half")
)
def test_whole_rows_of_queries_and_keys_have_the_bits_of_each(name, device):
    options, columns = KEYWORDS[name], 72
    if "rotary_dim" in options:
        options, columns = options | {"rotary_dim": 72}, 36
    q, k = (torch.randn(5, 2, heads, 72, device=device).bfloat16() for heads in (5, 2))
    freqs = angles(5, columns, device)
    want = [rope_fw(t, freqs, **options) for t in (q, k)]
    assert all(map(torch.equal, rope_qk(q, k, freqs, **options), want))
    if name != "to half":
        in_place = rope_qk(q.clone(), k.clone(), freqs, inplace=True, **options)
        assert all(map(torch.equal, in_place, want))


# tables of other packages, and of the module


def test_cos_and_sin_side_by_side_in_one_tensor(device):
    """As vLLM and flashinfer keep them: two views, which are read where they are."""
    cache = torch.randn(S2, D2, device=device, dtype=torch.bfloat16)
    t, ids = sbhd(device, torch.bfloat16), torch.randint(S2, (B, S), device=device)
    cos, sin = cache.chunk(2, dim=-1)
    options = {"rotary_dim": D2, "position_ids": ids, "rotary_start": 4}
    out = rope_fw(t, (cos, sin), **options)
    assert torch.equal(out, rope_fw(t, (cos.contiguous(), sin.contiguous()), **options))
    assert_rounded_once(out, rotate_fp64(t, (cos, sin), "sbhd", **options))
    _, tensors = plan_of(rope_fw, t, (cos, sin), **options)
    assert tensors.table.data_ptr() == cache.data_ptr() and not tensors.sin.is_contiguous()


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_tables_are_not_made_of_rounded_frequencies(dtype, device):
    rope = RotaryPositionEmbedding(D2).to(device)
    rope._buffers["inv_freq"] = rope.inv_freq.to(dtype)  # as FSDP's buffer_dtype does
    for make in (rope, rope.cos_sin):
        with pytest.raises(TypeError, match="inv_freq has dtype"):
            make(S)


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
