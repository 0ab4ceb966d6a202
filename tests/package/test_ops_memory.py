"""Memory that a call overwrites, asked of all public functions: what may not be in it, and why.

A kernel would silently overwrite an element that something else of the call has. So a call refuses
that before anything is written, whichever way it would go. `test_ops.py` has what is written where
nothing is shared, and `call/test_inplace.py` slices of one tensor, and views that autograd knows.
"""

import re
from functools import partial

import pytest
import torch

from inputs import ADDRESSLESS
from ops import FP64, OPS, all_equal, bits_of, copies_of
from rope_kernels import RotaryPositionEmbedding, rope_qk

WRITING = [op for op in OPS if op.inplace]
each_op = pytest.mark.parametrize("op", WRITING, ids=str)
each_way = pytest.mark.parametrize("fused", (True, False), ids=("kernel", "PyTorch"))
CASES = {  # each kind of table, and each way to say where tokens are; all items have 8 or 4 bytes
    "packed": {"tensor_format": "thd", "positions": "starts", "freqs": "cos and sin"},
    "ids": {"positions": "ids", "freqs": "angles"},
}
each_case = pytest.mark.parametrize("case", CASES)


def sample_of(op, case, device):
    return op.sample(device, **CASES[case], dtype=FP64, rotary=0.5, s=2)


def tensors_of(sample):
    """All that a call is given, by the names that errors give them."""
    freqs, tables = sample.freqs, {"freqs": sample.freqs}
    if isinstance(freqs, tuple):
        tables = dict(zip(("freqs[0]", "freqs[1]"), freqs, strict=True))
    named = sample.given | sample.written | tables | sample.options()
    return {name: x for name, x in named.items() if isinstance(x, torch.Tensor)}


def call(sample, tensors, **options):
    """With these tensors, in place where there is such a call."""
    freqs = tuple(x for name, x in tensors.items() if name.startswith("freqs"))
    given, written = (
        {n: tensors[n] for n, x in of.items() if x is not None}
        for of in (sample.given, sample.written)
    )
    others = {name: x for name, x in tensors.items() if name in sample.options()}
    in_place = {"inplace": True} if sample.op.inplace else {}
    freqs = freqs if len(freqs) > 1 else freqs[0]
    return sample.call(given, written, freqs, **others, **in_place, **options)


def written_by(sample):
    return *sample.op.inplace, *sample.written


def assert_refused(words, sample, tensors, fused):
    """In a first call and in later ones."""
    before, versions = bits_of(tensors.values()), [x._version for x in tensors.values()]
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            call(sample, tensors, fused=fused)
    assert all_equal(bits_of(tensors.values()), before), "memory was written to"
    assert [x._version for x in tensors.values()] == versions


# elements that something else of the call has

SHARED = {  # where the second one begins, in bytes, from the sizes of both
    "the first element": lambda x, y: 8 - y.nbytes,
    "an element within": lambda x, y: x.nbytes // 16 * 8,
    "the last element": lambda x, y: x.nbytes - 8,
    "nothing, just before": lambda x, y: -y.nbytes,
    "nothing, just after": lambda x, y: x.nbytes,
}


def in_one_memory(x, y, first):
    """Their values, where `y` begins so many bytes after `x`; as `y` was where they overlap.

    `x` begins at a multiple of 16 bytes, as it did: a GPU adds up a norm's squares in an order that
    depends on it.
    """
    room = 16 * (1 + y.nbytes // 16)
    memory = torch.zeros(2 * room + x.nbytes, dtype=torch.uint8, device=x.device)
    moved = []
    for old, start in ((x, room), (y, room + first)):
        moved.append(memory[start : start + old.nbytes].view(old.dtype).view(old.shape))
        moved[-1].copy_(old)
    return moved


@each_way
@each_case
@pytest.mark.parametrize("shared", SHARED)
@each_op
def test_what_is_overwritten_shares_no_memory_with_anything(op, shared, case, fused, device):
    """With what is read, or also written, of any dtype. Parts of one memory side by side do."""
    sample = sample_of(op, case, device)
    tensors = tensors_of(sample)
    want = call(sample, copies_of(tensors), fused=fused)
    for name in written_by(sample):
        for other in tensors.keys() - {name}:
            x, y = tensors[name], tensors[other]
            x, y = in_one_memory(x, y, SHARED[shared](x, y))
            given = copies_of(tensors) | {name: x, other: y}
            if shared.startswith("nothing"):
                assert all_equal(call(sample, given, fused=fused), want)
                continue
            names = "{} shares memory with {}; accepted: "
            words = [names.format(name, other), names.format(other, name)]
            words = words if other in written_by(sample) else words[1:]
            assert_refused(f"^({'|'.join(map(re.escape, words))})", sample, given, fused)


ONE_PLACE = {  # strides, of a shape
    "one number": lambda shape: [0] * len(shape),
    "one entry": lambda shape: [0, *range(1000, 1000 + len(shape) - 2), 1],
    "windows that slide": lambda shape: [1] * len(shape),
    "rows that share an element": lambda shape: [
        *torch.empty(*shape[:-1], shape[-1] - 1).stride()[:-1],
        1,
    ],
    # steps of 10 and 3 keep 3 times 10 elements apart, which sorted strides don't tell
    "strides too intricate to judge": lambda shape: [1000, 10, 100_000, 3][-len(shape) :],
}


@each_way
@pytest.mark.parametrize("strides", ONE_PLACE)
@each_op
def test_elements_in_one_place_are_not_overwritten(op, strides, fused, device):
    sample = sample_of(op, "packed", device)
    tensors = tensors_of(sample)
    for name in written_by(sample):
        shape = tensors[name].shape
        apart = torch.zeros(600_000, dtype=FP64, device=device)
        given = copies_of(tensors) | {name: apart.as_strided(shape, ONE_PLACE[strides](shape))}
        assert_refused(f"^{name} is a view whose elements may overlap", sample, given, fused)


@each_way
@pytest.mark.parametrize("make", ADDRESSLESS, ids=lambda make: make.__name__)
@each_op
def test_what_has_no_address_is_refused_before_anything_is_overwritten(op, make, fused, device):
    sample = sample_of(op, "ids", device)
    tensors = tensors_of(sample)
    for name in {*written_by(sample), *op.tensors}:
        given = copies_of(tensors)
        others = [x for other, x in given.items() if other != name]
        before, given[name] = bits_of(others), make(given[name])
        words = rf"^{name} has elements but no memory; accepted: .* such as {name}\.clone"
        with pytest.raises(ValueError, match=words):
            call(sample, given, fused=fused)
        assert all_equal(bits_of(others), before)


# what autograd would need


@each_way
@each_case
@each_op
def test_what_requires_a_gradient_is_not_overwritten_nor_used_in_place(op, case, fused, device):
    """Its gradient would need what was overwritten. Within no_grad all is fine."""
    sample, bare = sample_of(op, case, device), op.name in ("rope_fw", "rope_bw")
    tensors = tensors_of(sample)
    want = call(sample, copies_of(tensors), fused=fused)
    for name in [name for name, x in tensors.items() if x.is_floating_point()]:
        given = copies_of(tensors)
        given[name].requires_grad_()
        if not bare:  # autograd doesn't know what these do
            who = f"({name.partition('[')[0]}|inplace is True, and a tensor)"
            assert_refused(f"^{who}.* requires a gradient.*; accepted: ", sample, given, fused)
        with torch.set_grad_enabled(bare):
            outs = call(sample, given, fused=fused)
        assert outs[0] is given[op.inplace[0]] and all_equal(outs, want)
        assert given[name].is_leaf and given[name].requires_grad


@each_way
@each_op
def test_an_inference_tensor_is_overwritten_in_inference_mode_alone(op, fused, device):
    """Autograd would never know that it was overwritten elsewhere: it has no version."""
    sample = sample_of(op, "ids", device)
    tensors = tensors_of(sample)
    want = call(sample, copies_of(tensors), fused=fused)
    for name in written_by(sample):
        given = copies_of(tensors)
        with torch.inference_mode():
            given[name] = tensors[name].clone()
        before = bits_of(given.values())
        with pytest.raises(ValueError, match=f"^{name} is an inference tensor outside inference"):
            call(sample, given, fused=fused)
        assert all_equal(bits_of(given.values()), before)
        with torch.inference_mode():
            assert all_equal(call(sample, given, fused=fused), want)


# the order of strides

ORDERED = "apply_rotary_pos_emb", "rope_fw", "rope_qk", "norm_rope", "qk_norm_rope"


def projected(sample):
    """Views (b, h, s, d) of memory (b, s, h, d), as attention gets them from projections."""
    of_tensors = [name for name in sample.op.tensors if sample.given[name] is not None]
    return {n: sample.given[n].transpose(1, 2).contiguous().transpose(1, 2) for n in of_tensors}


@pytest.mark.parametrize("compiled", (False, True), ids=("eager", "compiled"))
@pytest.mark.parametrize("fused", (True, False))
@pytest.mark.parametrize("rotary", (1.0, 0.5))
@pytest.mark.parametrize("op", [op for op in OPS if op.name in ORDERED], ids=str)
def test_results_have_the_order_of_strides_of_what_is_rotated(op, rotary, fused, compiled, device):
    """As those of pointwise operators. With torch 2.11, a compiled one has contiguous gradients."""
    torch._dynamo.reset()
    sample = op.sample(device, tensor_format="bhsd", rotary=rotary, freqs="cos and sin", s=4)
    given = {n: x.requires_grad_(op.differentiable) for n, x in projected(sample).items()}
    of_given = [x.stride() for x in given.values()]

    def strides(call):
        if compiled:
            call = torch.compile(call, backend="aot_eager", fullgraph=True)
        outs = call(given)
        assert [x.stride() for x in outs] == of_given
        if not op.differentiable:
            return []
        ups = [torch.randn_like(x) for x in outs]
        grads = torch.autograd.grad(outs, [*given.values()], ups)
        return [x.stride() for x in grads]

    pointwise = strides(lambda given: [2 * x for x in given.values()])
    assert strides(partial(sample.call, fused=fused)) in (of_given[: len(pointwise)], pointwise)
    assert compiled or pointwise in ([], of_given)


@pytest.mark.parametrize("fused", (True, False))
def test_attention_between_projections_copies_nothing(fused, device):
    """Neither its result nor the gradients of q and k, for which SDPA takes the order of q."""
    b, s, h, d = 2, 5, 3, 16
    rope, leaves = RotaryPositionEmbedding(d).to(device), []
    for _ in "qkv":
        leaves.append(torch.randn(b, s, h * d, device=device, requires_grad=True))
    q, k, v = (x.view(b, s, h, d).transpose(1, 2) for x in leaves)
    q, k = rope_qk(q, k, rope, "bhsd", fused=fused)
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    whole = out.transpose(1, 2).reshape(b, s, h * d)
    assert whole.data_ptr() == out.data_ptr()
    for grad in torch.autograd.grad(whole.sum(), [q, k]):
        assert grad.transpose(1, 2).is_contiguous()
