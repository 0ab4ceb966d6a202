"""The fused kernel, forward and transposed, against fp64: shapes, strides, dtypes, formats."""

import pytest
import torch

from inputs import FORMATS, LAYOUTS, angles, contiguous, sequence_starts, shape_of
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, rope_bw, rope_fw, rope_qk
from rope_kernels.call.rotation import Rotation
from rope_kernels.launch import rope_tiles
from rope_kernels.launch.rope_tiles import plan_tile
from rope_kernels.launch.tile_facts import MAX_WARPS, WARP_BYTES, facts_of
from rope_kernels.launch.tuning import PADDED_ROWS, ROTATION, Kind
from rope_lab.compiler.plans import plan_of
from yardstick import assert_rounded_once, gradient_fp64, rotate_fp64

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


each_pairing = pytest.mark.parametrize("interleaved", (False, True), ids=("halves", "interleaved"))


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


HEAD_AND_ROTARY_DIMS = [(2, 2), (16, 2), (30, 30), (30, 10), (64, 64), (80, 80), (80, 20)]
HEAD_AND_ROTARY_DIMS += [(92, 46), (96, 96), (96, 72), (100, 50), (112, 112), (120, 120)]
HEAD_AND_ROTARY_DIMS += [(128, 64), (160, 160), (192, 128), (256, 256), (512, 384)]


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
    assert plan.kernel == rope_tiles.WHOLE_ROWS
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
    monkeypatch.setattr(rope_tiles, "ROTATION", all_pairs_side_by_side())
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
    monkeypatch.setattr(rope_tiles, "ROTATION", all_pairs_side_by_side())
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


@each_pairing
def test_odd_head_dim_passes_its_odd_tail(interleaved, device):
    t, grad = (contiguous((5, 2, 3, 13), torch.float32, device) for _ in range(2))
    check_both_directions(t, grad, angles(5, 8, device), "sbhd", interleaved=interleaved)


SIZES = [(2, heads, 64) for heads in (1, 12, 17, 20, 24, 40, 41, 73)]
# with few rows a position, a program holds many positions; the last one is part full
SIZES += [(s, 1, 32) for s in (1, 2, 7, 11, 131, 217)]


@cover(sizes=SIZES, tensor_format=FORMATS, interleaved=(False, True))
def test_head_counts_and_lengths_that_no_block_divides(sizes, tensor_format, interleaved, device):
    (s, h, d), b = sizes, 2
    t, grad = (contiguous(shape_of(tensor_format, s, b, h, d), torch.float32, device) for _ in "ab")
    cu_seqlens = sequence_starts(tensor_format, s, b, device)
    freqs = angles(s * b, d, device)
    check_both_directions(t, grad, freqs, tensor_format, cu_seqlens, interleaved)


@pytest.mark.parametrize("tensor_format", FORMATS)
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


@pytest.mark.parametrize("dtype", (torch.int32, torch.int64), ids=str)
def test_cu_seqlens_dtypes_mean_the_same(dtype, device):
    t, grad = (contiguous((14, 3, 16), torch.float32, device) for _ in range(2))
    cu_seqlens = sequence_starts("thd", 7, 2, device, dtype)
    check_both_directions(t, grad, angles(14, 16, device), "thd", cu_seqlens)


@pytest.mark.parametrize(
    "lengths", ([], [0], [9], [0, 0, 5, 0, 4], [1] * 9, [3, 0, 0, 6, 0]), ids=str
)
def test_packed_sequences_of_every_kind(lengths, device):
    """None, empty, one, empty at both ends, one token each, an empty one last."""
    t, grad = (contiguous((9, 2, 8), torch.float32, device) for _ in range(2))
    cu_seqlens = torch.tensor([0, *lengths], device=device).cumsum(0)
    check_both_directions(t, grad, angles(9, 8, device), "thd", cu_seqlens)


def test_a_strided_cu_seqlens_is_read_with_its_stride(device):
    t, grad = (contiguous((9, 2, 8), torch.float32, device) for _ in range(2))
    cu_seqlens = torch.tensor([0, 99, 4, 99, 9, 99], device=device)[::2]
    check_both_directions(t, grad, angles(9, 8, device), "thd", cu_seqlens)


def test_padding_comes_out_bit_for_bit_even_if_not_finite(device):
    t = contiguous((6, 2, 8), torch.float32, device)
    t[4], t[5] = float("inf"), float("nan")
    cu_seqlens = torch.tensor([0, 4], device=device)
    out = rope_fw(t, angles(6, 8, device), "thd", cu_seqlens=cu_seqlens)
    torch.testing.assert_close(out[4:], t[4:], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape", ((0, 2, 3, 8), (4, 0, 3, 8), (4, 2, 0, 8)), ids=str)
def test_empty_tensors(shape, device):
    t = torch.empty(shape, device=device)
    assert rope_fw(t, angles(4, 8, device)).shape == shape
    assert rope_bw(t, angles(4, 8, device)).shape == shape


def test_the_input_is_left_alone(device):
    t, freqs = contiguous((5, 2, 3, 16), torch.float32, device), angles(5, 8, device)
    before = t.clone()
    for interleaved in (False, True):
        rope_fw(t, freqs, interleaved=interleaved)
        rope_bw(t, freqs, interleaved=interleaved)
    assert torch.equal(t, before)


@each_pairing
def test_backward_undoes_forward_where_members_of_a_pair_are_alike(interleaved, device):
    t, half = contiguous((5, 2, 3, 16), torch.float64, device), angles(5, 4, device)
    freqs = half.repeat_interleave(2, -1) if interleaved else half.repeat(1, 1, 1, 2)
    forth = rope_fw(t, freqs, interleaved=interleaved)
    torch.testing.assert_close(rope_bw(forth, freqs, interleaved=interleaved), t)


def test_interleaved_is_half_split_in_another_order(device):
    """Even elements first, then odd ones; bit for bit."""
    t, freqs = contiguous((5, 2, 3, 13), torch.float32, device), angles(5, 8, device)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7, *range(8, 13)], device=device)
    out = rope_fw(t, freqs, interleaved=True)
    assert torch.equal(out[..., order], rope_fw(t[..., order], freqs[..., order[:8]]))
    assert not torch.equal(out, rope_fw(t, freqs))


def work_of(half, tail, rows, element_bytes, tile_bytes, rows_outer=False, inplace=False):
    """The work of a call by a table of angles; one that looks up positions has larger tiles."""
    ids = torch.zeros(1, 5, dtype=torch.int64) if tile_bytes == 4096 else None
    rotation = Rotation(torch.empty(5, 1, 1, 2 * half, device="meta"), position_ids=ids)
    more = {"rows_outer": rows_outer, "inplace": inplace}
    return plan_tile(rotation, 2 * half + tail, rows, element_bytes, **more)


@cover(
    triples=[("half", "tail", "element_bytes")],
    half=(1, 6, 64, 128, 4096),
    tail=(0, 1, 5, 64, 254, 2048),
    rows=(1, 3, 64, 4096),
    element_bytes=(2, 4, 8),
    tile_bytes=(2048, 4096),
)
def test_a_tile_covers_its_rows_and_fits_its_warps(half, tail, rows, element_bytes, tile_bytes):
    """A tail that the tile's size forgets costs spilled registers, and minutes of compilation."""
    work = work_of(half, tail, rows, element_bytes, tile_bytes)
    head, tile, width = work.head, work.tile, 2 * half + tail
    powers = tile.positions, tile.rows, head.columns, head.tail_columns
    assert all(size & (size - 1) == 0 for size in powers)
    assert (head.half, head.tail, head.start) == (half, tail, 0)
    assert work.rows < 2 * max(rows, tile.side_by_side)
    if work.kernel == rope_tiles.WHOLE_ROWS:
        assert width * tile.side_by_side <= head.columns
        return
    assert half <= head.columns < 2 * half
    assert tail <= head.tail_columns <= 2 * tail
    assert (work.positions, work.rows) == (tile.positions, tile.rows)
    tile_rows, row_bytes = work.positions * work.rows, width * element_bytes
    if tile_rows > 1:
        assert tile_rows * row_bytes <= 4096
        assert work.num_warps == 1
    else:
        assert work.num_warps >= min(MAX_WARPS, row_bytes // 4096)


@cover(
    width=(6, 20, 30, 44, 72, 80, 88, 100, 112, 120, 264, 2044),
    element_bytes=(2, 4),
    rows=(3, 8, 32, 64, 4096),
    rows_outer={"sbhd": False, "bhsd": True},
    inplace={"new": False, "in place": True},
)
def test_rows_side_by_side_fill_their_blocks(width, element_bytes, rows, rows_outer, inplace):
    """A fixed number of bytes per thread, and no more than half of a block left empty."""
    work = work_of(width // 2, 0, rows, element_bytes, 2048, rows_outer, inplace)
    if work.kernel != rope_tiles.WHOLE_ROWS:  # halves as well aligned as rows
        return
    tile, block, side = work.tile, work.head.columns, work.tile.side_by_side
    assert block / 2 < side * width <= block
    size = tile.positions * tile.rows * block * element_bytes
    assert size == block * element_bytes or size <= 8192
    assert work.num_warps == max(1, size // 2048) or work.num_warps == MAX_WARPS
    assert work.positions == (side if tile.over_positions else tile.positions)
    assert work.rows == tile.rows * (1 if tile.over_positions else side)
    if rows_outer:  # neighbors in memory
        assert tile.over_positions
        if inplace:
            assert block * element_bytes >= 1024


@pytest.mark.parametrize(
    ("rows", "over_positions"),
    (
        ((64, 0), False),
        ((32, 0), True),  # 36 places, and 11 blocks
        ((36, 0), False),
        ((33, 1), True),
        ((36, 1), False),
        ((24, 12), False),
        ((8, 0), True),  # 3 blocks
    ),
)
def test_rows_that_fit_badly_give_way_to_positions(rows, over_positions):
    """Head dimension 72: three rows of 144 bytes in 512."""
    rotation = Rotation(torch.empty(5, 1, 1, 72, device="meta"))
    more = {"rows_outer": False, "inplace": False}
    work = plan_tile(rotation, 72, rows[0], 2, k_rows=rows[1], **more)
    call = facts_of(rotation, 72, rows, 2, **more)
    assert work.tile.over_positions == over_positions == call.rows_fit_badly
    packed = Rotation(rotation.table, cu_seqlens=torch.tensor([0, 5]))
    assert not plan_tile(packed, 72, rows[0], 2, k_rows=rows[1], **more).tile.over_positions


@pytest.mark.parametrize(
    ("rows", "most", "blocks"),
    (
        ((64, 0), 8, 8),  # 3 tiles of 24 rows: 8 places left empty; with 4 blocks, 6 of 12: as many
        ((32, 0), 8, 4),  # 2 of 24 leave 16 empty, 3 of 12 leave 4
        ((32, 8), 8, 4),  # and k's 8 rows take 12 places instead of 24
        ((3, 0), 8, 1),
        ((6, 0), 8, 2),
        ((4096, 0), 1, 1),
    ),
)
def test_tiles_of_three_rows_side_by_side_leave_few_places_empty(rows, most, blocks):
    assert rope_tiles.blocks_over_rows(rows, 3, most) == blocks


@cover(
    d=(6, 40, 72, 80, 96, 160, 192, 1042),
    element_bytes=(2, 4, 8),
    rows=(3, 8, 32, 64, 4096),
    rows_outer={"sbhd": False, "bhsd": True},
)
def test_pairs_side_by_side_fill_their_blocks(d, element_bytes, rows, rows_outer, monkeypatch):
    monkeypatch.setattr(rope_tiles, "ROTATION", all_pairs_side_by_side())
    work = work_of(d // 2, 0, rows, element_bytes, 2048, rows_outer)
    tile, columns, side = work.tile, work.head.columns, work.tile.side_by_side
    assert columns / 2 < side * d // 2 <= columns
    size = 2 * tile.positions * tile.rows * columns * element_bytes
    assert size <= 4096 or tile.positions * tile.rows == 1
    assert work.positions == (side if rows_outer else tile.positions)
    assert work.rows == tile.rows * (1 if rows_outer else side)
    assert tile.over_positions == rows_outer and (tile.positions == 1 or not rows_outer)


@pytest.mark.parametrize("cu_seqlens", (None, torch.tensor([0, 5])), ids=("dense", "packed"))
@pytest.mark.parametrize("rows_outer", (False, True), ids=("sbhd", "bhsd"))
@pytest.mark.parametrize("element_bytes", (2, 4, 8))
def test_no_warp_gets_more_than_its_share_of_pairs_side_by_side(
    element_bytes, rows_outer, cu_seqlens
):
    """More would spill: 18 KB a thread in fp64 at 576."""
    side_by_side = 0
    for d in range(2, 4100, 2):
        rotation = Rotation(torch.empty(5, 1, 1, d, device="meta"), cu_seqlens=cu_seqlens)
        work = plan_tile(rotation, d, 64, element_bytes, rows_outer=rows_outer, inplace=False)
        tile = work.tile
        if work.kernel == "rope_kernel" and tile.side_by_side > 1:
            side_by_side += 1
            assert (cu_seqlens is None or not rows_outer) and d * element_bytes <= 4096
            size = 2 * tile.positions * tile.rows * work.head.columns * element_bytes
            assert size <= WARP_BYTES * work.num_warps
    assert side_by_side > 0 or (cu_seqlens is not None and rows_outer)


@pytest.mark.parametrize("element_bytes", (2, 4, 8))
@pytest.mark.parametrize("d", (64, 72, 80, 88, 96, 100, 112, 120, 128))
def test_a_tile_that_is_a_third_empty_is_larger(d, element_bytes, monkeypatch):
    """Rows are padded to a power of two; so many registers hold nothing."""
    monkeypatch.setattr(rope_tiles, "ROTATION", PADDED_ROWS)
    tile = work_of(d // 2, 0, 4096, element_bytes, 2048).tile
    padded = 64 if d == 64 else 128
    rows = tile.positions * tile.rows
    assert rows * padded * element_bytes == (4096 if d in (72, 80) else 2048)


@pytest.mark.parametrize("positions", (1, 2, 3, 16, 1000))
def test_a_tile_has_room_for_as_many_positions_as_asked_for(positions, monkeypatch):
    """Rows of 256 bytes: eight fit, of eight positions at most."""
    one = work_of(64, 0, 64, 2, 2048).tile
    monkeypatch.setattr(rope_tiles, "positions_per_load", lambda rotation: positions)
    tile = work_of(64, 0, 64, 2, 2048).tile
    assert tile.positions >= min(positions, 8)
    assert tile.positions * tile.rows == 8 and one.rows == 8


@pytest.mark.parametrize(("d", "positions"), ((128, 1), (64, 1), (72, 2), (80, 2), (96, 2)))
def test_neighbors_that_share_a_cache_line_are_in_one_tile(d, positions, monkeypatch):
    """In bhsd the next position is the neighbor in memory, and lines have 128 bytes."""
    monkeypatch.setattr(rope_tiles, "ROTATION", PADDED_ROWS)
    one, other = (work_of(d // 2, 0, 64, 2, 2048, rows_outer=outer) for outer in (False, True))
    assert (one.positions, other.positions) == (1, positions)


def test_a_row_of_cosines_is_read_8_bytes_a_thread():
    """At 4 bytes a thread, cosines in bf16 cost 12 points of the copy's speed."""
    t, table = (torch.ones(8, 2, 32, 128, dtype=torch.bfloat16), torch.ones(8, 128))
    tables = [(cos, cos) for cos in (table.bfloat16(), table, table[:, :64].bfloat16())]
    plans = [plan_of(rope_fw, t, freqs)[0] for freqs in (*tables, table[:, None, None, :])]
    assert [plan.constants["tile"].positions for plan in plans] == [2, 1, 4, 1]


@cover(
    stretch=(1, 2, 4, 2**30),
    tensor_format=("sbhd", "bshd", "bhsd"),
    own_angles={"shared angles": False, "own angles": True},
)
def test_every_tile_is_rotated_once_in_every_order(
    stretch, tensor_format, own_angles, device, monkeypatch, whole_way
):
    """In place: a tile left out stays as it was, and one taken twice is turned twice."""
    for name in ("STRETCH_OF_BATCH", "STRETCH_OF_ROWS"):
        monkeypatch.setattr(rope_tiles, name, stretch)
    two_rows = ROTATION[-1].tile._replace(tile_bytes=64)
    monkeypatch.setattr(rope_tiles, "ROTATION", (ROTATION[-1]._replace(tile=two_rows),))
    sizes = {"s": 7, "b": 3, "d": 8}
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


def order_of(t, tensor_format):
    """Of a tensor that turns by a table for all."""
    rotation = Rotation(torch.empty(2, 1, 1, 8), tensor_format=tensor_format)
    return rope_tiles.order_of_programs(t, rotation)


def test_programs_take_tiles_in_the_order_of_memory():
    """sbhd: position after position; bshd: entry after entry; bhsd: head after head."""
    orders = {name: order_of(torch.empty(2, 3, 4, 8), name) for name in ("sbhd", "bshd", "bhsd")}
    assert orders == {
        "sbhd": (False, False, 1),  # per batch, rows outer, stretch
        "bshd": (True, False, rope_tiles.STRETCH_OF_BATCH),
        "bhsd": (True, True, rope_tiles.STRETCH_OF_ROWS),
    }
    assert order_of(torch.empty(6, 4, 8), "thd") == orders["sbhd"]
    transposed = torch.empty(3, 2, 4, 8).transpose(0, 1)  # sbhd over bshd memory
    assert order_of(transposed, "sbhd") == orders["bshd"]


@pytest.mark.parametrize("shape", ((1, 3, 4, 8), (2, 1, 4, 8), (2, 3, 1, 8)), ids=str)
@pytest.mark.parametrize("tensor_format", ("sbhd", "bshd", "bhsd"))
def test_a_dimension_of_one_index_changes_no_order(tensor_format, shape):
    """Or the first token of a length of 1 would compile another kernel."""
    many = order_of(torch.empty(2, 3, 4, 8), tensor_format)
    assert order_of(torch.empty(shape), tensor_format) == many


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


@cover(head_dim=(96, 256, 2050), rotary_dim=(2, 4, 16, 64))
def test_long_tails_of_many_rows(head_dim, rotary_dim, device):
    t, grad = (contiguous((1, 1, 32, head_dim), torch.float32, device) for _ in range(2))
    check_both_directions(t, grad, angles(1, rotary_dim, device), "sbhd")


@pytest.mark.gpu
def test_more_than_2_to_the_31_elements():
    """Offsets past 2^31 need 64 bits; the last positions of a large tensor show a wrapped one."""
    s, b, h, d = 8448, 16, 64, 256
    assert s * b * h * d > 2**31
    freqs = angles(s, d, "cuda")
    t = torch.empty(s, b, h, d, device="cuda", dtype=torch.bfloat16).normal_()
    out, grad_t = rope_fw(t, freqs), rope_bw(t, freqs)
    for part in (slice(0, 8), slice(s - 8, s)):
        want = rotate_fp64(t[part], freqs[part], "sbhd")
        assert_rounded_once(out[part], want)
        want = gradient_fp64(t[part], freqs[part], "sbhd", t[part])
        assert_rounded_once(grad_t[part], want)


@each_pairing
def test_offsets_along_the_head_dimension_need_64_bits(interleaved, device):
    """Neighbors in d lie 2^29 elements apart: 7 of those steps pass 2^31."""
    step = 2**29
    memory = torch.empty(7 * step + 4, dtype=torch.float16, device=device)
    t = memory.as_strided((2, 1, 2, 8), (1, 1, 2, step))
    t.copy_(torch.randn(2, 1, 2, 8))
    check_both_directions(t, t, angles(2, 8, device), "sbhd", interleaved=interleaved)


@pytest.mark.gpu
@pytest.mark.skipif("torch.cuda.device_count() < 2", reason="needs two GPUs")
def test_launches_on_the_device_of_its_tensors():
    assert torch.cuda.current_device() == 0
    t, freqs = torch.randn(5, 2, 3, 16, device="cuda:1"), angles(5, 8, "cuda:1")
    out = rope_fw(t, freqs)
    assert out.device == t.device and torch.cuda.current_device() == 0
    assert_rounded_once(out, rotate_fp64(t, freqs, "sbhd"))
