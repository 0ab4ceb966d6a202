"""The axes of a module: what is accepted, what survives, and the tables at given positions."""

import numpy as np
import pytest
import torch
from torch import nn

from rope_kernels import RotaryPositionEmbedding, grid_positions, mrope_axes, rope_fw, rope_qk
from yardstick import assert_rounded_once, rotate_fp64

AXES = (0, 2, 1, 1)


def rotate(rope):
    torch.manual_seed(1)
    t = torch.randn(2, 3, 2, 8)
    ids = torch.randint(0, 50, (3, 2, 3))
    return rope_fw(t, rope, "bshd", position_ids=ids)


WANT = rotate(RotaryPositionEmbedding(8, axes=AXES))


# mrope_axes


@pytest.mark.parametrize(
    "sections, interleaved, want",
    [
        ([2, 1, 3], False, [0, 0, 1, 2, 2, 2]),
        ((0, 2), False, [1, 1]),
        ([3, 2, 2], True, [0, 1, 2, 0, 1, 2, 0]),
        ([24, 20, 20], True, [0, 1, 2] * 20 + [0] * 4),
        ([11, 11, 10], True, [0, 1, 2] * 10 + [0, 1]),
    ],
)
def test_the_axes_of_sections(sections, interleaved, want):
    assert mrope_axes(sections, interleaved) == want


@pytest.mark.parametrize(
    "sections, options, message",
    [
        ([16, 24.0, 24], {}, r"sections is \[16, 24.0, 24\]; accepted: a list of integers from 0"),
        ([16, True], {}, r"sections is \[16, True\]"),
        ([16, -1], {}, r"sections is \[16, -1\]"),
        ([], {}, r"sections is \[\]"),
        ([0, 0], {}, r"sections is \[0, 0\]"),
        ([16, 24, 24], {"interleaved": True}, "interleaved=True; accepted: a first section"),
        ([20, 24, 20], {"interleaved": True}, "interleaved=True; accepted: a first section"),
    ],
)
def test_sections_that_are_none(sections, options, message):
    with pytest.raises(ValueError, match=message):
        mrope_axes(sections, **options)


def test_arguments_of_other_types():
    with pytest.raises(TypeError, match="sections is of type int"):
        mrope_axes(64)
    with pytest.raises(TypeError, match="interleaved is 1; accepted: False, True"):
        mrope_axes([2, 2], interleaved=1)


# grid_positions


def test_a_grid_in_row_major_order():
    grid = grid_positions(2, 2, 3)
    assert grid.dtype == torch.int64
    want = [(t, y, x) for t in range(2) for y in range(2) for x in range(3)]
    assert [tuple(row) for row in grid.T.tolist()] == want


def test_a_grid_in_squares():
    grid = grid_positions(1, 4, 4, merge_size=2)
    assert grid[1].tolist() == [0, 0, 1, 1] * 2 + [2, 2, 3, 3] * 2
    assert grid[2].tolist() == [0, 1, 0, 1, 2, 3, 2, 3] * 2


@pytest.mark.parametrize(
    "sizes, options, message",
    [
        ((0, 2, 2), {}, "t is 0; accepted: an integer from 1"),
        ((1, 2.0, 2), {}, r"h is 2\.0"),
        ((1, 2, True), {}, "w is True"),
        ((1, 2, 2), {"merge_size": 0}, "merge_size is 0"),
        ((1, 4, 6), {"merge_size": 4}, "merge_size is 4 with h = 4 and w = 6; accepted: a divisor"),
    ],
)
def test_a_grid_that_is_none(sizes, options, message):
    with pytest.raises(ValueError, match=message):
        grid_positions(*sizes, **options)


# the argument


@pytest.mark.parametrize(
    "axes, error, message",
    [
        ([0, 1, 2], ValueError, "axes has 3 entries; accepted: .* d2 / 2 = 4 integers from 0"),
        ([0, 1, 2, -1], ValueError, r"axes\[3\] is -1"),
        ([0, 1, 16, 0], ValueError, r"axes\[2\] is 16"),
        ([0, 1, 2.0, 0], ValueError, r"axes\[2\] is 2\.0"),
        ([0, 1, True, 0], ValueError, r"axes\[2\] is True"),
        (torch.zeros(2, 2).int(), ValueError, r"axes has shape \(2, 2\)"),
        (torch.zeros(4), ValueError, r"axes\[0\] is 0\.0"),
        (torch.tensor(3), ValueError, r"axes has shape \(\)"),
        (3, TypeError, "axes is of type int"),
        ("0121", TypeError, "axes is of type str"),
    ],
)
def test_axes_that_are_none(axes, error, message):
    with pytest.raises(error, match=message):
        RotaryPositionEmbedding(8, axes=axes)
    rope = RotaryPositionEmbedding(8, axes=AXES)
    with pytest.raises(error, match=message):
        rope.axes = axes
    assert rope.axes == AXES and rope.num_axes == 3


@pytest.mark.parametrize(
    "given",
    (
        list,
        tuple,
        torch.tensor,
        lambda x: torch.tensor(x).byte(),
        np.array,
        lambda x: list(np.array(x, np.uint8)),
    ),
)
def test_axes_of_any_kind(given):
    rope = RotaryPositionEmbedding(8, axes=given(AXES))
    assert rope.axes == AXES and rope.num_axes == 3
    assert rope.axis_of_pair.tolist() == list(AXES) and torch.equal(rotate(rope), WANT)
    assert "axes=[0, 2, 1, 1]" in repr(rope)


def test_assigned_axes():
    rope = RotaryPositionEmbedding(8)
    assert rope.axes is rope.num_axes is rope.axis_of_pair is None and "axes" not in repr(rope)
    rope.axes = AXES
    assert torch.equal(rotate(rope), WANT)
    rope.axes = None
    assert rope.axes is rope.num_axes is rope.axis_of_pair is None


def test_assigned_axes_have_the_same_memory(device):
    """A captured CUDA graph knows its address, and has positions on so many axes."""
    rope = RotaryPositionEmbedding(8, axes=AXES).to(device)
    address = rope.axis_of_pair.data_ptr()
    for axes in ((2, 2, 1, 0), AXES, (1, 0, 0, 1)):
        rope.axes = axes
        assert rope.axis_of_pair.data_ptr() == address and rope.axis_of_pair.tolist() == [*axes]
    held = rope.axis_of_pair
    rope.axes = AXES
    assert rope.axis_of_pair.data_ptr() != address and held.tolist() == [1, 0, 0, 1]


@pytest.mark.usefixtures("needs_triton")
def test_a_backward_raises_once_its_axes_are_overwritten(device):
    rope = RotaryPositionEmbedding(8, axes=AXES).to(device)
    t = torch.randn(2, 1, 1, 8, device=device, requires_grad=True)
    out = rope_qk(t, t, rope, position_ids=torch.ones(3, 1, 2, dtype=torch.int64, device=device))[0]
    rope.axes = AXES[::-1]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_axes_in_shared_memory_are_not_overwritten():
    rope = RotaryPositionEmbedding(8, axes=AXES).share_memory()
    of_another_process = rope.axis_of_pair.detach()
    rope.axes = AXES[::-1]
    assert of_another_process.tolist() == [*AXES] and rope.axis_of_pair.tolist() == [*AXES[::-1]]


class OnAGpu(torch.Tensor):
    is_cuda = True


def test_axes_are_not_assigned_within_a_capture(monkeypatch):
    rope = RotaryPositionEmbedding(8, axes=AXES)
    rope._buffers["inv_freq"] = rope.inv_freq.as_subclass(OnAGpu)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    for axes in (AXES[::-1], None):
        with pytest.raises(RuntimeError, match="axes was assigned while a CUDA graph is captured"):
            rope.axes = axes
    assert rope.axes == AXES and rope.axis_of_pair.tolist() == [*AXES]


# where a module goes; test_frequencies.py has more


def test_to_empty_writes_axes_again(monkeypatch):
    """New memory may hold what the old one held, so here it doesn't."""
    rope = RotaryPositionEmbedding(8, axes=AXES)
    empty_like = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda *x, **y: empty_like(*x, **y).fill_(7))
    rope.to_empty(device="cpu")
    assert rope.axis_of_pair.tolist() == list(AXES)


def test_frequencies_on_another_device_take_the_axes_along():
    rope = RotaryPositionEmbedding(8, axes=AXES)
    rope.inv_freq = rope.inv_freq.to("meta")
    assert rope.axis_of_pair.is_meta
    rope.inv_freq = torch.ones(4)
    assert rope.axis_of_pair.tolist() == list(AXES)


@pytest.mark.gpu
def test_axes_move_to_the_gpu():
    rope = RotaryPositionEmbedding(8, axes=AXES).cuda()
    assert rope.axis_of_pair.is_cuda and rope.axis_of_pair.tolist() == list(AXES)


# tables at given positions


def cos_sin_fp64(rope, ids):
    """By the definition, of positions (axes, b, s), or (b, s) or (s,) for one axis."""
    of_pairs = ids[..., None].double()
    if ids.dim() == 3:
        of_pairs = torch.stack([ids[axis] for axis in rope.axes], -1).double()
    angle = of_pairs * rope.inv_freq.double()
    return angle.cos(), angle.sin()


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float64), ids=str)
@pytest.mark.parametrize(
    "ids",
    (
        torch.arange(-3, 4),
        torch.randint(0, 10**9, (2, 5)).int(),
        torch.randint(-(10**6), 10**6, (3, 2, 5)),
        torch.rand(3, 1, 5) * 2 - 1,
        torch.rand(2, 5, dtype=torch.float64),
    ),
    ids=lambda ids: f"{str(ids.dtype)[6:]} {ids.dim()}",
)
def test_tables_at_positions(ids, dtype):
    rope = RotaryPositionEmbedding(8, axes=AXES, attention_factor=1.5)
    for got, want in zip(rope.cos_sin_at(ids, dtype), cos_sin_fp64(rope, ids), strict=True):
        assert got.dtype == dtype and got.shape == (*ids.shape[-2:], 4)
        eps = max(torch.finfo(dtype).eps, 1e-7 if ids.abs().max() > 100 else 0)
        torch.testing.assert_close(got.double(), 1.5 * want, rtol=eps, atol=2 * eps)


def test_tables_of_counted_positions_are_those_per_pair():
    rope = RotaryPositionEmbedding(8, axes=AXES, attention_factor=1.5)
    ids = torch.arange(7, 12)
    want = rope.cos_sin_per_pair(5, offset=7)
    for given in (ids, ids.expand(3, 1, 5)):
        for got, table in zip(rope.cos_sin_at(given), want, strict=True):
            assert torch.equal(got.reshape(table.shape), table)


def test_a_table_of_each_entry_rotates(device):
    """As a call with the same positions, but for cos and sin that were rounded."""
    rope = RotaryPositionEmbedding(8, axes=AXES).to(device)
    ids = torch.randint(0, 10**6, (3, 2, 5), device=device)
    q, k = (torch.randn(2, 5, heads, 10, device=device) for heads in (3, 1))
    outs = rope_qk(q, k, rope.cos_sin_at(ids), "bshd")
    for t, out in zip((q, k), outs, strict=True):
        assert_rounded_once(out, rotate_fp64(t, rope, "bshd", position_ids=ids))


def test_float_positions_have_gradients(device):
    """They flow through the table, to positions and to frequencies that are trained."""
    rope = RotaryPositionEmbedding(8, axes=[0, 1, 1, 0]).double().to(device)
    rope.inv_freq = nn.Parameter(rope.inv_freq.double())
    ids = torch.rand(2, 1, 3, dtype=torch.float64, device=device, requires_grad=True)
    t = torch.randn(2, 3, 2, 8, dtype=torch.float64, device=device)

    def rotated(ids):
        return rope_qk(t, t, rope.cos_sin_at(ids, torch.float64), "bshd")[0]

    assert torch.autograd.gradcheck(rotated, ids)
    rotated(ids).sum().backward()
    assert rope.inv_freq.grad.abs().min() > 0
    cos, _ = rope.cos_sin_at(ids.long() + 1)
    assert torch.autograd.grad(cos.sum(), rope.inv_freq)[0].abs().min() > 0


@pytest.mark.parametrize(
    "axes, ids, error, message",
    [
        (AXES, [1, 2], TypeError, "position_ids is of type list; accepted: torch.Tensor"),
        (
            AXES,
            torch.ones(3).bfloat16(),
            TypeError,
            "position_ids has dtype bfloat16; accepted: int",
        ),
        (AXES, torch.ones(3).bool(), TypeError, "position_ids has dtype bool"),
        (AXES, torch.ones(2, 1, 3), ValueError, r"\(2, 1, 3\); accepted: .* or \(3, b, s\)"),
        (None, torch.ones(3, 1, 3), ValueError, r"\(3, 1, 3\); accepted: \(s,\) or \(b, s\)$"),
        (AXES, torch.tensor(3), ValueError, r"position_ids has shape \(\)"),
        (AXES, torch.ones(3, device="meta"), ValueError, "position_ids is on meta; it must be on"),
    ],
)
def test_positions_that_are_none(axes, ids, error, message):
    with pytest.raises(error, match=message):
        RotaryPositionEmbedding(8, axes=axes).cos_sin_at(ids)


def test_interpolation_by_the_number_of_positions_is_an_error():
    rope = RotaryPositionEmbedding(
        8, seq_len_interpolation_factor=2.0, pretrained_max_position_embeddings=4
    )
    with pytest.raises(ValueError, match="interpolates by the number of positions"):
        rope.cos_sin_at(torch.arange(3))
