"""What every public function promises, asked of all of them: `ops.py` says what they are."""

import pytest
import torch

import ops
from inputs import OTHER_DEFAULTS, other_defaults
from norm_yardstick import assert_as_in_new_memory
from ops import DIFFERENTIABLE, FEW, OPS, all_equal, bits_of, by_turns, copies_of, name_of
from pairwise import cover
from rope_kernels import apply_rotary_pos_emb, rope_fw, rope_qk
from rope_kernels.norms import norm_rope
from yardstick import heads_of, in_format

LARGE = {  # sizes of models, which choose other tiles
    "d": (32, 64, 80, 92, 96, 112, 120, 128, 160, 192, 256, 512, 30, 100),
    "s": (1, 2, 7, 128, 131, 423, 2048, 8192),
}
NUMBERED, WAYS = dict(enumerate(FEW)), {"kernel": True, "PyTorch": False}
HEADS = {1: ((1,), (17,), (41,), (64,)), 2: ((32, 8), (28, 4), (73, 155), (128, 1))}


CASES = [(op, case) for op in OPS for case in op.cases()]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # rows that are not there, divided by 0
@pytest.mark.parametrize("op, case", CASES, ids=[f"{op}: {name_of(case)}" for op, case in CASES])
def test_values_and_gradients(op, case, device):
    op.sample(device, **case).check()


@pytest.mark.gpu
@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) in HEADS], ids=str)
def test_values_and_gradients_of_large_tensors(op):
    heads = op.cases()[0]["heads"]
    more = LARGE | ({"heads": HEADS[len(heads)]} if op.name != "split_qkv_rope" else {})
    for case in op.cases(**more):
        op.sample("cuda", **case).check()


@pytest.mark.parametrize("fused", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_a_single_token(op, fused, device, monkeypatch):
    """Any slice of it is contiguous, and might come back as it is."""
    monkeypatch.setattr(ops, "B", 1)
    for case in FEW:
        op.sample(device, **case | {"fused": fused, "positions": "ids"}, s=1).check()


LAYOUTS = "contiguous", "transposed", "head_dim_strided", "packed_qkv", "one_element_in"


def takes_signs(case):
    """A minus sign that is noted, not stored, is refused of queries beside a cache."""
    return case.get("layout") != "negative_view" or str(case.get("op")) != "rope_to_cache"


@cover(
    takes_signs,
    op=[op for op in OPS if op.inplace],
    case=NUMBERED,
    layout=(*LAYOUTS, "negative_view"),
    fused=WAYS,
    triples=[("op", "layout", "fused")],
)
def test_in_place_is_as_in_new_memory_and_touches_nothing_else(op, case, layout, fused, device):
    case = case | {"layout": layout, "fused": fused, "output_pairing": "same"}
    sample = op.sample(device, **case)
    before, values = bits_of(sample.tensors()), {n: sample.given[n].clone() for n in op.inplace}
    wanted, written = sample.call(), copies_of(sample.written)
    overwritten = [*(sample.given[name] for name in op.inplace), *written.values()]
    versions = [x._version for x in overwritten]
    with torch.no_grad():
        outs = sample.call(written=written, inplace=True)
    assert [x._version for x in overwritten] == [n + 1 for n in versions]
    for name, out, want in zip(op.inplace, outs, wanted, strict=False):
        assert out is sample.given[name]
        assert_as_in_new_memory(out, want)
        assert not torch.equal(out, values[name])
    for out, want in zip(outs[len(op.inplace) :], wanted[len(op.inplace) :], strict=True):
        assert torch.equal(out, want)
    written = slice(None) if op.weights else slice(sample.start, sample.start + sample.d2)
    for name, value in values.items():
        sample.given[name][..., written] = value[..., written]
    assert all_equal(bits_of(sample.tensors()), before), "memory beside it was written to"


@cover(
    op=[op for op in DIFFERENTIABLE if op.inplace and not op.weights],
    case=NUMBERED,
    layout=LAYOUTS,
    fused=WAYS,
)
def test_in_place_each_tensor_gets_the_gradient_that_it_wants(op, case, layout, fused, device):
    """Whatever the others want. The gradient that arrives is left alone: somebody may hold it."""
    case = case | {"layout": layout, "output_pairing": "same", "fused": fused}
    sample, found = op.sample(device, **case), {}
    grads = dict(zip(op.tensors, sample.gradients_like(sample.call()), strict=True))
    before = bits_of(grads.values())
    for wanted in (op.tensors, *([name] for name in op.tensors)):
        leaves = sample.leaves(wanted)
        made = {name: x * 1 for name, x in (sample.given | leaves).items()}
        outs = sample.call(made, inplace=True)
        assert all(out is x for out, x in zip(outs, made.values(), strict=True))
        assert [out.requires_grad for out in outs] == [name in wanted for name in op.tensors]
        sample.check_values(outs)
        arrived = [grads[name] for name in wanted]
        got = torch.autograd.grad([made[name] for name in wanted], [*leaves.values()], arrived)
        found = found or dict(zip(wanted, got, strict=True))
        assert all_equal(got, [found[name] for name in wanted])
        assert all_equal(bits_of(grads.values()), before)
    sample.check_gradients(sample.leaves(), grads.values(), found.values())


# one function in terms of another


def of_each_alone(function):
    def call(sample, given):
        return [
            function(given[name], sample.freqs, **sample.options()) for name in sample.op.tensors
        ]

    return call


def of_each_norm_alone(sample, given):
    rows = sample.pairs(given)
    return [norm_rope(*row, sample.freqs, **sample.options()) for row in rows]


def of_heads_apart(sample, given):
    """And v as it is."""
    options = {**sample.options(), "tensor_format": sample.format}
    for name in ("num_heads", "num_kv_heads", "output_format", "packing"):
        del options[name]
    q, k, v = heads_of(
        given["qkv"], sample.case["packing"], sample.d, sample.HEADS, sample.KV_HEADS
    )
    outs = *rope_qk(q, k, sample.freqs, **options), v
    return [in_format(x, *sample.formats) for x in outs]


def of_no_cache(sample, given):
    """Keys and values are written by PyTorch."""
    options = {**sample.options(), "tensor_format": "thd"}
    slots = options.pop("slot_mapping").long()
    q, k = rope_qk(given["q"], given["k"], sample.freqs, **options)
    caches = copies_of(sample.written)
    for rows, cache in zip((k, given["v"]), caches.values(), strict=True):
        written, page = slots >= 0, cache.shape[1]
        cache[slots[written] // page, slots[written] % page] = rows[: len(slots)][written]
    return q, *caches.values()


OTHERWISE = {
    "rope_qk": of_each_alone(apply_rotary_pos_emb),
    "qk_norm_rope": of_each_norm_alone,
    "split_qkv_rope": of_heads_apart,
    "rope_to_cache": of_no_cache,
    "apply_rotary_pos_emb": of_each_alone(rope_fw),
}


@cover(
    op=[op for op in OPS if op.name in OTHERWISE],
    case=NUMBERED,
    fused=WAYS,
    rounding=("once", "model"),
    triples=[("op", "fused", "rounding")],
)
def test_each_function_has_the_bits_of_simpler_ones(op, case, fused, rounding, device):
    """Of a norm the values alone: k by itself may have other tiles, and sums in another order."""
    sample, found = op.sample(device, **case | {"fused": fused}), []
    sample.more = {"rounding": rounding}
    has_gradient = op.name in ("rope_qk", "split_qkv_rope")
    for call in (lambda sample, given: sample.call(given), OTHERWISE[op.name]):
        leaves = sample.leaves() if has_gradient else sample.given
        outs = call(sample, leaves)
        found.append([*outs])
        if has_gradient:
            torch.manual_seed(1)
            grads = [torch.randn(x.shape, device=device).to(x.dtype) for x in outs]
            found[-1] += torch.autograd.grad(outs, [*leaves.values()], grads)
    for out, want in zip(*found, strict=True):
        if op.weights:
            assert_as_in_new_memory(out.detach(), want.detach())
        else:
            assert torch.equal(out, want)


# who wants a gradient


@by_turns(OPS, FEW)
def test_defaults_of_pytorch_change_no_bit(op, case, device):
    """The dtype and the device of new tensors: nothing within a call depends on them."""
    for fused in WAYS.values():
        sample = op.sample(device, **case | {"fused": fused})
        wanted = bits_of(sample.call())
        for dtype, of_new_tensors in OTHER_DEFAULTS:
            with other_defaults(dtype, of_new_tensors):
                outs = sample.call()
            assert all_equal(bits_of(outs), wanted)


@by_turns(
    [op for op in DIFFERENTIABLE if op.name not in ("apply_rotary_pos_emb", "norm_rope")], FEW
)
def test_a_result_that_nobody_uses_adds_nothing_to_a_gradient(op, case, device):
    sample = op.sample(device, **case)
    leaves = sample.leaves()
    outs = sample.call(leaves)
    grads = sample.gradients_like(outs)
    for used in range(len(outs)):
        found = torch.autograd.grad(
            outs[used], [*leaves.values()], grads[used], retain_graph=True, allow_unused=True
        )
        found = [
            torch.zeros_like(x) if y is None else y
            for x, y in zip(leaves.values(), found, strict=True)
        ]
        of_used = [grad if i == used else torch.zeros_like(grad) for i, grad in enumerate(grads)]
        sample.check_gradients(leaves, of_used, found)
