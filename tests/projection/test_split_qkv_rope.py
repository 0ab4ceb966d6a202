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
    sliced_with_offset,
    transposed,
)
from norm_yardstick import norm_rope_fp64
from pairwise import cover
from projections import (
    HEADS,
    KV_HEADS,
    PACKINGS,
    B,
    D,
    S,
    formats,
    heads_of,
    in_format,
    projection,
)
from rope_kernels import RotaryPositionEmbedding, qk_norm_rope, rope_qk, split_qkv_rope
from rope_kernels.launch import launch
from yardstick import assert_rounded_once, rotate_fp64

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


def in_pieces(qkv, freqs, packing, format_pair, q_weight=None, k_weight=None, **options):
    """The same with the other public functions."""
    tensor_format, output_format = format_pair
    q, k, v = heads_of(qkv, packing)
    if q_weight is None:
        q, k = rope_qk(q, k, freqs, tensor_format, **options)
    else:
        q, k = qk_norm_rope(q, k, q_weight, k_weight, freqs, tensor_format, **options)
    return [in_format(x, tensor_format, output_format) for x in (q, k, v)]


def where_of(tensor_format, device):
    cu_seqlens = sequence_starts(tensor_format, S, B, device)
    return {} if cu_seqlens is None else {"cu_seqlens": cu_seqlens}


def weights_of(dtype, device, shapes=((D,), (D,))):
    weights = [(torch.rand(shape, device=device) + 0.5).to(dtype) for shape in shapes]
    return dict(zip(("q_weight", "k_weight"), weights, strict=True))


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
    exact = [rotate_fp64(x, freqs, format_pair[0], **where) for x in heads_of(qkv, packing)[:2]]
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
    packing=PACKINGS,
    format_pair=formats(),
    dtype=(torch.float32, torch.bfloat16, torch.float64),
    layout=(contiguous, transposed, sliced_with_offset),
    recipe=({}, {"weight_offset": 1.0}, {"norm_after": True}, {"rounding": "model"}),
    shapes=(((D,), (D,)), ((HEADS, D), (KV_HEADS, D)), ((HEADS, D), (D,))),
)
def test_with_weights(packing, format_pair, dtype, layout, recipe, shapes, device):
    qkv = projection(format_pair[0], dtype, device, layout).detach()
    freqs, where = angles(S * B, 8, device), where_of(format_pair[0], device)
    options = recipe | where | {"eps": 1e-3}
    weights = weights_of(dtype, device, shapes)
    given = [[x.detach().requires_grad_() for x in (qkv, *weights.values())] for _ in range(3)]
    named = [dict(zip(weights, leaves[1:], strict=True)) for leaves in given]
    outs = split(given[0][0], freqs, packing, format_pair, **named[0], **options)
    wanted = in_pieces(given[1][0], freqs, packing, format_pair, **named[1], **options)
    for out, want in zip(outs, wanted, strict=True):
        assert out.is_contiguous()
        assert_close(out, want, recipe)
    grads = [torch.randn_like(x) for x in outs]
    found = torch.autograd.grad(outs, given[0], grads)
    for gradient, want in zip(found, torch.autograd.grad(wanted, given[1], grads), strict=True):
        assert_close(gradient, want, recipe, summed=gradient.dim() < 3)
    if "rounding" not in recipe:
        check_fp64(qkv, packing, format_pair, freqs, weights, options, outs)


def assert_close(got, want, recipe, summed=False):
    """The same bits, but for the order of sums: in a model's roundings one may then be another."""
    eps = torch.finfo(torch.float32 if got.dtype == torch.bfloat16 else got.dtype).eps
    if "rounding" in recipe or got.dtype == torch.bfloat16:
        eps = torch.finfo(got.dtype).eps
    most = float(want.detach().abs().max())
    torch.testing.assert_close(got, want, rtol=(8 if summed else 4) * eps, atol=4 * eps * most)


def check_fp64(qkv, packing, format_pair, freqs, weights, options, outs):
    for x, weight, out in zip(heads_of(qkv, packing), weights.values(), outs, strict=False):
        exact = in_format(norm_rope_fp64(x, weight, freqs, format_pair[0], **options), *format_pair)
        eps = torch.finfo(out.dtype).eps
        atol = 16 * torch.finfo(torch.promote_types(out.dtype, torch.float32)).eps
        scale = float(exact.detach().abs().max())
        torch.testing.assert_close(out.double(), exact, rtol=eps, atol=atol * scale)


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
    weights=(False, True),
    is_legal=lambda case: (
        not (
            case.get("weights")
            and case.get("options", {}).get("rounding") in ("upcast", "promoted")
        )
    ),
)
def test_options_mean_what_they_mean_elsewhere(options, packing, format_pair, weights, device):
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
    if weights:
        options |= weights_of(dtype, device)
    qkv = projection(tensor_format, dtype, device)
    leaf, other = (qkv.clone().requires_grad_() for _ in range(2))
    outs = split(leaf, freqs, packing, format_pair, **options)
    wanted = in_pieces(other, freqs, packing, format_pair, **options)
    grads = [torch.randn_like(x) for x in outs]
    (gradient,) = torch.autograd.grad(outs, leaf, grads)
    (want,) = torch.autograd.grad(wanted, other, grads)
    if weights:
        for got, x in zip((*outs, gradient), (*wanted, want), strict=True):
            assert_close(got, x, {"rounding": "model"} if "rounding" in options else {})
    else:
        assert all(map(torch.equal, outs, wanted)) and torch.equal(gradient, want)


@cover(packing=PACKINGS, wanted=("qkv", "weights", "one weight"), packed=(False, True))
def test_gradients_that_are_not_wanted(packing, wanted, packed, device):
    """A frozen projection beside trained weights, the other way round, and one frozen weight."""
    format_pair = ("thd", "thd") if packed else ("bshd", "bhsd")
    where = where_of(format_pair[0], device)
    leaves = [
        projection(format_pair[0], torch.float32, device),
        *weights_of(torch.float32, device).values(),
    ]
    asked = {"qkv": (0,), "weights": (1, 2), "one weight": (0, 2)}[wanted]
    found = []
    rope = RotaryPositionEmbedding(D).to(device)
    for function in (split, in_pieces):
        own = [x.detach().requires_grad_(i in asked) for i, x in enumerate(leaves)]
        weights = {"q_weight": own[1], "k_weight": own[2]}
        outs = function(own[0], rope, packing, format_pair, **weights, **where)
        torch.manual_seed(1)
        grads = [torch.randn(x.shape, device=device) for x in outs]
        torch.autograd.backward(
            [x for x in outs if x.requires_grad],
            [g for x, g in zip(outs, grads, strict=True) if x.requires_grad],
        )
        found.append([x.grad for x in own])
    for got, want in zip(*found, strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            assert_close(got, want, {}, summed=True)


@cover(used=((0,), (1,), (2,), (0, 1), (1, 2)), weights=(False, True), compiled=(False, True))
def test_an_output_that_nobody_uses_has_no_gradient(used, weights, compiled, device):
    """Nor does what it alone would reach: a NaN in a row of q, q's weight."""
    rope, own = RotaryPositionEmbedding(D).to(device), {}
    if weights:
        own = weights_of(torch.float32, device)
    leaves = projection("sbhd", torch.float32, device), *own.values()
    if 0 not in used:
        leaves[0][0, 0, 1] = torch.nan
    found = []
    for function in (split, in_pieces):
        given = [x.clone().requires_grad_() for x in leaves]

        def call(qkv, *weights, function=function):
            named = dict(zip(own, weights, strict=True))
            outs = function(qkv, rope, "grouped", ("sbhd", "bhsd"), **named)
            return [outs[i] for i in used]

        if compiled and function is split:
            torch._dynamo.reset()
            call = torch.compile(call, backend="aot_eager", fullgraph=True)
        outs = call(*given)
        torch.manual_seed(2)
        grads = [torch.randn(x.shape, device=device) for x in outs]
        found.append(torch.autograd.grad(outs, given, grads, allow_unused=True))
    for got, want in zip(*found, strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            assert_close(got, want, {}, summed=True)


@pytest.mark.parametrize("weights", [False, True])
def test_gradients_in_a_batch(weights, device):
    rope, own = RotaryPositionEmbedding(D).to(device), {}
    if weights:
        own = weights_of(torch.float32, device)
    found = []
    qkv = projection("bshd", torch.float32, device)
    for function in (split, in_pieces):
        leaf = qkv.clone().requires_grad_()
        outs = function(leaf, rope, "qkv", ("bshd", "bhsd"), **own)
        torch.manual_seed(3)
        grads = [torch.randn(4, *x.shape, device=device) for x in outs]
        found += torch.autograd.grad(outs, leaf, grads, is_grads_batched=True, retain_graph=True)
        found += torch.autograd.grad(outs[0], leaf, grads[0], is_grads_batched=True)
    for got, want in zip(found[:2], found[2:], strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("trained", [(), (0,), (1,), (2,), (1, 2)])
def test_only_what_depends_on_a_leaf_requires_a_gradient(trained, device):
    own = weights_of(torch.float32, device)
    leaves = projection("sbhd", torch.float32, device), *own.values()
    for i in trained:
        leaves[i].requires_grad_()
    rope = RotaryPositionEmbedding(D).to(device)
    given = leaves[0], rope, "qkv", ("sbhd", "sbhd")
    wanted = [x.requires_grad for x in in_pieces(*given, **own)]
    for fused in (True, False):
        assert [x.requires_grad for x in split(*given, fused=fused, **own)] == wanted


@cover(packing=PACKINGS, format_pair=(("sbhd", "bhsd"), ("thd", "thd")), weights=(False, True))
def test_derivatives_of_every_order(packing, format_pair, weights, device):
    """Of two tokens, the second derivative in one packing: both have one backward."""
    is_packed = format_pair[0] == "thd"
    where = {"cu_seqlens": torch.tensor([0, 1, 2], device=device)} if is_packed else {}
    qkv = projection(format_pair[0], torch.float64, device)
    qkv = (qkv[:2] if is_packed else qkv[:2, :1]).detach().requires_grad_()
    freqs = angles(2, 8, device)
    own = weights_of(torch.float64, device) if weights else {}
    leaves = [qkv, *[x.requires_grad_() for x in own.values()]]

    def function(qkv, *weights):
        named = dict(zip(own, weights, strict=True))
        return split(qkv, freqs, packing, format_pair, **named, **where)

    options = {"fast_mode": True, "check_undefined_grad": False}
    assert torch.autograd.gradcheck(function, leaves, **options)
    if packing == "grouped":
        assert torch.autograd.gradgradcheck(function, leaves, **options)


def test_a_table_that_is_trained(device):
    freqs = angles(S, D, device).requires_grad_()
    qkv, found = projection("sbhd", torch.float32, device), []
    for function in (split, in_pieces):
        outs = function(qkv, freqs, "qkv", ("sbhd", "sbhd"))
        found += torch.autograd.grad(outs[0].square().sum() + outs[1].sin().sum(), freqs)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("weights", [False, True])
def test_one_launch_there_and_one_packed_gradient_back(weights, device, monkeypatch, whole_way):
    """No copy and no concatenation: with weights the other launch adds up their gradients."""
    names, run = [], launch.run
    monkeypatch.setattr(launch, "run", lambda plan, x: names.append(plan.kernel) or run(plan, x))
    own = weights_of(torch.float32, device) if weights else {}
    qkv = projection("bshd", torch.float32, device).requires_grad_()
    leaves = [qkv, *[x.requires_grad_() for x in own.values()]]
    rope = RotaryPositionEmbedding(D).to(device)
    with torch.profiler.profile() as profile:
        outs = split(qkv, rope, "qkv", ("bshd", "bhsd"), **own)
        torch.autograd.grad(outs, leaves, [torch.randn_like(x) for x in outs])
    forward, *backward = names
    assert forward == "split_qkv_rope_kernel"
    norm = ["norm_rope_backward_kernel", "sum_partials_kernel"]
    assert backward == (norm if weights else [forward])
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
@pytest.mark.parametrize("weights", [False, True])
def test_no_tokens(format_pair, weights, device):
    shape = *[0 if dim in "st" else B for dim in format_pair[0][:-2]], (HEADS + 2 * KV_HEADS) * D
    qkv = torch.empty(shape, device=device, requires_grad=True)
    own = weights_of(torch.float32, device) if weights else {}
    leaves = [qkv, *[x.requires_grad_() for x in own.values()]]
    where = {"cu_seqlens": torch.tensor([0], device=device)} if "t" in format_pair[0] else {}
    rope = RotaryPositionEmbedding(D).to(device)
    outs = split(qkv, rope, "grouped", format_pair, **own, **where)
    found = torch.autograd.grad(outs, leaves, [torch.ones_like(x) for x in outs])
    assert [x.numel() for x in outs] == [0, 0, 0]
    assert found[0].shape == shape and not any(x.any() for x in found[1:])


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
    rope, weights = RotaryPositionEmbedding(D).to(device), weights_of(torch.float32, device)
    qkv = torch.randn(S, B, (HEADS + 2 * KV_HEADS) * D, device=device)
    for _ in range(2):
        for x, tensor_format in ((qkv, "sbhd"), (qkv.transpose(0, 1), "bshd")):
            leaf, other = (x.detach().requires_grad_() for _ in range(2))
            given = rope, "grouped", (tensor_format, "bhsd")
            outs, wanted = (f(y, *given, **weights) for f, y in ((split, leaf), (in_pieces, other)))
            grads = [torch.randn_like(y) for y in outs]
            found = torch.autograd.grad(outs, leaf, grads)
            assert_close(*found, *torch.autograd.grad(wanted, other, grads), {})


def test_weights_of_two_kinds_take_plain_pytorch(device):
    weights = weights_of(torch.bfloat16, device)
    weights["k_weight"] = weights["k_weight"].float()
    rope = RotaryPositionEmbedding(D).to(device)
    given = projection("sbhd", torch.bfloat16, device), rope, "qkv", ("sbhd", "sbhd")
    for out, want in zip(split(*given, **weights), in_pieces(*given, **weights), strict=True):
        assert_close(out, want, {})


@pytest.mark.gpu
def test_more_than_2_31_elements():
    """Offsets within the projection pass 32 bits, forward and backward, with weights too."""
    heads, d = HEADS + 2 * KV_HEADS, 128
    tokens = 2**31 // (heads * d) + 5
    qkv = torch.empty(tokens, heads * d, device="cuda", dtype=torch.bfloat16)
    ids, rope = torch.arange(tokens, device="cuda") % 1000, RotaryPositionEmbedding(d).cuda()
    few = torch.cat([torch.arange(4), torch.arange(tokens - 8, tokens)]).cuda()
    qkv[few] = torch.randn(12, heads * d, device="cuda").bfloat16()
    qkv.requires_grad_()
    for own in ({}, weights_of(torch.bfloat16, "cuda", ((d,), (d,)))):
        given = *(rope, HEADS, KV_HEADS), {"tensor_format": "thd", "packing": "grouped"} | own
        *given, options = given
        outs = split_qkv_rope(qkv, *given, position_ids=ids, **options)
        some = qkv.detach()[few].requires_grad_()
        wanted = split_qkv_rope(some, *given, position_ids=ids[few], **options)
        for out, want in zip(outs, wanted, strict=True):
            assert_close(out[few], want, {})
        grads = [torch.zeros_like(x) for x in outs]
        of_some = [torch.randn_like(x) for x in wanted]
        for grad, x in zip(grads, of_some, strict=True):
            grad[few] = x
        (gradient,) = torch.autograd.grad(outs, qkv, grads)
        assert_close(gradient[few], torch.autograd.grad(wanted, some, of_some)[0], {})
        del outs, grads, gradient
        torch.cuda.empty_cache()
