"""The fused kernel, forward and transposed, against fp64: shapes, strides, dtypes, formats."""

import pytest
import torch

from inputs import FORMATS, LAYOUTS, angles, contiguous, sequence_starts, shape_of
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, rope_bw, rope_fw, rope_qk
from rope_kernels.launch import tiles
from rope_kernels.launch.tuning import ROTATION, Kind
from rope_lab.compiler.plans import plan_of
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def check_both_directions(t, grad, freqs, tensor_format, cu_seqlens=None, interleaved=False):
    options = {"cu_seqlens": cu_seqlens, "interleaved": interleaved}
    out = rope_fw(t, freqs, tensor_format, **options)
    assert out.is_contiguous() and out.dtype == t.dtype and out.shape == t.shape
    assert_rounded_once(out, rotate_fp64(t, freqs, tensor_format, **options))
    grad_t = rope_bw(grad, freqs, tensor_format, **options)
    assert grad_t.is_contiguous() and grad_t.dtype == grad.dtype and grad_t.shape == t.shape
    assert_rounded_once(grad_t, gradient_fp64(t, freqs, tensor_format, grad, **options))


@cover(tensor_format=FORMATS, layout=LAYOUTS, dtype=DTYPES, interleaved=(False, True))
def test_any_strides_of_input_and_gradient(tensor_format, layout, dtype, interleaved, device):
    """Neighbors come in one wide load: of a row whose elements may be anywhere."""
    s, b, h, d = 7, 2, 3, 20
    shape = shape_of(tensor_format, s, b, h, d)
    freqs = angles(s * b, 12, device)
    cu_seqlens = sequence_starts(tensor_format, s, b, device)
    t, grad = layout(shape, dtype, device), layout(shape, dtype, device)
    check_both_directions(t, grad, freqs, tensor_format, cu_seqlens, interleaved)


# beside those of tests/test_ops.py; 13 has an odd tail
HEAD_AND_ROTARY_DIMS = [(2, 2), (16, 2), (13, 8), (96, 72), (112, 112), (160, 160), (192, 128)]
HEAD_AND_ROTARY_DIMS += [(512, 384)]


@cover(dims=HEAD_AND_ROTARY_DIMS, tensor_format=("sbhd", "thd"), interleaved=(False, True))
def test_any_even_rotary_dim(dims, tensor_format, interleaved, device):
    (head_dim, rotary_dim), (s, b, h) = dims, (3, 2, 3)
    shape = shape_of(tensor_format, s, b, h, head_dim)
    t, grad = (contiguous(shape, torch.float32, device) for _ in range(2))
    cu_seqlens = sequence_starts(tensor_format, s, b, device)
    freqs = angles(s * b, rotary_dim, device)
    check_both_directions(t, grad, freqs, tensor_format, cu_seqlens, interleaved)


WHOLE_ROWS = (20, 30, 72, 88, 100, 120)  # in bf16: halves are worse aligned than rows
WHOLE_LAYOUTS = ("contiguous", "packed_qkv", "sliced_with_offset", "head_dim_strided")


def check_whole_rows(t, grad, freqs, tensor_format, cu_seqlens, **options):
    plan, _ = plan_of(rope_fw, t, freqs, tensor_format, cu_seqlens=cu_seqlens, **options)
    assert plan.kernel == tiles.WHOLE_ROWS
    check_new_and_in_place(t, grad, freqs, tensor_format, cu_seqlens=cu_seqlens, **options)


def check_new_and_in_place(t, grad, freqs, tensor_format, **options):
    """Both directions, new and in place: the same bits, and nothing else is touched."""
    wants = (
        (rope_fw, t, rotate_fp64(t, freqs, tensor_format, **options)),
        (rope_bw, grad, gradient_fp64(t, freqs, tensor_format, grad, **options)),
    )
    for function, x, want in wants:
        out = function(x, freqs, tensor_format, **options)
        assert_rounded_once(out, want)
        memory = x._base.clone() if x._base is not None else None
        assert function(x, freqs, tensor_format, inplace=True, **options) is x
        assert torch.equal(x, out)
        if memory is not None:
            x.copy_(memory.as_strided(x.shape, x.stride(), x.storage_offset()))
            assert torch.equal(x._base, memory), "elements of others were written to"


@cover(head_dim=WHOLE_ROWS, tensor_format=FORMATS, layout=WHOLE_LAYOUTS)
def test_whole_rows(head_dim, tensor_format, layout, device):
    s, b, h = 5, 2, 3
    shape = shape_of(tensor_format, s, b, h, head_dim)
    t, grad = (LAYOUTS[layout](shape, torch.bfloat16, device) for _ in range(2))
    cu_seqlens = sequence_starts(tensor_format, s, b, device)
    freqs = angles(s * b, head_dim, device)  # the members of a pair differ
    if head_dim in (20, 72) and cu_seqlens is not None:  # packed, 10 of 16 or 36 of 64 pairs
        check_new_and_in_place(t, grad, freqs, tensor_format, cu_seqlens=cu_seqlens)
    else:
        check_whole_rows(t, grad, freqs, tensor_format, cu_seqlens)


def all_pairs_side_by_side():
    """The table with other rows for pairs: over positions wherever these are neighbors."""
    pairs = [row for row in ROTATION if row.tile.kind is Kind.PAIRS]
    of_a_head = next(row for row in pairs if row.tile.over_positions)
    of_a_position = next(row for row in pairs if not row.tile.over_positions)
    return (
        of_a_head._replace(when=lambda call: call.rows_outer and not call.packed),
        of_a_position._replace(when=lambda call: True),
    )


@cover(
    head_dim=(6, 20, 72, 80, 96, 100),
    tensor_format=FORMATS,
    layout=WHOLE_LAYOUTS,
    freqs_of=("angles", "one per pair", "on the fly"),
)
def test_pairs_side_by_side(
    head_dim, tensor_format, layout, freqs_of, device, monkeypatch, whole_way
):
    s, b, h = 5, 2, 3
    shape = shape_of(tensor_format, s, b, h, head_dim)
    t, grad = (LAYOUTS[layout](shape, torch.bfloat16, device) for _ in range(2))
    options = {"cu_seqlens": sequence_starts(tensor_format, s, b, device)}
    freqs = angles(s * b, head_dim, device)
    if freqs_of == "one per pair":
        freqs, options["rotary_dim"] = freqs[..., : head_dim // 2], head_dim
    elif freqs_of == "on the fly":
        freqs = RotaryPositionEmbedding(head_dim).to(device)
    monkeypatch.setattr(tiles, "ROTATION", all_pairs_side_by_side())
    plan, _ = plan_of(rope_fw, t, freqs, tensor_format, **options)
    tile = plan.constants["tile"]
    assert plan.kernel == "rope_kernel" and tile.side_by_side >= 3
    assert tile.over_positions == (tensor_format == "bhsd")
    check_new_and_in_place(t, grad, freqs, tensor_format, **options)


WHERE = {  # of a batch of 2 sequences with 6 positions, and a table of 20
    "ids": {"position_ids": torch.tensor([[3, 0, 0, 19, 7, 2], [5, 1, 2, 3, 4, 11]])},
    "starts": {"start_positions": torch.tensor([13, 4])},
    "context parallel": {"cp_size": 2, "cp_rank": 1},
    "inverse": {"inverse": True},
}


@cover(head_dim=(20, 96), tensor_format=("sbhd", "bshd", "bhsd"), where=tuple(WHERE))
def test_pairs_of_q_and_k_side_by_side(
    head_dim, tensor_format, where, device, monkeypatch, whole_way
):
    """k has fewer heads than a block has rows."""
    sizes = shape_of(tensor_format, 6, 2, 7, head_dim), shape_of(tensor_format, 6, 2, 1, head_dim)
    q, k = (contiguous(size, torch.float32, device) for size in sizes)
    freqs, options = angles(20, head_dim, device), WHERE[where]
    options = {n: x.to(device) if isinstance(x, torch.Tensor) else x for n, x in options.items()}
    monkeypatch.setattr(tiles, "ROTATION", all_pairs_side_by_side())
    plan, _ = plan_of(rope_qk, q, k, freqs, tensor_format, **options)
    assert plan.kernel == "rope_kernel" and plan.constants["tile"].side_by_side > 1
    outs = rope_qk(q, k, freqs, tensor_format, **options)
    for t, out in zip((q, k), outs, strict=True):
        assert_rounded_once(out, rotate_fp64(t, freqs, tensor_format, **options))


@cover(slice_of=((70, 0), (70, 28), (64, 2), (36, 64), (98, 1)), shift=(1, 2, 4, 8))
def test_whole_rows_with_a_slice_at_an_odd_address(slice_of, shift, device):
    rotary_dim, start = slice_of
    memory = torch.randn(2, 5 * 2 * 3 * 100 + shift, device=device).bfloat16()
    t, grad = (row[shift:].view(5, 2, 3, 100) for row in memory)
    options = {"rotary_dim": rotary_dim, "rotary_start": start, "inverse": shift == 2}
    freqs = angles(5, rotary_dim // (2 if shift > 2 else 1), device)
    check_whole_rows(t, grad, freqs, "sbhd", None, **options)


@cover(
    slice_of=((100, 70, 28), (88, 32, 50), (88, 54, 31), (36, 6, 19)),
    tensor_format=FORMATS,
    dtype=(torch.bfloat16, torch.float32),
    columns={"one per pair": 1, "one per element": 2},
)
def test_a_slice_in_the_middle_of_rows(slice_of, tensor_format, dtype, columns, device):
    """Triton 3.6 and ptxas 12.8 once turned elements of such slices by NaN."""
    head_dim, rotary_dim, start = slice_of
    s, b, h = (16, 2, 18) if device == "cuda" else (5, 2, 3)  # fewer, for the interpreter
    shape = shape_of(tensor_format, s, b, h, head_dim)
    t, grad = (contiguous(shape, dtype, device) for _ in range(2))
    freqs = angles(s * b, rotary_dim // 2 * columns, device)
    options = {"rotary_dim": rotary_dim, "rotary_start": start}
    options["cu_seqlens"] = sequence_starts(tensor_format, s, b, device)
    check_new_and_in_place(t, grad, freqs, tensor_format, **options)


SIZES = [(2, heads, 64) for heads in (12, 17, 41, 73)]
# with few rows a position, a program holds many positions; the last one is part full
SIZES += [(s, 1, 32) for s in (11, 131)]


@cover(sizes=SIZES, tensor_format=FORMATS, interleaved=(False, True))
def test_head_counts_and_lengths_that_no_block_divides(sizes, tensor_format, interleaved, device):
    (s, h, d), b = sizes, 2
    t, grad = (contiguous(shape_of(tensor_format, s, b, h, d), torch.float32, device) for _ in "ab")
    cu_seqlens = sequence_starts(tensor_format, s, b, device)
    freqs = angles(s * b, d, device)
    check_both_directions(t, grad, freqs, tensor_format, cu_seqlens, interleaved)


@pytest.mark.parametrize("tensor_format", ("bhsd", "thd"))
def test_longer_table_and_strided_table(tensor_format, device):
    """s2 > s; a table that is a transposed slice of another; one row expanded with stride 0."""
    s, b, h, d = 6, 2, 3, 16
    t, grad = (contiguous(shape_of(tensor_format, s, b, h, d), torch.float32, device) for _ in "ab")
    cu_seqlens = sequence_starts(tensor_format, s, b, device)
    wide = torch.randn(9, 1, 1, 40, device=device)
    strided = torch.randn(8, 1, 1, 30, device=device).transpose(0, 3)[:, :, :, :8]
    repeated = torch.randn(1, 1, 1, 12, device=device).expand(20, 1, 1, 12)
    for freqs in (wide[..., 3:13], strided, repeated, angles(20, 8, device)):
        check_both_directions(t, grad, freqs, tensor_format, cu_seqlens)


@pytest.mark.parametrize(
    "lengths", ([], [0], [9], [0, 0, 5, 0, 4], [1] * 9, [3, 0, 0, 6, 0]), ids=str
)
def test_packed_sequences_of_every_kind(lengths, device):
    """None, empty, one, empty at both ends, one token each, an empty one last; of any stride."""
    t, grad = (contiguous((9, 2, 8), torch.float32, device) for _ in range(2))
    cu_seqlens = torch.tensor([0, *lengths], device=device).cumsum(0)
    every_other = torch.stack([cu_seqlens, cu_seqlens + 99], -1)[:, 0]
    for starts in (cu_seqlens, every_other):
        check_both_directions(t, grad, angles(9, 8, device), "thd", starts)


@cover(
    stretch=(1, 2, 2**30),
    tensor_format=("sbhd", "bshd", "bhsd"),
    own_angles={"shared angles": False, "own angles": True},
)
def test_every_tile_is_rotated_once_in_every_order(
    stretch, tensor_format, own_angles, device, monkeypatch, whole_way
):
    """In place: a tile left out stays as it was, and one taken twice is turned twice."""
    for name in ("STRETCH_OF_BATCH", "STRETCH_OF_ROWS"):
        monkeypatch.setattr(tiles, name, stretch)
    two_rows = ROTATION[-1].tile._replace(tile_bytes=64)
    monkeypatch.setattr(tiles, "ROTATION", (ROTATION[-1]._replace(tile=two_rows),))
    sizes = {"s": 5, "b": 3, "d": 8}
    q, k = (
        torch.randn([(sizes | {"h": heads})[dim] for dim in tensor_format], device=device)
        for heads in (5, 2)
    )
    freqs = angles(12, 8, device)
    starts = torch.tensor([2, 0, 5], device=device) if own_angles else None
    wants = [rotate_fp64(t, freqs, tensor_format, start_positions=starts) for t in (q, k)]
    rope_qk(q, k, freqs, tensor_format, start_positions=starts, inplace=True)
    for t, want in zip((q, k), wants, strict=True):
        assert_rounded_once(t, want)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("largest", (3.0, 300.0, 1e5, 1e6, 1e8))
def test_the_hardwares_sine_is_lost_in_a_16_bit_rounding(largest, dtype):
    """Ones and zeros turn into cosines and sines."""
    freqs = (2 * torch.rand(4096, 1, 1, 128, device="cuda") - 1) * largest
    freqs[..., 64:] = freqs[..., :64]
    t = torch.zeros(4096, 1, 1, 128, device="cuda", dtype=dtype)
    t[..., :64] = 1
    out = rope_fw(t, freqs).double()
    angle = freqs[..., :64].double()
    want = torch.cat([angle.cos(), angle.sin()], -1)
    half_a_step = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}[dtype] * want.abs()
    error = (out - want).abs() - half_a_step.clamp_min(2.0**-25)
    assert error.max() <= (1e-6 if largest <= 1e6 else 1e-5)


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32), ids=str)
def test_an_angle_that_is_no_number_turns_into_none(dtype, device):
    freqs = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0], device=device)
    freqs = freqs[:, None, None, None].expand(4, 1, 1, 8).contiguous()
    out = rope_fw(torch.ones(4, 1, 1, 8, device=device, dtype=dtype), freqs)
    assert out[:3].isnan().all() and torch.equal(out[3], torch.ones_like(out[3]))


@pytest.mark.parametrize(("head_dim", "rotary_dim"), ((96, 2), (256, 16), (2050, 64)))
def test_long_tails_of_many_rows(head_dim, rotary_dim, device):
    t, grad = (contiguous((1, 1, 32, head_dim), torch.float32, device) for _ in range(2))
    check_both_directions(t, grad, angles(1, rotary_dim, device), "sbhd")


@pytest.mark.parametrize("interleaved", (False, True), ids=("halves", "interleaved"))
def test_offsets_along_the_head_dimension_need_64_bits(interleaved, device):
    """Neighbors in d lie 2^29 elements apart: 7 of those steps pass 2^31."""
    step = 2**29
    memory = torch.empty(7 * step + 4, dtype=torch.float16, device=device)
    t = memory.as_strided((2, 1, 2, 8), (1, 1, 2, step))
    t.copy_(torch.randn(2, 1, 2, 8))
    check_both_directions(t, t, angles(2, 8, device), "sbhd", interleaved=interleaved)
