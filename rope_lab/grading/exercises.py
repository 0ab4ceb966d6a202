"""The specifications that exercises are judged by: plain PyTorch, and no more than a definition."""
# ruff: noqa: F821 (the letters of shapes)

from functools import partial

import torch

from .counts import ONE_INDEX_AND_ONE_PRODUCT
from .spec import STRIDED, ZEROS_AND_SMALL, Case, spec


@spec
def rotate_half(x: "(s, b, h, d2)"):
    """(x1, x2) to (-x2, x1), half by half."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


@spec
def rotate_half_of_neighbors(x: "(s, b, h, d2)"):
    """(x1, x2) to (-x2, x1), where x1 and x2 stand side by side."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


@spec
def rope(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The study's function: the first d2 elements rotated, the rest as it came."""
    return _rotated(t, freqs[: t.shape[0]], rotate_half.function)


def _minus_of_halves(x, partner):
    first_half = torch.arange(x.shape[-1]) < x.shape[-1] // 2
    return torch.where(first_half, -x[..., partner], x[..., partner])


def _neighbors_with_minus_of_halves(x):
    place = torch.arange(x.shape[-1])
    return _minus_of_halves(x, place + 1 - 2 * (place % 2))


def _one_ahead_in_the_first_half(x):
    place = torch.arange(x.shape[-1])
    return _minus_of_halves(x, torch.where(place < len(place) // 2, place + 1, place - 1))


def _sign_of_halves(t, freqs):
    return _rotated(t, freqs[: t.shape[0]], _neighbors_with_minus_of_halves)


def _partner_by_half(t, freqs):
    return _rotated(t, freqs[: t.shape[0]], _one_ahead_in_the_first_half)


@spec(
    angles="pairs",
    mistakes={
        "a sign: the minus is the first half's, where it is the first neighbor's": _sign_of_halves,
        "the wrong partner: whether it is ahead or back depends on the half": _partner_by_half,
    },
)
def rope_of_neighbors(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The same for the interleaved pairing."""
    return _rotated(t, freqs[: t.shape[0]], rotate_half_of_neighbors.function)


# A kernel with one lane for each element loads each twice: for itself, and as a partner.


@spec(leave_out=STRIDED, kernel=True, loads=2)
def rope_of_contiguous(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope`, and every tensor contiguous."""
    return rope.function(t, freqs)


@spec(
    leave_out=(*STRIDED, "part of the head rotated", "a table longer than the sequence"),
    kernel=True,
)
def rope_of_whole_heads(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope`, and every tensor contiguous and every head rotated as a whole."""
    return rope.function(t, freqs)


@spec(overwrites=("t",), kernel=True)
def rope_in_place(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope`, written over its input and nowhere else."""
    return rope.function(t, freqs)


@spec(kernel=True, loads=2)
def rope_gradient(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """From the gradient of `rope`'s result to that of `t`: the transposed map."""
    d2 = freqs.shape[-1]
    freqs = freqs[: grad.shape[0]]
    rotary, tail = grad[..., :d2], grad[..., d2:]
    back = rotary * freqs.cos() - rotate_half.function(rotary * freqs.sin())
    return torch.cat((back, tail), dim=-1)


@spec(kernel=True, loads=2)
def rope_at_positions(
    t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)", position_ids: "positions (b, s)"
):
    """`rope`, with a position of its own for every token."""
    return _rotated(t, freqs[position_ids.t(), 0], rotate_half.function)


@spec
def rope_of_q_and_k(q: "(s, b, h, d)", k: "(s, b, g, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` of both; they may differ in the number of heads."""
    return rope.function(q, freqs), rope.function(k, freqs)


_TEN_PAIRS = Case("ten pairs", {"s": 4, "b": 2, "h": 2, "d": 20, "n": 64})


@spec(
    extra=(_TEN_PAIRS,), kernel=True
)  # sections of 2, 3 and 5: what the division leaves goes last
def rope_in_three_sections(
    t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)", position_ids: "positions (3, b, s)"
):
    """M-RoPE: time, height and width turn a quarter, then three eighths of the pairs each.

    Source: Qwen2-VL, section 2.1; its 16, 24 and 24 pairs of 64. What does not divide goes last.
    """
    return _rotated(t, _angles_in_three_sections(freqs, position_ids), rotate_half.function)


def _angles_in_three_sections(freqs, position_ids):
    pairs = freqs.shape[-1] // 2
    ends = pairs // 4, pairs // 4 + 3 * pairs // 8
    section = torch.bucketize(
        torch.arange(pairs, device=freqs.device),
        torch.tensor(ends, device=freqs.device),
        right=True,
    )
    by_section = freqs[position_ids, 0, 0].permute(2, 1, 0, 3)  # (s, b, 3, d2)
    section = section.repeat(2).expand(*by_section.shape[:2], 1, -1)
    return by_section.gather(2, section)


def _rotated(t, angles, quarter_turn):
    rotary, tail = t[..., : angles.shape[-1]], t[..., angles.shape[-1] :]
    rotated = rotary * angles.cos() + quarter_turn(rotary) * angles.sin()
    return torch.cat((rotated.to(t.dtype), tail), dim=-1)


# Notebooks 05 to 07


@spec(
    leave_out=(*STRIDED, "part of the head rotated"),
    kernel=True,
    asks=("half the table",),
)
def rope_by_first_half(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` of whole heads by the table's first half; its second half does not matter.

    So it shows whether a kernel reads only one half.
    """
    first = freqs[..., : freqs.shape[-1] // 2]
    return rope.function(t, torch.cat((first, first), dim=-1))


@spec(angles="pairs", overwrites=("t",), kernel=True)
def rope_of_neighbors_in_place(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_of_neighbors`, written over its input and nowhere else."""
    return rope_of_neighbors.function(t, freqs)


def _k_by_heads_of_q(q, k, freqs):
    """The number of k's row taken apart by the heads of q."""
    (_, b, h, _), (*_, g, d) = q.shape, k.shape
    row = torch.arange(k.numel() // d)
    position, sequence, head = row // (b * h), row // h % b, row % h
    read = ((position * b + sequence) * g + head).clamp(max=len(row) - 1)
    rows = k.reshape(-1, 1, 1, d)[read]
    return rope.function(q, freqs), _rotated(rows, freqs[position], rotate_half.function).view_as(k)


def _k_position_by_heads_of_q(q, k, freqs):
    """Only the position: sequence and head are right."""
    (_, b, h, _), (*_, g, d) = q.shape, k.shape
    row = torch.arange(k.numel() // d)
    position, sequence, head = row // (b * h), row // g % b, row % g
    rows = k.reshape(-1, 1, 1, d)[(position * b + sequence) * g + head]
    return rope.function(q, freqs), _rotated(rows, freqs[position], rotate_half.function).view_as(k)


@spec(
    launches=1,
    kernel=True,
    mistakes={
        "the wrong heads: the rows of k are counted by the heads of q": _k_by_heads_of_q,
        "the wrong heads: k's position is counted by the heads of q": _k_position_by_heads_of_q,
    },
)
def rope_of_q_and_k_at_once(q: "(s, b, h, d)", k: "(s, b, g, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_of_q_and_k` by a single launch."""
    return rope_of_q_and_k.function(q, k, freqs)


@spec(leave_out=("part of the head rotated",), kernel=True)
def rope_gradient_of_whole_heads(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_gradient`, and every head was rotated as a whole."""
    return rope_gradient.function(grad, freqs)


@spec(leave_out=(*STRIDED, "part of the head rotated", "one gradient for all"), kernel=True)
def rope_gradient_of_rows(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_gradient` of whole heads, and every tensor contiguous."""
    return rope_gradient.function(grad, freqs)


@spec(kernel=True)
def rope_of_neighbors_gradient(grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """The transpose of `rope_of_neighbors`; the two angles of a pair may differ."""
    return _rotated_back(grad, freqs[: grad.shape[0]], rotate_half_of_neighbors.function)


@spec(extra=(_TEN_PAIRS,), kernel=True)
def rope_in_three_sections_gradient(
    grad: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)", position_ids: "positions (3, b, s)"
):
    """The transpose of `rope_in_three_sections`."""
    angles = _angles_in_three_sections(freqs, position_ids)
    return _rotated_back(grad, angles, rotate_half.function)


@spec(angles="pairs", leave_out=(*STRIDED, "part of the head rotated"), kernel=True)
def rope_of_neighbors_of_whole_heads(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_of_neighbors`, and every tensor contiguous and every head rotated as a whole."""
    return rope_of_neighbors.function(t, freqs)


def _rotated_back(grad, angles, quarter_turn):
    rotary, tail = grad[..., : angles.shape[-1]], grad[..., angles.shape[-1] :]
    back = rotary * angles.cos() - quarter_turn(rotary * angles.sin())
    return torch.cat((back.to(grad.dtype), tail), dim=-1)


# Notebooks 00 to 03

# Case names for readers who have not met blocks yet.
_BLOCKS = ("sizes that no block divides", "more elements than a block")
_ODD, _LONG = (
    {"s": 7, "b": 3, "h": 5, "d": 24, "base": 500},
    {"s": 3, "b": 2, "h": 3, "d": 200, "base": 500_000},
)
_OTHER_SIZES = (Case("other sizes", _ODD), Case("long rows", _LONG))
_MATH = {"leave_out": (*_BLOCKS, *STRIDED, "half precision"), "extra": _OTHER_SIZES}
_NO_LOOP = ("no loop",)
_PYTORCH = {"leave_out": _BLOCKS, "extra": _OTHER_SIZES}
_KERNEL = {"leave_out": STRIDED, "kernel": True}


@spec(**_MATH, asks=_NO_LOOP)
def turned_pairs(x: "(s, d)", angle: "angles (s, p)"):
    """Each row's neighbors turned by that row's angles, one for each pair."""
    x, y = x[..., ::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((x * cos - y * sin, x * sin + y * cos), dim=-1).flatten(-2)


@spec(**_MATH)
def frequencies(d: "number (d)", base: "number (base)"):
    """The angles per position of d/2 pairs."""
    return float(base) ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def slow_pairs(d: int, base: float, positions: int) -> int:
    """How many pairs don't finish a turn within so many positions."""
    return int((frequencies.function(d, base) * positions < 2 * torch.pi).sum())


def _turned_by_row(x, theta, direction=1):
    return turned_pairs.function(x, direction * torch.arange(len(x))[:, None] * theta)


def _keys_backwards(q, k, theta):
    return _turned_by_row(q, theta) @ _turned_by_row(k, theta, -1).T


def _keys_not_turned(q, k, theta):
    return _turned_by_row(q, theta) @ k.T


def _queries_not_turned(q, k, theta):
    return q @ _turned_by_row(k, theta).T


_WRONG_SCORES = {
    "the keys turn the other way: the score has the sum of the positions": _keys_backwards,
    "the keys are not turned": _keys_not_turned,
    "the queries are not turned": _queries_not_turned,
}


@spec(**_MATH, asks=_NO_LOOP, mistakes=_WRONG_SCORES)
def table_of_scores(q: "(s, d)", k: "(s, d)", theta: "angles (p)"):
    """Row m, column n: the query at position m, rotated, times the key at position n, rotated."""
    return _turned_by_row(q, theta) @ _turned_by_row(k, theta).T


@spec(**_MATH, asks=_NO_LOOP)
def rotation_matrices(angle: "angles (s, p)"):
    """For each position the matrix with a rotation for each pair on its diagonal."""
    one = torch.eye(2 * angle.shape[-1], dtype=angle.dtype)
    return torch.stack([turned_pairs.function(one, row.expand(len(one), -1)).T for row in angle])


@spec(**_PYTORCH)
def halves_to_neighbors(x: "(s, b, h, d2)"):
    """From half-split order to interleaved order: (0, 4, 1, 5, 2, 6, 3, 7) of eight."""
    return torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2)


# the same as above, without words about blocks
def _ahead_with_sign(x):
    sign = torch.tensor((-1.0, 1.0)).repeat(x.shape[-1] // 2)
    return x.roll(-1, -1) * sign


rotate_half_of_neighbors_in_pytorch = spec(
    rotate_half_of_neighbors.function,
    **_PYTORCH,
    asks=(ONE_INDEX_AND_ONE_PRODUCT,),
    mistakes={"the wrong partner: every place looks one ahead, odd ones too": _ahead_with_sign},
)


def _halves_of_the_whole_head(t, freqs):
    angles, d2 = freqs[: t.shape[0]], freqs.shape[-1]
    turned = t[..., :d2] * angles.cos() + rotate_half.function(t)[..., :d2] * angles.sin()
    return torch.cat((turned, t[..., d2:]), dim=-1)


rope_in_pytorch = spec(
    rope.function,
    without=("apply_rotary_pos_emb", "rope_fw"),
    **_PYTORCH,
    mistakes={
        "the halves of the whole head: rotate_half gets all d elements of t, not the first d2": (
            _halves_of_the_whole_head
        )
    },
)
rope_of_neighbors_in_pytorch = spec(rope_of_neighbors.function, angles="pairs", **_PYTORCH)


@spec(launches=1, blocks=True, **_KERNEL)
def scaled_copy(x: "(n)"):
    """The reader's first kernel, in notebook 00."""
    return 2 * x


@spec(blocks=True, **_KERNEL)
def three_times(x: "(n)"):
    """The first exercise with a mask."""
    return 3 * x


@spec(asks=("a scatter",), **_KERNEL)
def contiguous_halves_to_neighbors(x: "(s, d2)"):
    """`halves_to_neighbors` of contiguous rows."""
    return halves_to_neighbors.function(x)


@spec(axes=2, **_KERNEL)
def rotate_half_of_rows(x: "(s, d2)"):
    """`rotate_half` of contiguous rows."""
    return rotate_half.function(x)


@spec(overwrites=("x",), **_KERNEL)
def rotate_half_in_place(x: "(s, b, h, d2)"):
    """`rotate_half` of a contiguous tensor, written over it."""
    return rotate_half.function(x)


# Notebook 09: rotated together with what stands beside it in a model


@spec(leave_out=STRIDED, launches=1, kernel=True)
def rope_scaled(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d)"):
    """`rope`, and every element divided by the square root of d."""
    return (_in_fp64(t, freqs) * t.shape[-1] ** -0.5).to(t.dtype)


def _normalized_and_rotated(x, weight, freqs):
    x = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * weight.double()
    return _in_fp64(x, freqs)


def _less_its_mean(t, weight, freqs):
    return _normalized_and_rotated(t - t.mean(-1, keepdim=True), weight, freqs)


def _weights_plus_one(t, weight, freqs):
    return _normalized_and_rotated(t, 1 + weight, freqs)


_ODD_ROWS = {"s": 3, "b": 2, "h": 3, "d": 24}


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    extra=(Case(ZEROS_AND_SMALL, _ODD_ROWS, layout=ZEROS_AND_SMALL),),
    mistakes={
        "the mean is subtracted first, as in LayerNorm": _less_its_mean,
        "1 is added to the weights, as in Gemma": _weights_plus_one,
    },
)
def rope_of_normalized(t: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d)"):
    """Each row over the root of its mean square, times a weight a column; then `rope`."""
    return _normalized_and_rotated(t.double(), weight, freqs).to(t.dtype)


def _in_fp64(t, freqs):
    return rope.function(t.double(), freqs.double())


# Notebook 11: normalized and rotated, from parts, and back


def _normal(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def _tail_left_out_of_the_mean(x, weight, freqs):
    rows = x[..., : freqs.shape[-1]]
    mean = rows.square().sum(-1, keepdim=True) / x.shape[-1]
    return rope.function(x * (mean + 1e-6).rsqrt() * weight, freqs)


def _mean_of_what_turns(x, weight, freqs):
    mean = x.square().sum(-1, keepdim=True) / freqs.shape[-1]
    return rope.function(x * (mean + 1e-6).rsqrt() * weight, freqs)


def _mean_of_half(x, weight, freqs):
    mean = 2 * x.square().mean(-1, keepdim=True)
    return rope.function(x * (mean + 1e-6).rsqrt() * weight, freqs)


def _sum_of_squares(x, weight, freqs):
    return rope.function(x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() * weight, freqs)


def _not_normalized(x, weight, freqs):
    return rope.function(x * weight, freqs)


def _rounded_like_the_model(x, weight, freqs):
    """In half precision: after each product, and once more at the end."""
    row = (_normal(x).half().double() * weight).half().double()
    return rope.function(row, freqs)


def _transposed(x, weight, freqs):
    return rope_gradient.function(_normal(x) * weight, freqs)


@spec(
    leave_out=("batch and positions swapped in memory", "every other element"),
    launches=1,
    kernel=True,
    extra=(Case(ZEROS_AND_SMALL, _ODD_ROWS, layout=ZEROS_AND_SMALL),),
    mistakes={
        "the tail is left out of the sum of squares": _tail_left_out_of_the_mean,
        "the wrong divisor: the mean is over all d elements of a row": _mean_of_what_turns,
        "the wrong divisor: half as many elements as a row has": _mean_of_half,
        "the sum of squares is not divided by d": _sum_of_squares,
        "the row is not normalized": _not_normalized,
        "the transposed map: TRANSPOSE is for the backward": _transposed,
        "rounding: too often, like the model, which rounds before it rotates; round once, at the "
        "end": _rounded_like_the_model,
    },
)
def rope_of_normalized_rows(x: "(s, b, h, d)", weight: "(d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope_of_normalized` with a tail, which is normalized and does not turn."""
    return rope.function(_normal(x) * weight, freqs)


PROGRAMS, ROWS_OF_A_TILE = 2, 4  # of the stub


def _norm_gradient(
    grad,
    x,
    weight,
    freqs,
    turned="back",
    mean=1.0,
    divided=True,
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
    along = (dxhat * x * r).sum(-1, keepdim=True) / (d if divided else 1)
    dx = dxhat - mean * x * r * along
    products = {
        "normal": x * r * dn,
        "input": x * dn,
        "weighted": x * r * dn * weight,
        "not turned": x * r * grad,
    }[summed]
    blocks = -(-b * h // ROWS_OF_A_TILE)
    tile = torch.arange(s)[:, None] * blocks + torch.arange(b * h) // ROWS_OF_A_TILE
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
    extra=(Case(ZEROS_AND_SMALL, _ODD_ROWS, layout=ZEROS_AND_SMALL),),
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
    """Gradients of x and of the weight of `rope_of_normalized`."""
    return _norm_gradient(grad, x, weight, freqs)
