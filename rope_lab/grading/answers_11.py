"""What notebook 11's exercises are compared with, and the five wrong backwards of its diagnosis."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from .check import compare

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
MISTAKES = ("sign", "eps", "weight", "mean", "one tile")
_BACKWARDS = dict(zip("ABCDE", ("weight", "one tile", "sign", "mean", "eps"), strict=True))
_SIGNS = {  # how each mistake shows
    "sign": "right at position 0, where every sine is 0, and wrong elsewhere",
    "eps": "only a row of zeros is wrong: its 0/0 is NaN",
    "weight": "right as soon as all weights are 1",
    "mean": "dx has a part along x, whatever the input",
    "one tile": "dw is wrong, unless there is only one tile",
}
WHICH_MISTAKE = {
    "right": list(_BACKWARDS.values()),
    "choices": MISTAKES,
    "hint": "in which of the six tests each mistake does not show",
    "mistakes": {
        f"that mistake shows like this: {sign}": 5 * [mistake] for mistake, sign in _SIGNS.items()
    },
}
_ROWS_OF_A_TILE = 4
_TOLERANCE = 1e-4, 1e-4  # epsilon alone does not show


def backward(
    dy: Tensor, x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor, mistake: str = ""
) -> tuple[Tensor, Tensor]:
    """Gradients of x and of the weight for (rows, d), or with one of `MISTAKES`."""
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
