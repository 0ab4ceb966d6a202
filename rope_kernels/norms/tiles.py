"""Which tile a norm gets: whole rows, measured as those of `rope_kernels.tiles`."""

from ..tiles import MOST_EMPTY, Case, Tile, padded, warps_of


def choose_norm_tile(case: Case) -> Tile:
    """A tile of whole rows: no more than a warp can hold until it knows their sums."""
    if case.rows_outer:  # positions are neighbors in memory
        tile = padded(case, min(4096, 16 * case.padded_bytes))
        positions = max(tile.positions, min(4, tile.positions * tile.rows))
        rows = max(1, tile.positions * tile.rows // positions)
        return tile._replace(positions=positions, rows=rows)
    # A program that waits for its searches gets more to do.
    tile_bytes = 4096 if case.packed else 2048
    tile = padded(case, tile_bytes, most_empty=MOST_EMPTY, least_rows=2)
    return tile._replace(num_warps=warps_of(case.padded_bytes, tile_bytes))


def choose_norm_backward_tile(case: Case, tile_bytes: int) -> Tile:
    """The same for a backward, which also holds gradients, and sums of its own."""
    # With 8 heads and 1 the lower bound on empty places gains 13 points.
    tile = padded(case, tile_bytes, most_empty=MOST_EMPTY / 2)
    return tile._replace(num_warps=warps_of(case.padded_bytes, 2048))
