"""Notebook 11: units of four calls, and rows normalized and rotated."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..spec import STRIDED, spec
from .definitions import A_ROW_OF_ZEROS, rope

ROWS_OF_A_TILE = 8  # of the stub


def _normal(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def _mean_of_half(x, weight, freqs):
    mean = 2 * x.square().mean(-1, keepdim=True)
    return rope.function(x * (mean + 1e-6).rsqrt() * weight, freqs)


def _sum_of_squares(x, weight, freqs):
    return rope.function(x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() * weight, freqs)


def _over_rows(products, rows_of_a_tile):
    """A sum over the wrong axis: for each pair of columns, over the rows of a tile."""
    tiles = products.flatten(1, 2).unflatten(-1, (2, -1)).sum(2).split(rows_of_a_tile, 1)
    sums = torch.cat([tile.sum(1, keepdim=True).expand_as(tile) for tile in tiles], 1)
    return torch.cat((sums, sums), -1).view_as(products)


def _sum_over_rows(x, weight, freqs):
    mean = _over_rows(x.square(), ROWS_OF_A_TILE) / x.shape[-1]
    return rope.function(x * (mean + 1e-6).rsqrt() * weight, freqs)


def _sum_over_tile(x, weight, freqs):
    mean = _over_rows(x.square(), ROWS_OF_A_TILE).mean(-1, keepdim=True) / 2
    return rope.function(x * (mean + 1e-6).rsqrt() * weight, freqs)


def _not_normalized(x, weight, freqs):
    return rope.function(x * weight, freqs)


def _rotated_alone(x, weight, freqs):
    return rope.function(x, freqs)


def _rounded_like_the_model(x, weight, freqs):
    """In half precision: after each product, and once more at the end."""
    row = (_normal(x).half().double() * weight).half().double()
    return rope.function(row, freqs)


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    extra=A_ROW_OF_ZEROS,
    mistakes={
        "the wrong divisor: half as many elements as a row has": _mean_of_half,
        "the sum of squares is not divided by d": _sum_of_squares,
        "the wrong axis: the squares are added up over the rows of a tile, not over the elements "
        "of a row": _sum_over_rows,
        "the wrong axis: the squares of all rows of a tile are added up; name an axis": (
            _sum_over_tile
        ),
        "the row is not normalized": _not_normalized,
        "unchanged: the stub's lines rotate, and normalize nothing": _rotated_alone,
        "rounding: too often, like the model, which rounds before it rotates; round once, at the "
        "end": _rounded_like_the_model,
    },
)
def rope_of_normalized_rows(x: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d)"):
    """Each row over the root of its mean square, times a weight a column; then `rope`."""
    return rope.function(_normal(x) * weight, freqs)


UNITS = {
    "right": [13, 7, 3, 2],
    "unit": "units",
    "hint": "each kernel: what it reads, and what it writes",
    "mistakes": {
        "the forward is counted once, but it runs twice": [9, 5, None, None],
        "RoPE's forward is counted once, but it runs twice, too": [11, None, None, None],
        "the backward's units are missing": [8, 4, None, None],
        "the backward is counted twice, but only the forward runs again": [18, 10, None, None],
        "the extra write is missing": [None, None, 2, None],
        "the extra tensor is read, too, but the forward only writes it": [None, None, 4, None],
        "the half that does not turn is left out, but the norm reads and writes it": [
            *(None, None, None, 1)
        ],
        "elements that do not turn are only read, but they are normalized and written, too": [
            *(None, None, None, 1.5)
        ],
    },
}
