"""Notebook 11: units of four calls, normalized and rotated, and five wrong backwards."""
# ruff: noqa: F821 (the letters of shapes)

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ..check import compare
from ..spec import STRIDED, spec
from .definitions import A_ROW_OF_ZEROS, rope, rope_gradient, which_of

PROGRAMS, ROWS_OF_A_TILE = 2, {"forward": 8, "backward": 4}  # of the stubs


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
    mean = _over_rows(x.square(), ROWS_OF_A_TILE["forward"]) / x.shape[-1]
    return rope.function(x * (mean + 1e-6).rsqrt() * weight, freqs)


def _sum_over_tile(x, weight, freqs):
    mean = _over_rows(x.square(), ROWS_OF_A_TILE["forward"]).mean(-1, keepdim=True) / 2
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


def _norm_gradient(
    grad,
    x,
    weight,
    freqs,
    turned="back",
    mean=1.0,
    divided=True,
    across=False,
    weighted=True,
    scaled=True,
    summed="normal",
    tiles="all",
):
    """Gradients of x and of the weight; the defaults are right."""
    s, b, h, d = x.shape
    r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    dn = {
        "back": rope_gradient.function,
        "forth": rope.function,
        "not": lambda grad, freqs: grad,
    }[turned](grad, freqs)
    dxhat = dn * weight if weighted else dn
    along, rows_of_a_tile = dxhat * x * r, ROWS_OF_A_TILE["backward"]
    along = _over_rows(along, rows_of_a_tile) if across else along.sum(-1, keepdim=True)
    along = along / (d if divided else 1)
    dx = dxhat - mean * x * r * along
    products = {
        "normal": x * r * dn,
        "input": x * dn,
        "weighted": x * r * dn * weight,
        "not turned": x * r * grad,
    }[summed]
    blocks = -(-b * h // rows_of_a_tile)
    tile = torch.arange(s)[:, None] * blocks + torch.arange(b * h) // rows_of_a_tile
    kept = {
        "all": tile >= 0,
        "none": tile < 0,
        "last": tile >= s * blocks - PROGRAMS,
        "of program 0": tile % PROGRAMS == 0,
        "of the last program": tile % PROGRAMS == PROGRAMS - 1,
    }[tiles]
    products = products.reshape(s, b * h, d) * kept[..., None].to(x.device)
    return dx * r if scaled else dx, products.sum((0, 1))


def _forward_alone(grad, x, weight, freqs):
    return rope.function(grad * weight, freqs), torch.zeros_like(weight)


@spec(
    leave_out=(*STRIDED, "one gradient for all"),
    launches=2,
    kernel=True,
    extra=A_ROW_OF_ZEROS,
    mistakes={
        words: partial(_norm_gradient, **wrong)
        for words, wrong in {
            "dw has the weight in it: it takes dn before the weight": {"summed": "weighted"},
            "dw takes x, not x times r": {"summed": "input"},
            "dw takes the gradient before it is rotated back": {"summed": "not turned"},
            "dw of one tile only: each program keeps its last tile and forgets its sum": {
                "tiles": "last"
            },
            "dw is 0: nothing is added to sum1 and sum2": {"tiles": "none"},
            "dw of one program only": {"tiles": "of program 0"},
            "dw of the last program only": {"tiles": "of the last program"},
            "a sign: the gradient is rotated by the angle, not back": {"turned": "forth"},
            "the gradient is not rotated back": {"turned": "not"},
            "the mean term is missing: dx has a part along x": {"mean": 0.0},
            "the sign of the mean term: it is subtracted": {"mean": -1.0},
            "the mean term is a sum: it is not divided by d": {"divided": False},
            "the wrong axis: the mean term adds up over the rows of a tile, not over the elements "
            "of a row": {"across": True},
            "the weight is forgotten: dx takes w times dn": {"weighted": False},
            "a factor r is missing in dx": {"scaled": False},
        }.items()
    }
    | {  # last, because a dw of 0 alone is another mistake
        "unchanged: the stub's line treats the gradient as the forward treats x": _forward_alone,
    },
)
def rope_of_normalized_gradient(
    grad: "(s, b, h, d)", x: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d)"
):
    """Gradients of x and of the weight of `rope_of_normalized_rows`."""
    return _norm_gradient(grad, x, weight, freqs)


# exercise 1: units of four calls
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

# exercise 3: which mistake a backward has
_BACKWARDS = dict(zip("ABCDE", ("weight", "one tile", "sign", "mean", "eps"), strict=True))
_SIGNS = {  # how each mistake shows
    "sign": "right at position 0, where every sine is 0, and wrong elsewhere",
    "eps": "only a row of zeros is wrong: its 0/0 is NaN",
    "weight": "right as soon as all weights are 1",
    "mean": "dx has a part along x, whatever the input",
    "one tile": "dw is wrong, unless there is only one tile",
}
WRONG_BACKWARDS = which_of(
    {mistake: f"that mistake shows like this: {sign}" for mistake, sign in _SIGNS.items()},
    right=list(_BACKWARDS.values()),
    hint="in which of the six tests each mistake does not show",
)
_ROWS_OF_A_TILE = 4
_TOLERANCE = 1e-4, 1e-4  # epsilon alone does not show


def backward(
    dy: Tensor, x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, mistake: str = ""
) -> tuple[Tensor, Tensor]:
    """Gradients of x and of the weight for (rows, d), or with a mistake of `_SIGNS`."""
    eps = 0.0 if mistake == "eps" else 1e-6
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    first, second = dy.chunk(2, -1)
    sin = -sin if mistake == "sign" else sin
    dn = torch.cat((first * cos + second * sin, second * cos - first * sin), -1)
    normal = x * r
    dxhat = dn if mistake == "weight" else dn * weight
    along = normal * (dxhat * normal).mean(-1, keepdim=True)
    dx = r * (dxhat if mistake == "mean" else dxhat - along)
    products = normal * dn
    return dx, (products[-_ROWS_OF_A_TILE:] if mistake == "one tile" else products).sum(0)


def _ways(candidate: Callable) -> dict[str, bool]:
    """Which tests a backward passes."""
    torch.manual_seed(0)
    x, dy = torch.randn(2, 12, 16, dtype=torch.float64)
    weight, angle = torch.randn(16, dtype=torch.float64), torch.rand(12, 8, dtype=torch.float64)
    angle[0] = 0
    cos, sin, zeros = angle.cos(), angle.sin(), x.clone()
    zeros[5] = 0

    def right(which: int, rows: slice = slice(None), x: Tensor = x, weight: Tensor = weight):
        inputs = dy[rows], x[rows], weight, cos[rows], sin[rows]
        return bool(compare(candidate(*inputs)[which], backward(*inputs)[which], _TOLERANCE))

    dx, _ = candidate(dy, x, weight, cos, sin)
    part = (dx * x).sum(-1).abs() / (dx.norm(dim=-1) * x.norm(dim=-1))
    return {
        "all": right(0) and right(1),
        "along x": bool(part.max() < 1e-4),
        "weight 1": right(0, weight=torch.ones_like(weight)),
        "position 0": right(0, slice(0, 1)),
        "one tile": right(1, slice(0, _ROWS_OF_A_TILE)),
        "zeros": right(0, slice(5, 6), x=zeros),
    }


def show_five_backwards() -> None:
    """A table: which of the tests each wrong backward passes."""
    found = {name: _ways(partial(backward, mistake=wrong)) for name, wrong in _BACKWARDS.items()}
    names = list(found["A"])
    print("   " + "".join(f"{name:>12}" for name in names))
    for name, passes in found.items():
        print(f"{name}  " + "".join(f"{'right' if passes[n] else 'wrong':>12}" for n in names))
