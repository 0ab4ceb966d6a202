"""The tile of a rotation: it covers its rows and fits its warps; and the order of programs."""

from itertools import product

import pytest
import torch

from pairwise import cover
from rope_kernels import rope_fw
from rope_kernels.call.rotation import Rotation
from rope_kernels.launch import tiles
from rope_kernels.launch.tile_facts import MAX_WARPS, WARP_BYTES, facts_of
from rope_lab.compiler.plans import plan_of

HALVES = (1, 3, 10, 15, 22, 30, 36, 40, 44, 48, 50, 60, 64, 80, 96, 128, 132, 288, 1022, 4096)
WHERE = {
    "a table": {},
    "ids": {"position_ids": torch.zeros(1, 5, dtype=torch.int64)},
    "packed": {"cu_seqlens": torch.tensor([0, 5])},
}


def rotation_of(half, where="a table", **more):
    return Rotation(torch.empty(5, 1, 1, 2 * half, device="meta"), **WHERE[where], **more)


def tile_of(rotation, *facts, **more):
    return tiles.rope_tile(rotation, facts_of(rotation, *facts, **more))


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("element_bytes", (2, 4, 8))
def test_a_tile_covers_its_rows_and_fits_its_warps(element_bytes, where):
    """What a tile forgets costs spilled registers: 18 KB a thread in fp64 at 576."""
    kinds = set()
    for half in HALVES:
        rotation = rotation_of(half, where)
        for tail, rows in product((0, 1, 5, 64, 254, 2048), (1, 3, 8, 32, 4096)):
            for outer, inplace in product((False, True), repeat=2):
                more = {"rows_outer": outer, "inplace": inplace}
                work = tile_of(rotation, 2 * half + tail, (rows, 0), element_bytes, **more)
                given = half, 0 if inplace else tail, rows, element_bytes
                kinds.add(kind := check_tile(work, *given))
                over = work.tile.over_positions
                assert not (where == "packed" and over)
                if kind == "whole rows" and outer and where != "packed":
                    assert over  # neighbors in memory
    assert kinds == {"whole rows", "pairs side by side", "padded rows"}


def check_tile(work, half, tail, rows, element_bytes):
    """Check the tile; return its kind."""
    head, tile, width = work.head, work.tile, 2 * half + tail
    side, columns, blocks = tile.side_by_side, head.columns, tile.positions * tile.rows
    powers = tile.positions, tile.rows, columns, head.tail_columns
    assert all(size & (size - 1) == 0 for size in powers)
    assert (head.half, head.tail, head.start) == (half, tail, 0)
    assert work.positions == tile.positions * (side if tile.over_positions else 1)
    assert work.rows == tile.rows * (1 if tile.over_positions else side)
    assert work.rows < 2 * max(rows, side)
    if work.kernel == tiles.WHOLE_ROWS:
        assert columns / 2 < side * width <= columns  # at most half of a block is empty
        size = blocks * columns * element_bytes
        assert blocks == 1 or size <= 8192
        assert size <= 2 * WARP_BYTES * work.num_warps or work.num_warps == MAX_WARPS
        return "whole rows"
    if side > 1:
        assert columns / 2 < side * half <= columns and tail == 0
        size = 2 * blocks * columns * element_bytes
        assert (blocks == 1 or size <= 4096) and size <= WARP_BYTES * work.num_warps
        assert tile.positions == 1 or not tile.over_positions
        return "pairs side by side"
    assert half <= columns < 2 * half and tail <= head.tail_columns <= 2 * tail
    if blocks > 1:
        assert blocks * width * element_bytes <= 4096 and work.num_warps == 1
    else:
        assert work.num_warps >= min(MAX_WARPS, width * element_bytes // 4096)
    return "padded rows"


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
    more = {"rows_outer": False, "inplace": False}
    work = tile_of(rotation_of(36), 72, rows, 2, **more)
    assert work.tile.over_positions == over_positions
    assert facts_of(rotation_of(36), 72, rows, 2, **more).rows_fit_badly == over_positions


@pytest.mark.parametrize(
    ("rows", "most", "blocks"),
    (
        ((64, 0), 8, 8),  # 3 tiles of 24 rows: 8 places left empty; with 4 blocks, 6 of 12: as many
        ((32, 0), 8, 4),  # 2 of 24 leave 16 empty, 3 of 12 leave 4
        ((32, 8), 8, 4),  # and k's 8 rows take 12 places instead of 24
        ((24, 8), 8, 4),  # though 8 blocks have just the 24 rows of q
        ((3, 0), 8, 1),
        ((6, 0), 8, 2),
        ((4096, 0), 1, 1),
    ),
)
def test_tiles_of_three_rows_side_by_side_leave_few_places_empty(rows, most, blocks):
    assert tiles.blocks_over_rows(rows, 3, most) == blocks


@cover(d=(64, 72, 80, 88, 96, 128), element_bytes=(2, 4), rows_outer=(False, True))
def test_a_tile_of_padded_rows(d, element_bytes, rows_outer):
    """One that is a third empty is larger: so many registers hold nothing.

    In bhsd the next position is the neighbor in memory. Where two share a line of 128 bytes, a tile
    has both.
    """
    more = {"rows_outer": rows_outer, "inplace": False}
    rotation = rotation_of(d // 2, interleaved=True)
    tile = tile_of(rotation, d, (4096, 0), element_bytes, **more).tile
    row_bytes = (64 if d == 64 else 128) * element_bytes
    assert tile.positions == (2 if rows_outer and d * element_bytes % 128 else 1)
    assert tile.positions * tile.rows * row_bytes == (4096 if d in (72, 80) else 2048)


def test_a_row_of_cosines_is_read_8_bytes_a_thread():
    """At 4 bytes a thread, cosines in bf16 cost 12 points of the copy's speed."""
    t, table = (torch.ones(8, 2, 32, 128, dtype=torch.bfloat16), torch.ones(8, 128))
    tables = [(cos, cos) for cos in (table.bfloat16(), table, table[:, :64].bfloat16())]
    plans = [plan_of(rope_fw, t, freqs)[0] for freqs in (*tables, table[:, None, None, :])]
    assert [plan.constants["tile"].positions for plan in plans] == [2, 1, 4, 1]


def order_of(t, tensor_format):
    """Of a tensor that turns by a table for all."""
    rotation = Rotation(torch.empty(2, 1, 1, 8), tensor_format=tensor_format)
    return tiles.order_of_programs(t, rotation)


def test_programs_take_tiles_in_the_order_of_memory():
    """sbhd: position after position; bshd: entry after entry; bhsd: head after head."""
    orders = {
        "sbhd": (False, False, 1),  # per batch, rows outer, stretch
        "bshd": (True, False, tiles.STRETCH_OF_BATCH),
        "bhsd": (True, True, tiles.STRETCH_OF_ROWS),
    }
    for tensor_format, order in orders.items():
        # a dimension of one index changes no order, or the first token compiles another kernel
        for shape in ((2, 3, 4, 8), (1, 3, 4, 8), (2, 1, 4, 8), (2, 3, 1, 8)):
            assert order_of(torch.empty(shape), tensor_format) == order
    assert order_of(torch.empty(6, 4, 8), "thd") == orders["sbhd"]
    transposed = torch.empty(3, 2, 4, 8).transpose(0, 1)  # sbhd over bshd memory
    assert order_of(transposed, "sbhd") == orders["bshd"]
