"""`inplace=True` for views and slices: what autograd knows of them, and neighbors in one memory.

`test_ops.py` has what is written with every option, and `test_ops_memory.py` what is refused of all
functions.
"""

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

from inputs import angles, contiguous, sequence_starts
from ops import all_equal, bits_of
from rope_kernels import apply_rotary_pos_emb, rope_fw, rope_qk
from yardstick import assert_near, rotate_fp64

S, B, H, D, D2 = 5, 2, 3, 10, 6

# views with a gradient

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


@pytest.mark.parametrize("kind", SLICES.values(), ids=SLICES)
def test_gradient_of_the_base_of_one_slice(kind, device):
    """The rest of the base has a gradient too, by which a forgotten rotation shows."""
    tensor_format, shape, cut = kind
    leaf = contiguous(shape, torch.float64, device).requires_grad_()
    weight, freqs = contiguous(shape, torch.float64, device), angles(S * B, D2, device)
    options = {"cu_seqlens": sequence_starts(tensor_format, S, B, device)}
    base, want = leaf * 1, leaf * 1
    part = cut(base)
    assert apply_rotary_pos_emb(part, freqs, tensor_format, inplace=True, **options) is part
    cut(want).copy_(rotate_fp64(cut(leaf), freqs, tensor_format, **options))
    assert_near(base.detach(), want.detach())
    found, wanted = (torch.autograd.grad((weight * x).sum(), leaf)[0] for x in (base, want))
    assert_near(found, wanted)


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
# PyTorch knows no way to rebase two outputs; the function of one tensor takes such a view
OF_TWO = {"a slice": lambda device: with_gradient(device, S, B, H + 1, D)[:, :, 1:]}


@pytest.mark.parametrize("fused", (True, False), ids=("fused", "unfused"))
@pytest.mark.parametrize("kind", REFUSED_BY_AUTOGRAD | OF_TWO)
def test_what_autograd_forbids_is_refused_but_under_no_grad(kind, fused, device):
    x, other = (REFUSED_BY_AUTOGRAD | OF_TWO)[kind](device), with_gradient(device)
    value, freqs = x.detach().clone(), angles(S, D2, device)
    options = {"tensor_format": "sbhd", "inplace": True, "fused": fused}
    calls = {
        "t": lambda: apply_rotary_pos_emb(x, freqs, **options),
        "q": lambda: rope_qk(x, other, freqs, **options),
        "k": lambda: rope_qk(other, x, freqs, **options),
    }
    if kind in OF_TWO:
        del calls["t"]
    before, versions = bits_of((x, other)), (x._version, other._version)
    for name, call in calls.items():
        advice = rf"^{name} is .*; accepted: .*{name}\.clone\(\)"
        with pytest.raises(ValueError, match=advice):
            call()
    assert all_equal(bits_of((x, other)), before) and versions == (x._version, other._version)
    with torch.no_grad():
        assert apply_rotary_pos_emb(x, freqs, **options) is x
        assert torch.equal(x, apply_rotary_pos_emb(value, freqs, fused=fused))


# q and k in one memory


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
@pytest.mark.parametrize("kind", PACKED.values(), ids=PACKED)
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


def test_q_and_k_that_share_memory_through_two_storages():
    """As numpy's arrays do: each tensor believes that the memory is its own."""
    memory = torch.randn(5, 2, 3, 10)
    numbers = memory.numpy()
    q, k = torch.from_numpy(numbers[:, :, :2]), torch.from_numpy(numbers[:, :, 1:])
    before, freqs = memory.clone(), angles(5, 8, "cpu")
    with pytest.raises(ValueError, match=r"^k shares memory with q"):
        rope_qk(q, k, freqs, "sbhd", inplace=True)
    assert torch.equal(memory, before)


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
