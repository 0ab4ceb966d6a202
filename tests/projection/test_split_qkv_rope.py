"""`split_qkv_rope`: the bits of `rope_qk` on each head, and fp64's values and gradients."""

import pytest
import torch

from inputs import (
    LAYOUTS,
    angles,
    contiguous,
    expanded_scalar,
    head_dim_strided,
    negative_view,
    sequence_starts,
)
from pairwise import cover
from projections import (
    HEADS,
    KV_HEADS,
    PACKINGS,
    B,
    D,
    S,
    formats,
    projection,
)
from rope_kernels import RotaryPositionEmbedding, rope_qk, split_qkv_rope
from rope_kernels.launch import launch
from yardstick import assert_rounded_once, heads_of, in_format, rotate_fp64

DTYPES = torch.float32, torch.bfloat16, torch.float16, torch.float64


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


def where_of(tensor_format, device):
    cu_seqlens = sequence_starts(tensor_format, S, B, device)
    return {} if cu_seqlens is None else {"cu_seqlens": cu_seqlens}


@cover(
    packing=PACKINGS,
    format_pair=formats(),
    dtype=DTYPES,
    layout=[x for name, x in LAYOUTS.items() if name != "packed_qkv"],
    rotary_dim=(D, 8),
    grad_layout=(contiguous, head_dim_strided, expanded_scalar, negative_view),
)
def test_every_layout(packing, format_pair, dtype, layout, rotary_dim, grad_layout, device):
    """Values and gradients have the bits of `rope_qk`, and are fp64's, rounded once."""
    qkv = projection(format_pair[0], dtype, device, layout).detach()
    leaf, other = (qkv.detach().requires_grad_() for _ in range(2))
    freqs, where = angles(S * B, rotary_dim, device), where_of(format_pair[0], device)
    outs = split(leaf, freqs, packing, format_pair, **where)
    wanted = in_pieces(other, freqs, packing, format_pair, **where)
    exact = [
        rotate_fp64(x, freqs, format_pair[0], **where)
        for x in heads_of(qkv, packing, D, HEADS, KV_HEADS)[:2]
    ]
    for out, want in zip(outs, wanted, strict=True):
        assert out.is_contiguous() and out.dtype == dtype
        assert torch.equal(out, want)
    for out, want in zip(outs, exact, strict=False):
        assert_rounded_once(out, in_format(want, *format_pair))
    grads = [grad_layout(x.shape, dtype, device) for x in outs]
    (gradient,) = torch.autograd.grad(outs, leaf, grads)
    assert gradient.is_contiguous()
    assert torch.equal(gradient, torch.autograd.grad(wanted, other, grads)[0])


@cover(
    options=(
        {"interleaved": True},
        {"interleaved": True, "output_pairing": "half"},
        {"inverse": True},
        {"rotary_start": 4},
        {"cp_size": 2, "cp_rank": 1},
        {"cp_size": 2, "cp_rank": 1, "cp_order": "contiguous"},
        {"cp_size": 2, "cp_rank": 0, "cp_order": "round_robin"},
        {"start_positions": 3},
        {"position_ids": "ids"},
        {"rounding": "model"},
        {"rounding": "upcast"},
        {"rounding": "promoted", "dtype": torch.bfloat16},
    ),
    packing=PACKINGS,
    format_pair=(("sbhd", "bhsd"), ("bshd", "bshd"), ("thd", "thd"), ("bshd", "sbhd")),
)
def test_options_mean_what_they_mean_elsewhere(options, packing, format_pair, device):
    options, tensor_format = dict(options), format_pair[0]
    dtype = options.pop("dtype", torch.float32)
    if tensor_format != "thd" and options.get("cp_order", "zigzag") == "zigzag":
        options = {name: x for name, x in options.items() if name not in ("cp_size", "cp_rank")}
    if tensor_format == "thd":
        bounds = [0, 4, 4, 8, 12] if "cp_size" in options else [0, 3, 3, 8, 12]
        options["cu_seqlens"] = torch.tensor(bounds, device=device) * options.get("cp_size", 1)
    if "position_ids" in options:
        ids = torch.randint(0, 9, {"thd": (S * B,)}.get(tensor_format, (B, S)), device=device)
        options["position_ids"] = ids
    freqs = angles(4 * S * B, 8, device)
    if "rounding" in options:
        freqs = freqs[:, 0, 0].cos().to(dtype), freqs[:, 0, 0].sin().to(dtype)
    if options.get("rounding") == "promoted":
        freqs = tuple(x.float() for x in freqs)
    qkv = projection(tensor_format, dtype, device)
    leaf, other = (qkv.clone().requires_grad_() for _ in range(2))
    outs = split(leaf, freqs, packing, format_pair, **options)
    wanted = in_pieces(other, freqs, packing, format_pair, **options)
    grads = [torch.randn_like(x) for x in outs]
    (gradient,) = torch.autograd.grad(outs, leaf, grads)
    (want,) = torch.autograd.grad(wanted, other, grads)
    assert all(map(torch.equal, outs, wanted)) and torch.equal(gradient, want)


@cover(used=((0,), (1,), (2,), (0, 1), (1, 2)), compiled=(False, True))
def test_an_output_that_nobody_uses_has_no_gradient(used, compiled, device):
    """Nor does what it alone would reach."""
    rope = RotaryPositionEmbedding(D).to(device)
    qkv, found = projection("sbhd", torch.float32, device), []
    for function in (split, in_pieces):
        leaf = qkv.clone().requires_grad_()

        def call(qkv, function=function):
            outs = function(qkv, rope, "grouped", ("sbhd", "bhsd"))
            return [outs[i] for i in used]

        if compiled and function is split:
            torch._dynamo.reset()
            call = torch.compile(call, backend="aot_eager", fullgraph=True)
        outs = call(leaf)
        torch.manual_seed(2)
        grads = [torch.randn(x.shape, device=device) for x in outs]
        found += torch.autograd.grad(outs, leaf, grads)
    torch.testing.assert_close(*found)


def test_gradients_in_a_batch(device):
    rope, found = RotaryPositionEmbedding(D).to(device), []
    qkv = projection("bshd", torch.float32, device)
    for function in (split, in_pieces):
        leaf = qkv.clone().requires_grad_()
        outs = function(leaf, rope, "qkv", ("bshd", "bhsd"))
        torch.manual_seed(3)
        grads = [torch.randn(4, *x.shape, device=device) for x in outs]
        found += torch.autograd.grad(outs, leaf, grads, is_grads_batched=True, retain_graph=True)
        found += torch.autograd.grad(outs[0], leaf, grads[0], is_grads_batched=True)
    for got, want in zip(found[:2], found[2:], strict=True):
        torch.testing.assert_close(got, want)


@cover(packing=PACKINGS, format_pair=(("sbhd", "bhsd"), ("thd", "thd")))
def test_derivatives_of_every_order(packing, format_pair, device):
    """Of two tokens, the second derivative in one packing: both have one backward."""
    is_packed = format_pair[0] == "thd"
    where = {"cu_seqlens": torch.tensor([0, 1, 2], device=device)} if is_packed else {}
    qkv = projection(format_pair[0], torch.float64, device)
    qkv = (qkv[:2] if is_packed else qkv[:2, :1]).detach().requires_grad_()
    freqs = angles(2, 8, device)

    def function(qkv):
        return split(qkv, freqs, packing, format_pair, **where)

    options = {"fast_mode": True, "check_undefined_grad": False}
    assert torch.autograd.gradcheck(function, qkv, **options)
    if packing == "grouped":
        assert torch.autograd.gradgradcheck(function, qkv, **options)


def test_a_table_that_is_trained(device):
    freqs = angles(S, D, device).requires_grad_()
    qkv, found = projection("sbhd", torch.float32, device), []
    for function in (split, in_pieces):
        outs = function(qkv, freqs, "qkv", ("sbhd", "sbhd"))
        found += torch.autograd.grad(outs[0].square().sum() + outs[1].sin().sum(), freqs)
    torch.testing.assert_close(*found)


def test_one_launch_there_and_one_packed_gradient_back(device, monkeypatch, whole_way):
    """No copy and no concatenation."""
    names, run = [], launch.run
    monkeypatch.setattr(launch, "run", lambda plan, x: names.append(plan.kernel) or run(plan, x))
    qkv = projection("bshd", torch.float32, device).requires_grad_()
    rope = RotaryPositionEmbedding(D).to(device)
    with torch.profiler.profile() as profile:
        outs = split(qkv, rope, "qkv", ("bshd", "bhsd"))
        torch.autograd.grad(outs, qkv, [torch.randn_like(x) for x in outs])
    assert names == ["split_qkv_rope_kernel"] * 2
    assert not {x.key for x in profile.key_averages()} & {"aten::cat", "aten::clone"}


def test_one_token_is_new_memory_too(device):
    """Its slices are contiguous, and might come back as they are."""
    qkv = projection("thd", torch.float32, device)[:1]
    ids = torch.tensor([3], device=device)
    for fused in (False, True):
        rope = RotaryPositionEmbedding(D).to(device)
        outs = split(qkv, rope, "qkv", ("thd", "thd"), position_ids=ids, fused=fused)
        addresses = [x.untyped_storage().data_ptr() for x in (qkv, *outs)]
        assert len(set(addresses)) == 4


@pytest.mark.parametrize("format_pair", formats())
def test_no_tokens(format_pair, device):
    shape = *[0 if dim in "st" else B for dim in format_pair[0][:-2]], (HEADS + 2 * KV_HEADS) * D
    qkv = torch.empty(shape, device=device, requires_grad=True)
    where = {"cu_seqlens": torch.tensor([0], device=device)} if "t" in format_pair[0] else {}
    rope = RotaryPositionEmbedding(D).to(device)
    outs = split(qkv, rope, "grouped", format_pair, **where)
    (gradient,) = torch.autograd.grad(outs, qkv, [torch.ones_like(x) for x in outs])
    assert [x.numel() for x in outs] == [0, 0, 0]
    assert gradient.shape == shape


@pytest.mark.gpu
def test_the_fast_path_tells_packings_and_formats_apart(device):
    """Twice the same call, and between them calls whose tensors look the same."""
    rope = RotaryPositionEmbedding(D).to(device)
    qkv = torch.randn(S, S, (HEADS + 2 * KV_HEADS) * D, device=device)
    calls = [(p, (f, o)) for p in PACKINGS for f in ("sbhd", "bshd") for o in ("sbhd", "bhsd")]
    for packing, format_pair in calls * 2:
        leaf, other = (qkv.clone().requires_grad_() for _ in range(2))
        outs = split(leaf, rope, packing, format_pair)
        wanted = in_pieces(other, rope, packing, format_pair)
        assert all(map(torch.equal, outs, wanted))
        grads = [torch.randn_like(x) for x in outs]
        found = torch.autograd.grad(outs, leaf, grads)
        assert torch.equal(*found, *torch.autograd.grad(wanted, other, grads))


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
