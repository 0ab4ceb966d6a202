"""Which tile a norm gets: whole rows, measured as those of `rope_kernels.tiles`."""

from ..tiles import MOST_EMPTY, Case, Tile, padded, warps_of


def choose_norm_tile(case: Case) -> Tile:
    """A tile of whole rows: no more than a warp can hold until it knows their sums."""
    if case.rows_outer:  # positions are neighbors in memory
        tile = padded(case, min(4096, 16 * case.padded_bytes))
        positions = max(tile.POSITIONS, min(4, tile.POSITIONS * tile.ROWS))
        rows = max(1, tile.POSITIONS * tile.ROWS // positions)
        return tile._replace(POSITIONS=positions, ROWS=rows)
    tile_bytes = 4096 if case.packed else 2048  # a program waits for its searches
    tile = padded(case, tile_bytes, most_empty=MOST_EMPTY, least_rows=2)
    return tile._replace(num_warps=warps_of(case.padded_bytes, tile_bytes))


def choose_norm_backward_tile(case: Case, tile_bytes: int) -> Tile:
    """The same for a backward, which also holds gradients, and sums of its own."""
    tile = padded(case, tile_bytes, most_empty=MOST_EMPTY / 2)  # 8 heads and 1 gain 13 points
    # Triton 3.6 does not compile a norm after a rotation of one pair in one column
    return tile._replace(COLUMNS=max(2, tile.COLUMNS), num_warps=warps_of(case.padded_bytes, 2048))
