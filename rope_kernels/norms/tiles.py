"""Which tile a norm gets. Tiles were measured on one H200: see benchmarks/NOTES.md."""

from ..tiles import MOST_EMPTY, Case, Tile, padded, warps_of


def choose_norm_tile(case: Case) -> Tile:
    """A tile of padded rows: no more than a warp can hold until it knows their sums."""
    # A program that waits for its searches gets more to do.
    tile_bytes = 4096 if case.packed else 2048
    tile = padded(case, tile_bytes, most_empty=MOST_EMPTY, least_rows=2)
    return tile._replace(num_warps=warps_of(case.padded_bytes, tile_bytes))


def choose_norm_backward_tile(case: Case, tile_bytes: int) -> Tile:
    """A tile of a backward, which also holds gradients, and sums of its own."""
    # For 8 heads of q and 1 of k it gains 13 points if fewer places are empty.
    tile = padded(case, tile_bytes, most_empty=MOST_EMPTY / 2)
    return tile._replace(num_warps=warps_of(case.padded_bytes, 2048))
