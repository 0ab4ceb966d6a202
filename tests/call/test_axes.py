"""Positions with several axes: every format, tile, dtype and way to call against fp64.

Where positions are the same on all axes, the bits are those of a module with one axis.
"""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from inputs import FORMATS, contiguous, sequence_starts, shape_of, transposed
from pairwise import each_pair
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    mrope_axes,
    rope_bw,
    rope_fw,
    rope_qk,
)
from rope_kernels.launch import launch
from rope_lab.compiler.plans import plan_of
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
S, B, H, D = 5, 2, 3, 20
AXES = [0, 0, 2, 1, 1, 2, 0, 2]  # of d2 = 16
FAR = 10**9

each_format = pytest.mark.parametrize("tensor_format", FORMATS)
each_pairing = pytest.mark.parametrize("interleaved", (False, True), ids=("halves", "interleaved"))


def module(device, axes=AXES, **options):
    return RotaryPositionEmbedding(2 * len(axes), axes=axes, **options).to(device)


def one_axis(rope):
    """The same module without axes."""
    return RotaryPositionEmbedding(rope.rotary_dim, interleaved=rope.interleaved).to(
        rope.inv_freq.device
    )


def ids_of(tensor_format, device, axes=3, s=S, b=B, most=FAR):
    """Negative positions too, and those that fp32 cannot hold."""
    tokens = (s * b,) if tensor_format == "thd" else (b, s)
    return torch.randint(-most, most, (axes, *tokens), device=device)


def check(t, rope, tensor_format, **options):
    """Forward and backward, by the kernel and in plain PyTorch, against fp64."""
    grad = transposed(t.shape, t.dtype, t.device)
    options = {"interleaved": rope.interleaved} | options
    want = rotate_fp64(t, rope, tensor_format, **options)
    want_grad = gradient_fp64(t, rope, tensor_format, grad, **options)
    for rounding in ({}, {"fused": False, "rounding": "once"}):
        leaf = t.detach().requires_grad_()
        out = apply_rotary_pos_emb(leaf, rope, tensor_format, **rounding, **options)
        (grad_t,) = torch.autograd.grad(out, leaf, grad)
        assert_rounded_once(out.detach(), want)
        assert_rounded_once(grad_t, want_grad)


@each_pair
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@each_pairing
@each_format
def test_each_pair_turns_by_the_position_on_its_axis(tensor_format, interleaved, dtype, device):
    t = contiguous(shape_of(tensor_format, S, B, H, D), dtype, device)
    cu_seqlens = sequence_starts(tensor_format, S, B, device)
    most = 20 if dtype == torch.float64 else FAR  # the answer's own angles are products in fp64
    ids, rope = ids_of(tensor_format, device, most=most), module(device, interleaved=interleaved)
    check(t, rope, tensor_format, position_ids=ids, cu_seqlens=cu_seqlens)


TILES = {  # format, heads, d, axes -> kernel, and what its tile has
    "several positions": ("sbhd", 1, 16, "rope_kernel", lambda tile: tile.positions > 1),
    "one position": ("sbhd", 16, 64, "rope_kernel", lambda tile: tile.positions == 1),
    "pairs over positions": ("bhsd", 3, 96, "rope_kernel", lambda tile: tile.over_positions),
    "pairs side by side": ("bshd", 3, 160, "rope_kernel", lambda tile: tile.side_by_side > 1),
    "whole rows": ("bshd", 40, 72, "whole_rows_kernel", lambda tile: not tile.over_positions),
    "whole rows over positions": (
        *("bhsd", 4, 72, "whole_rows_kernel"),
        lambda tile: tile.over_positions,
    ),
}


@pytest.mark.parametrize("name", TILES)
def test_every_tile_has_a_position_for_each_pair(name, device, needs_triton):
    tensor_format, heads, d, kernel, is_such = TILES[name]
    rope = module(device, [(7 * i // 3) % 3 for i in range(d // 2)])
    t = contiguous(shape_of(tensor_format, 5, 1, heads, d), torch.bfloat16, device)
    ids = ids_of(tensor_format, device, b=1)
    plan, _ = plan_of(rope_fw, t, rope, tensor_format, position_ids=ids)
    assert plan.kernel == kernel and is_such(plan.constants["tile"]), plan
    want = rotate_fp64(t, rope, tensor_format, position_ids=ids)
    assert_rounded_once(rope_fw(t, rope, tensor_format, position_ids=ids), want)
    want = gradient_fp64(t, rope, tensor_format, t, position_ids=ids)
    assert_rounded_once(rope_bw(t, rope, tensor_format, position_ids=ids, inplace=True), want)


def of_one_entry(ids):
    return ids[:, :1]


def as_last_dimension(ids):
    """As in a model that keeps (b, s, axes)."""
    return ids.movedim(0, -1).contiguous().movedim(-1, 0)


def every_second(ids):
    return ids.repeat_interleave(2, -1)[..., ::2]


def small(dtype):
    return lambda ids: ids.clamp(-100, 100).abs().to(dtype)


@pytest.mark.parametrize(
    "given",
    (of_one_entry, as_last_dimension, every_second, small(torch.uint8)),
    ids=("(axes, 1, s)", "(b, s, axes)", "strided", "uint8"),
)
def test_ids_of_any_strides_and_integers(given, device):
    q, k = (contiguous((B, S, heads, D), torch.float32, device) for heads in (H, 1))
    rope, ids = module(device), given(ids_of("bshd", device))
    outs = rope_qk(q, k, rope, "bshd", position_ids=ids)
    for t, out in zip((q, k), outs, strict=True):
        assert_rounded_once(out, rotate_fp64(t, rope, "bshd", position_ids=ids))


# the same positions on all axes


def is_same_as_one_axis(rope, tensor_format, of_axes, of_one, dtype=torch.bfloat16):
    shapes = [shape_of(tensor_format, 3, B, heads, D) for heads in (H, 1)]
    q, k = (contiguous(shape, dtype, rope.inv_freq.device) for shape in shapes)
    grads = [torch.randn_like(x) for x in (q, k)]
    found = []
    for freqs, options in ((rope, of_axes), (one_axis(rope), of_one)):
        leaves = [x.detach().requires_grad_() for x in (q, k)]
        outs = rope_qk(*leaves, freqs, tensor_format, interleaved=rope.interleaved, **options)
        found.append([*outs, *torch.autograd.grad(outs, leaves, grads)])
    return all(torch.equal(x, y) for x, y in zip(*found, strict=True))


@pytest.mark.parametrize(
    "tensor_format,interleaved", (("sbhd", False), ("bhsd", True), ("thd", False))
)
def test_equal_positions_have_the_bits_of_one_axis(tensor_format, interleaved, device):
    rope = module(device, interleaved=interleaved)
    ids, where = ids_of(tensor_format, device, s=3)[0], {}
    if tensor_format == "thd":
        where["cu_seqlens"] = sequence_starts("thd", 3, B, device)
    of_one = where | {"position_ids": ids}
    expanded = where | {"position_ids": ids.expand(3, *ids.shape)}  # stride 0, and no copy
    assert is_same_as_one_axis(rope, tensor_format, expanded, of_one)
    assert is_same_as_one_axis(rope, tensor_format, of_one, of_one)  # for all axes


def test_positions_without_an_axis_are_those_of_all_axes(device, needs_triton):
    """They cost nothing more: the kernel of one axis runs."""
    rope, starts = module(device), torch.tensor([3, 9], device=device)
    cases = {
        "sbhd": ({}, {"start_positions": starts}, {"start_positions": 7}, {"cp_size": 2}),
        "thd": ({"cu_seqlens": sequence_starts("thd", S, B, device)},),
    }
    for tensor_format, all_options in cases.items():
        for options in all_options:
            options = options | ({"cp_rank": 1} if "cp_size" in options else {})
            t = contiguous(shape_of(tensor_format, 4, B, H, D), torch.float32, device)
            plans = [
                plan_of(rope_fw, t, freqs, tensor_format, **options)[0]
                for freqs in (rope, one_axis(rope))
            ]
            assert plans[0] == plans[1]
            outs = [rope_fw(t, freqs, tensor_format, **options) for freqs in (rope, one_axis(rope))]
            assert torch.equal(*outs)
    assert torch.equal(rope(9), one_axis(rope)(9))


@pytest.mark.parametrize("axes", ([0] * 8, [5, 0, 3, 1, 2, 4, 4, 5]), ids=str)
def test_other_numbers_of_axes(axes, device):
    t, rope = contiguous((S, B, H, D), torch.float32, device), module(device, axes)
    assert rope.num_axes == max(axes) + 1
    check(t, rope, "sbhd", position_ids=ids_of("sbhd", device, max(axes) + 1))


# derivatives


@pytest.mark.parametrize("inverse", (False, True))
def test_with_a_start_an_inverse_and_half_split_results(inverse, device):
    """And an attention factor."""
    t = contiguous((B, S, H, D), torch.float32, device)
    rope = module(device, interleaved=True, attention_factor=1.25)
    options = {"rotary_start": 3, "inverse": inverse, "output_pairing": "half"}
    check(t, rope, "bshd", position_ids=ids_of("bshd", device), **options)


# torch.compile and the fast path


@pytest.mark.parametrize("tensor_format", ("bhsd", "thd"))
def test_compiled_with_the_same_bits(tensor_format, device):
    torch._dynamo.reset()
    rope, cu_seqlens = module(device), sequence_starts(tensor_format, S, B, device)
    ids = ids_of(tensor_format, device)
    q = contiguous(shape_of(tensor_format, S, B, H, D), torch.float32, device).requires_grad_()
    k = contiguous(shape_of(tensor_format, S, B, 1, D), torch.float32, device).requires_grad_()
    grads = [torch.randn_like(x) for x in (q, k)]

    def step(q, k, ids):
        return rope_qk(q, k, rope, tensor_format, position_ids=ids, cu_seqlens=cu_seqlens)

    counter, found = CompileCounterWithBackend("aot_eager"), []
    for run in (step, torch.compile(step, backend=counter, fullgraph=True)):
        outs = run(q, k, ids)
        found.append([*outs, *torch.autograd.grad(outs, (q, k), grads)])
    assert counter.frame_count == 1
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))
    torch._dynamo.reset()


def test_a_call_with_other_axes_is_not_taken_for_one_seen_before(device):
    """All have one shape of t; twice, so that the second time is the fast path's."""
    t, rope, ids = torch.randn(B, S, H, D, device=device), module(device), ids_of("bshd", device)
    for _ in range(2):
        for freqs, given in (
            (rope, ids),
            (module(device, AXES[::-1]), ids),
            (rope, ids[0]),
            (one_axis(rope), ids[0]),
            (module(device, [0, 1] * 4), ids[:2]),
        ):
            out = rope_fw(t, freqs, "bshd", position_ids=given)
            assert_rounded_once(out, rotate_fp64(t, freqs, "bshd", position_ids=given))


def test_a_remembered_call_checks_positions_too(device):
    """The same signature but for the module: its number of axes decides which shapes fit."""
    t, ids = contiguous((B, S, H, D), torch.float32, device), ids_of("bshd", device)
    for _ in range(2):
        rope_fw(t, module(device), "bshd", position_ids=ids)
    for rope in (module(device, [0, 1] * 4), one_axis(module(device))):
        with pytest.raises(ValueError, match="position_ids has shape"):
            rope_fw(t, rope, "bshd", position_ids=ids)


# errors, before anything is launched


@pytest.fixture
def nothing_runs(monkeypatch):
    def run(plan, tensors):
        raise AssertionError("a kernel was launched")

    monkeypatch.setattr(launch, "run", run)


WRONG = {
    "axes": (AXES, "bshd", (2, B, S), r"\(2, 2, 5\); accepted with freqs of 3 axes: \(2, 5\) or"),
    "more axes": (AXES, "bshd", (4, B, S), r"accepted with freqs of 3 axes: .* or \(3, 1, 5\)"),
    "batch": (AXES, "bshd", (3, 3, S), r"or \(3, 2, 5\) or \(3, 1, 5\)"),
    "packed": (AXES, "thd", (3, B, S), r"accepted with freqs of 3 axes: \(10,\) or \(3, 10\)"),
    "one axis": (None, "bshd", (3, B, S), r"accepted with freqs of one axis: \(2, 5\) or \(1, 5\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_shapes_are_errors(name, device, nothing_runs):
    axes, tensor_format, shape, message = WRONG[name]
    rope = RotaryPositionEmbedding(16, axes=axes).to(device)
    t = contiguous(shape_of(tensor_format, S, B, H, D), torch.float32, device)
    ids = torch.zeros(shape, dtype=torch.int64, device=device)
    with pytest.raises(ValueError, match=f"position_ids has shape .*{message}"):
        rope_fw(t, rope, tensor_format, position_ids=ids)


def test_a_table_has_one_axis(device, nothing_runs):
    t, rope = contiguous((B, S, H, D), torch.float32, device), module(device)
    ids = ids_of("bshd", device)
    for table in (rope(9), rope.cos_sin_per_pair(9)):
        with pytest.raises(ValueError, match=r"accepted with a table: \(2, 5\) or \(1, 5\)"):
            rope_fw(t, table, "bshd", position_ids=ids)


def test_float_positions_name_the_table(device, nothing_runs):
    t, ids = contiguous((B, S, H, D), torch.float32, device), torch.rand(3, B, S, device=device)
    with pytest.raises(
        TypeError, match=r"dtype float32; accepted.*freqs\.cos_sin_at\(position_ids\)"
    ):
        rope_fw(t, module(device), "bshd", position_ids=ids)
    with pytest.raises(TypeError, match=r"uint8$"):
        rope_fw(t, module(device)(9), "bshd", position_ids=ids[0])


def test_qwen2_vl_in_one_launch(device, whole_way, monkeypatch, needs_triton):
    launches = []
    run = launch.run

    def note(plan, tensors):
        launches.append(tensors)
        return run(plan, tensors)

    monkeypatch.setattr(launch, "run", note)
    rope = RotaryPositionEmbedding(128, axes=mrope_axes([16, 24, 24])).to(device)
    q, k = (contiguous((1, 7, heads, 128), torch.bfloat16, device) for heads in (28, 4))
    ids = torch.randint(0, 40, (1, 1, 7), device=device).expand(3, 1, 7)
    rope_qk(q, k, rope, "bshd", position_ids=ids)
    assert len(launches) == 1
    assert launches[0].ids is ids and launches[0].axes is rope.axis_of_pair  # nothing is copied
