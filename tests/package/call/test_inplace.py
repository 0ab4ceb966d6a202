"""`inplace=True`: the rotary slice overwritten and not one bit beside it, or an error that helps.

What is in memory beside the rotary slice is compared bit by bit. `test_ops.py` does so
with every option, layout and gradient; here is what may be overwritten, and what may not.
"""

import re
from contextlib import contextmanager

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from inputs import angles, contiguous, negative_view, sequence_starts
from ops import all_equal, bits_of
from rope_kernels import apply_rotary_pos_emb, rope_bw, rope_fw, rope_qk
from rope_kernels.norms import norm_rope, qk_norm_rope
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

S, B, H, D, D2 = 5, 2, 3, 10, 6

each_way = pytest.mark.parametrize("fused", (True, False), ids=("fused", "unfused"))


@contextmanager
def nothing_touched(*tensors):
    """Hold that the block changes no bit under these tensors, nor their version counters."""
    before, versions = bits_of(tensors), [t._version for t in tensors]
    yield
    assert all_equal(bits_of(tensors), before) and [t._version for t in tensors] == versions


# the version counter


@pytest.mark.parametrize("function", (apply_rotary_pos_emb, rope_fw, rope_bw))
def test_backward_raises_if_a_saved_constant_was_overwritten(function, device):
    """The tensor itself has no gradient, and only a slice of it is rotated."""
    constant = torch.randn(S, B, 2 * H, D, device=device)
    out = torch.randn_like(constant).requires_grad_() * constant
    function(constant[:, :, H:], angles(S, D2, device), inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# gradients


class Sample:
    """A leaf, made longer where a slice is to be cut out, and fp64 to compare with."""

    def __init__(self, device, tensor_format="sbhd", shape=(S, B, H, D)):
        self.leaf = contiguous(shape, torch.float64, device).requires_grad_()
        self.weight = contiguous(shape, torch.float64, device)
        self.freqs = angles(S * B, D2, device)
        self.tensor_format = tensor_format
        self.options = {"cu_seqlens": sequence_starts(tensor_format, S, B, device)}

    def rotate(self, t):
        return apply_rotary_pos_emb(t, self.freqs, self.tensor_format, inplace=True, **self.options)

    def expected(self, t):
        return rotate_fp64(t, self.freqs, self.tensor_format, **self.options)

    def gradient(self, result):
        (gradient,) = torch.autograd.grad((self.weight * result).sum(), self.leaf)
        return gradient


SLICES = {  # format, shape of the base, one slice of it of shape (S, B, H, D), or alike
    "heads": ("sbhd", (S, B, H + 3, D), lambda base: base[:, :, 2 : H + 2]),
    "head dimension": ("sbhd", (S, B, H, D + 5), lambda base: base[..., 3 : D + 3]),
    "every other position": ("sbhd", (2 * S, B, H, D), lambda base: base[1::2]),
    "q of (s, b, 3, h, d)": ("sbhd", (S, B, 3, H, D), lambda base: base[:, :, 0]),
    "select": ("bshd", (B, S, 3, H, D), lambda base: base.select(2, 2)),
    "a slice of a slice": ("bhsd", (B, H + 4, S + 2, D), lambda base: base[:, 1:][:, :H, 2:]),
    "the whole of it, transposed": ("bhsd", (B, S, H, D), lambda base: base.transpose(1, 2)),
    "packed tokens": ("thd", (S * B, 3, H, D), lambda base: base[:, 1]),
}


@pytest.mark.parametrize("kind", SLICES.values(), ids=SLICES.keys())
def test_gradient_of_the_base_of_one_slice(kind, device):
    """The rest of the base has a gradient too, by which a forgotten rotation shows."""
    tensor_format, shape, cut = kind
    sample = Sample(device, tensor_format, shape)
    base, want = sample.leaf * 1, sample.leaf * 1
    part = cut(base)
    assert sample.rotate(part) is part
    cut(want).copy_(sample.expected(cut(sample.leaf)))
    assert_rounded_once(base.detach(), want.detach())
    assert_rounded_once(sample.gradient(base), sample.gradient(want))


def test_the_incoming_gradient_is_left_alone(device):
    """Backward is never in place: someone else may hold the gradient."""
    sample = Sample(device)
    grad, out = torch.randn_like(sample.leaf), sample.rotate(sample.leaf * 1)
    with nothing_touched(grad):
        out.backward(grad)
    assert_rounded_once(sample.leaf.grad, gradient_fp64(sample.leaf, sample.freqs, "sbhd", grad))


@pytest.mark.parametrize("wants", ("q and k", "q", "k"))
def test_gradients_of_rope_qk(wants, device):
    """What requires no gradient is rotated too, and goes on requiring none."""
    sample = Sample(device)
    leaves = {name: sample.leaf.detach().clone().requires_grad_(name in wants) for name in "qk"}
    q, k = leaves["q"] * 1, leaves["k"].sin()
    q_out, k_out = rope_qk(q, k, sample.freqs, "sbhd", inplace=True)
    assert q_out is q and k_out is k
    assert [q.requires_grad, k.requires_grad] == [name in wants for name in "qk"]
    want = [sample.expected(x) for x in (leaves["q"], leaves["k"].sin())]
    used = [leaves[name] for name in "qk" if name in wants]
    for got, wanted in zip((q, k), want, strict=True):
        assert_rounded_once(got.detach(), wanted.detach())
    got, want = ((sample.weight * q * k.exp()).sum() for q, k in ((q, k), want))
    for one, other in zip(
        torch.autograd.grad(got, used), torch.autograd.grad(want, used), strict=True
    ):
        torch.testing.assert_close(one, other)


# what cannot be done in place


def leaf(device):
    return torch.randn(S, B, H, D, device=device, requires_grad=True)


def with_gradient(device, *shape):
    return torch.randn(*(shape or (S, B, H, D)), device=device, requires_grad=True) * 1


def plain(device):
    return torch.randn(S, B, H, D, device=device)


def view_made_under_no_grad(device):
    base = with_gradient(device, S, B, H + 1, D)
    with torch.no_grad():
        return base[:, :, 1:]


REFUSED_BY_AUTOGRAD = {
    "a leaf": leaf,
    "a view of a leaf": lambda device: leaf(device)[:, :, 1:],
    "the whole of a leaf, viewed": lambda device: leaf(device).view(S, B, H, D),
    "chunk": lambda device: with_gradient(device, S, B, 3 * H, D).chunk(3, dim=2)[1],
    "split": lambda device: with_gradient(device, S, B, H + 2, D).split((2, H), dim=2)[1],
    "unbind": lambda device: with_gradient(device, 3, S, B, H, D).unbind(0)[0],
    "a slice of a chunk": lambda device: with_gradient(device, S, B, 8, D).chunk(2, 2)[0][:, :, 1:],
    "a view made under no_grad": view_made_under_no_grad,
    "a view that was made a leaf": lambda device: plain(device)[:].requires_grad_(),
}


@pytest.mark.parametrize("fused", (True, False), ids=("fused", "unfused"))
@pytest.mark.parametrize("make", REFUSED_BY_AUTOGRAD.values(), ids=REFUSED_BY_AUTOGRAD.keys())
def test_what_autograd_forbids_is_refused(make, fused, device):
    x, other, freqs = make(device), with_gradient(device), angles(S, D2, device)
    options = {"tensor_format": "sbhd", "inplace": True, "fused": fused}
    for name, call in {
        "t": lambda: apply_rotary_pos_emb(x, freqs, **options),
        "q": lambda: rope_qk(x, other, freqs, **options),
        "k": lambda: rope_qk(other, x, freqs, **options),
    }.items():
        advice = rf"^{name} is .*; accepted: .*{name}\.clone\(\)"
        with nothing_touched(x, other), pytest.raises(ValueError, match=advice):
            call()


@pytest.mark.parametrize("bad", ("q", "k"))
def test_a_sliced_view_is_refused_where_two_tensors_are_rotated(bad, device):
    """PyTorch knows no way to rebase two outputs; the single function takes such a view."""
    view = with_gradient(device, S, B, H + 1, D)[:, :, 1:]
    q, k = (view, plain(device)) if bad == "q" else (plain(device), view)
    advice = rf"^{bad} is a view .*; accepted: .*{bad}\.clone\(\)"
    with nothing_touched(q, k), pytest.raises(ValueError, match=advice):
        rope_qk(q, k, angles(S, D2, device), "sbhd", inplace=True)


OVERLAPPING = {
    "one number, expanded": lambda device: torch.randn((), device=device).expand(S, B, H, D),
    "head dimension, expanded": lambda device: torch.randn(S, B, H, 1, device=device).expand(
        S, B, H, D
    ),
    "sliding windows": lambda device: (
        torch.randn(B, H, 2 * S + D - 2, device=device).unfold(-1, D, 2).permute(2, 0, 1, 3)
    ),
    "strides 2 and 3": lambda device: torch.randn(60, device=device).as_strided(
        (S, 1, 1, D), (2, 60, 60, 3)
    ),
}


@pytest.mark.parametrize("name", ("t", "grad", "q", "k"))
@pytest.mark.parametrize("make", OVERLAPPING.values(), ids=OVERLAPPING.keys())
def test_elements_in_one_place_are_refused(make, name, device):
    t, freqs = make(device), angles(S, D2, device)
    other = torch.randn(t.shape, device=device)
    call = {
        "t": lambda: apply_rotary_pos_emb(t, freqs, inplace=True),
        "grad": lambda: rope_bw(t, freqs, inplace=True),
        "q": lambda: rope_qk(t, other, freqs, "sbhd", inplace=True),
        "k": lambda: rope_qk(other, t, freqs, "sbhd", inplace=True),
    }[name]
    advice = rf"^{name} has .*; accepted: .*{name}\.(contiguous|clone)\(\)"
    with nothing_touched(t, other), pytest.raises(ValueError, match=advice):
        call()


SHARING = {
    "the same tensor": lambda x: (x, x),
    "k within q": lambda x: (x, x[:, :, 2:4]),
    "q within k": lambda x: (x[:, :, :1], x),
    "one head in common": lambda x: (x[:, :, :4], x[:, :, 3:]),
    "half a head in common": lambda x: (x[..., :D], x[..., D // 2 : D // 2 + D]),
    "every other element of d": lambda x: (x[..., 0:-2:2], x[..., 2::2]),
    "the same, transposed": lambda x: (x, x.transpose(0, 1)),
}


@pytest.mark.parametrize("split", SHARING.values(), ids=SHARING.keys())
def test_q_and_k_that_share_elements_are_refused(split, device):
    q, k = split(torch.randn(B, B, 7, 2 * D, device=device))
    with nothing_touched(q, k), pytest.raises(ValueError, match=r"^k .*\bq\b.*; accepted: "):
        rope_qk(q, k, angles(S, D2, device), "sbhd", inplace=True)


@st.composite
def neighbors(draw):
    """q and k in one memory, (size, strides, start): packed, side by side, astride or apart."""
    s, b, heads, other_heads = (draw(st.integers(1, most)) for most in (3, 2, 3, 3))
    size, strides, reach = [s, b, max(heads, other_heads), 4], [0] * 4, 1
    for dim in draw(st.permutations(range(4))):
        strides[dim] = reach * draw(st.integers(1, 3)) + draw(st.integers(0, 1))
        reach = strides[dim] * size[dim]
    distance = draw(st.integers(0, min(reach, 60)))
    pair = ((s, b, heads, 4), strides, 0), ((s, b, other_heads, 4), strides, distance)
    return draw(st.permutations(pair))


def test_random_neighbors_in_one_memory_are_rotated_rightly_or_refused():
    """Never wrongly; and both happen often."""
    elements, freqs, refused = torch.randn(10_000), angles(3, 4, "cpu"), []

    @hypothesis.settings(max_examples=20 * hypothesis.settings.default.max_examples)
    @hypothesis.given(neighbors())
    def are_rotated_rightly_or_refused(pair):
        memory = elements.clone()
        q, k = (memory.as_strided(*view) for view in pair)
        want, before = rope_qk(q, k, freqs, "sbhd", fused=False), memory.clone()
        try:
            rope_qk(q, k, freqs, "sbhd", inplace=True, fused=False)
        except ValueError as error:
            refused.append(True)
            assert str(error).startswith("k shares memory with q")
            assert torch.equal(memory, before)
        else:
            refused.append(False)
            assert torch.equal(q, want[0]) and torch.equal(k, want[1])

    are_rotated_rightly_or_refused()
    assert 0.1 < sum(refused) / len(refused) < 0.9


PACKED = {  # format, shape of the packed memory, q and k of it as models cut them
    "few heads first": ("bshd", (B, S, 8, D), lambda qkv: qkv.split((1, 4, 3), 2)),
    "a dimension of three": ("bhsd", (B, S, 3, H, D), lambda qkv: qkv.permute(2, 0, 3, 1, 4)),
    "within each head": ("sbhd", (S, B, H, 3 * D), lambda qkv: qkv.chunk(3, -1)),
    "heads in turns": (
        "sbhd",
        (S, B, 2 * H, D),
        lambda qk: [qk[:, :, start::2] for start in (0, 1)],
    ),
    "heads of tokens": ("thd", (S * B, 8, D), lambda qkv: qkv.split((4, 2, 2), 1)),
    "decoding": ("bshd", (B, 1, 8, D), lambda qkv: qkv.split((4, 2, 2), 2)),
}


@pytest.mark.parametrize("swapped", (False, True), ids=("q first", "k first"))
@pytest.mark.parametrize("kind", PACKED.values(), ids=PACKED.keys())
def test_q_and_k_of_one_packed_tensor(kind, swapped, device):
    """None of them is a copy, and what is beside them stays."""
    tensor_format, shape, cut = kind
    memory = torch.randn(shape, device=device)
    q, k = [*cut(memory)][:2][:: -1 if swapped else 1]
    freqs = angles(S * B, D2, device)
    options = {"cu_seqlens": sequence_starts(tensor_format, S, B, device)}
    want = rope_qk(q.clone(), k.clone(), freqs, tensor_format, **options)
    expected = memory.clone()
    for part, turned in zip([*cut(expected)][:2][:: -1 if swapped else 1], want, strict=True):
        part.copy_(turned)
    rope_qk(q, k, freqs, tensor_format, inplace=True, **options)
    assert torch.equal(memory, expected)


@pytest.mark.parametrize("which", ("angles", "cos", "sin"))
def test_freqs_that_require_a_gradient_are_refused(which, device):
    """The gradient of freqs needs what was overwritten."""
    cos, sin = (
        torch.randn(S, D2, device=device, requires_grad=which == name) for name in ("cos", "sin")
    )
    freqs = angles(S, D2, device).requires_grad_() if which == "angles" else (cos, sin)
    t, k = plain(device), plain(device)
    refused = pytest.raises(ValueError, match=r"^freqs requires a gradient; accepted: .*detach")
    with nothing_touched(t, k):
        for fused in (True, False):
            with refused:
                apply_rotary_pos_emb(t, freqs, "sbhd", inplace=True, fused=fused, rotary_dim=D2)
        with refused:
            rope_qk(t, k, freqs, "sbhd", inplace=True, rotary_dim=D2)


# what is read and written at once

AT = 100  # elements into the memory: where the tensors to rotate begin
ROTATED = S * B * H * D


class OneMemory:
    """Tensors to rotate, and in the same memory what a call reads beside them."""

    def __init__(self, device):
        self.memory = torch.zeros(AT + 2 * ROTATED + 200, device=device)
        _, t, k, _ = self.memory.split((AT, ROTATED, ROTATED, 200))
        self.t, self.k = t.view(S, B, H, D), k.view(S, B, H, D)

    def at(self, first, *shape, dtype=torch.float32):
        """A tensor of another shape from element `first` on."""
        count = torch.Size(shape).numel()
        return self.memory[first : first + 2 * count].view(dtype)[:count].view(shape)


READ = {  # by the name in the message: the options with a tensor of this shape and dtype
    "freqs": (lambda x: {"freqs": x}, (S, 1, 1, D2), torch.float32),
    "freqs[0]": (lambda x: {"freqs": (x, x.clone())}, (S, D2), torch.float32),
    "freqs[1]": (lambda x: {"freqs": (x.clone(), x)}, (S, D2), torch.float32),
    "start_positions": (lambda x: {"start_positions": x}, (B,), torch.int32),
    "position_ids": (lambda x: {"position_ids": x}, (B, S), torch.int64),
    "weight": (lambda x: {"weight": x}, (D,), torch.float32),
}
OVERLAPS = {  # the first element of what is read, from its number of elements
    "the first element": lambda n: AT - n + 1,
    "within": lambda n: AT + 7,
    "the last element": lambda n: AT + ROTATED - 1,
    "just before": lambda n: AT - n,  # which is fine
    "just after": lambda n: AT + ROTATED,
}
TURNS = {apply_rotary_pos_emb: "t", rope_bw: "grad", norm_rope: "t"}
READS = [(x, name) for x in TURNS for name in READ if name != "weight" or x is norm_rope]


@pytest.mark.parametrize("where", OVERLAPS)
@pytest.mark.parametrize("function,name", READS)
def test_what_is_read_must_not_be_overwritten(function, name, where, device):
    """Another program may read it before or after. Parts of one memory side by side are fine."""
    (make, shape, dtype), turned = READ[name], TURNS[function]
    options = {"freqs": angles(S, D2, device), "tensor_format": "sbhd", "inplace": True}
    options["rotary_dim"] = D2
    if function is norm_rope:
        options["weight"] = None
    for fused in (True, True, False):  # the second time by what is remembered
        case = OneMemory(device)
        first = OVERLAPS[where](torch.Size(shape).numel() * dtype.itemsize // 4)
        if dtype == torch.int64 and first % 2:
            first += 1 if first < AT else -1
        options |= {turned: case.t, "fused": fused, **make(case.at(first, *shape, dtype=dtype))}
        if where.startswith("just"):
            assert function(**options) is case.t
            continue
        words = rf"^{re.escape(name)} shares memory with {turned}; accepted: with inplace=True sep"
        with nothing_touched(case.memory), pytest.raises(ValueError, match=words):
            function(**options)


def test_k_must_not_share_memory_with_what_is_read_either(device):
    case = OneMemory(device)
    weights = case.at(AT + ROTATED, 2, D)
    freqs, ids = angles(S, D2, device), case.at(AT + ROTATED + 1, S, 1, 1, D2)
    options = {"tensor_format": "sbhd", "inplace": True}
    for message, call in (
        (r"^freqs shares memory with k; ", lambda: rope_qk(case.t, case.k, ids, **options)),
        (
            r"^k_weight shares memory with k; .* k_weight\.clone\(\)$",
            lambda: qk_norm_rope(case.t, case.k, None, weights[0], freqs, **options),
        ),
        (
            r"^q_weight shares memory with k; ",
            lambda: qk_norm_rope(case.t, case.k, *weights, freqs, **options),
        ),
    ):
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                call()


def test_a_norm_writes_what_does_not_turn_too(device):
    memory, freqs = torch.randn(S, B, H, D + 8, device=device), angles(S, 2, device)
    with nothing_touched(memory):
        with pytest.raises(ValueError, match=r"^k shares memory with q; accepted: .*k\.clone\(\)"):
            q, k = memory[..., :D], memory[..., 8:]
            qk_norm_rope(q, k, None, None, freqs, "sbhd", inplace=True)
        rows = memory.as_strided((S, B, H, D), (B * H * 9, H * 9, 9, 1))  # each shares an element
        with pytest.raises(ValueError, match=r"^t has elements in one place"):
            norm_rope(rows, None, freqs, "sbhd", inplace=True)


def test_packed_sequences_must_not_be_overwritten(device):
    memory = torch.zeros(S * H * D, device=device)
    t, cu_seqlens = memory.view(S, H, D), memory[-2:].view(torch.int32)
    cu_seqlens[1] = S
    with pytest.raises(ValueError, match=r"^cu_seqlens shares memory with t; "):
        rope_fw(t, angles(S, D2, device), "thd", cu_seqlens=cu_seqlens, inplace=True)


def test_a_table_with_gaps_ends_at_its_last_element(device):
    """What is overwritten begins within the last of its bytes."""
    size = 2 * S * D2
    memory = torch.zeros(size + S * B * H * D, device=device)
    freqs, last = memory[:size].view(S, 1, 1, 2 * D2)[..., ::2], size - 2
    for first in (last, last + 1):
        t = memory[first : first + S * B * H * D].view(S, B, H, D)
        if first > last:
            assert rope_fw(t, freqs, inplace=True) is t
            continue
        with pytest.raises(ValueError, match=r"^freqs shares memory with t; "):
            rope_fw(t, freqs, inplace=True)


# what can


def check_allowed(t, device):
    """It is rotated, and nothing else: with its old values back, all of the memory is as it was."""
    value, memory, freqs = t.detach().clone(), bits_of([t]), angles(S, D2, device)
    version = None if t.is_inference() else t._version
    assert apply_rotary_pos_emb(t, freqs, inplace=True) is t
    assert version is None or t._version == version + 1
    assert_rounded_once(t.detach(), rotate_fp64(value, freqs, "sbhd"))
    with torch.no_grad():
        t[..., :D2] = value[..., :D2]
    assert all_equal(bits_of([t]), memory), "written beside the rotary slice"


@pytest.mark.parametrize("make", REFUSED_BY_AUTOGRAD.values(), ids=REFUSED_BY_AUTOGRAD.keys())
def test_what_autograd_forbids_is_fine_under_no_grad(make, device):
    with torch.no_grad():
        check_allowed(make(device), device)


@pytest.mark.parametrize("function", (rope_fw, rope_bw))
def test_the_bare_functions_overwrite_a_leaf(function, device):
    """They are unknown to autograd, so that is the caller's business."""
    t = leaf(device)
    want, freqs = t.detach().clone(), angles(S, D2, device)
    want = function(want, freqs)
    assert function(t, freqs, inplace=True) is t
    assert t.is_leaf and t.requires_grad
    torch.testing.assert_close(t.detach(), want)


@pytest.mark.parametrize("made_in_it", (False, True), ids=("before", "inside"))
def test_under_inference_mode(made_in_it, device):
    with torch.inference_mode(made_in_it):
        t = plain(device)
    with torch.inference_mode():
        check_allowed(t, device)


@each_way
def test_an_inference_tensor_is_refused_outside_inference_mode(fused, device):
    """Autograd would never know that it was overwritten: it has no version."""
    freqs = angles(S, D2, device)
    options = {"tensor_format": "sbhd", "inplace": True, "fused": fused}
    with torch.inference_mode():
        t = torch.randn(S, B, H, D, device=device)
    before = t.clone()
    for message, call in (
        (r"^t is an inference tensor", lambda: rope_fw(t, freqs, **options)),
        (r"^k is an inference tensor", lambda: rope_qk(torch.ones_like(t), t, freqs, **options)),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert torch.equal(t, before)


def test_a_minus_sign_that_is_noted_and_not_stored(device):
    t = negative_view((S, B, H, D), torch.float32, device)
    assert t.is_neg()
    check_allowed(t, device)
    assert t.is_neg()
    k = negative_view((S, B, 1, D), torch.float32, device)
    before, freqs = (t.clone(), k.clone()), angles(S, D2, device)
    rope_qk(t, k, freqs, "sbhd", inplace=True)
    for got, x in zip((t, k), before, strict=True):
        assert_rounded_once(got, rotate_fp64(x, freqs, "sbhd"))


def test_strides_too_intricate_to_judge_are_refused(device):
    """Steps of 10 and 3 keep 3 times 10 elements apart, which sorted strides do not tell."""
    t = torch.randn(8000, device=device).as_strided((3, B, H, D), (10, 1000 * H, 1000, 3))
    with (
        nothing_touched(t),
        pytest.raises(ValueError, match=r"^t has .*; accepted: .*t\.clone\(\)"),
    ):
        apply_rotary_pos_emb(t, angles(S, D2, device), inplace=True)


# what is remembered, and what a tensor knows of its memory


def test_q_and_k_that_share_memory_through_two_storages(device):
    """As numpy's arrays do: each tensor believes that the memory is its own."""
    memory = torch.randn(5, 2, 3, 10)
    numbers = memory.numpy()
    q, k = torch.from_numpy(numbers[:, :, :2]), torch.from_numpy(numbers[:, :, 1:])
    before, freqs = memory.clone(), angles(5, 8, "cpu")
    with pytest.raises(ValueError, match=r"^k shares memory with q"):
        rope_qk(q, k, freqs, "sbhd", inplace=True)
    assert torch.equal(memory, before)


def test_what_is_remembered_of_strides_says_nothing_of_other_places(device):
    """The same shapes and strides, apart, one element into the other, apart again."""
    memory = torch.randn(2 * S * B * H * D + 1, device=device)
    q = memory[: S * B * H * D].view(S, B, H, D)
    freqs = angles(S, D2, device)
    for distance, fits in ((S * B * H * D, True), (1, False), (S * B * H * D, True), (D, False)):
        k = memory[distance : distance + q.numel()].view(S, B, H, D)
        if fits:
            rope_qk(q, k, freqs, "sbhd", inplace=True)
        else:
            with pytest.raises(ValueError, match=r"^k shares memory with q"):
                rope_qk(q, k, freqs, "sbhd", inplace=True)
