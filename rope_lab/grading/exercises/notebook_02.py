"""Notebook 02: what PyTorch does, without words about blocks."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..counts import ONE_INDEX_AND_ONE_PRODUCT
from ..spec import spec
from .definitions import (
    BLOCKS,
    OTHER_SIZES,
    rope,
    rope_of_neighbors,
    rotate_half,
    rotate_half_of_neighbors,
)

_PYTORCH = {"leave_out": BLOCKS, "extra": OTHER_SIZES}


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


# exercise 5: bytes of eager PyTorch where half of the head rotates
_N, _F = 64 * 2 * 4 * 64 * 4, 64 * 32 * 4
PARTIAL_ROTATION = {
    "equation (4) as it is, for all of d": 12 * _N + 6 * _F,
    "half of everything, but the last cat sees all of t": 6 * _N + 6 * _F,
    "the last cat is left out": 5 * _N + 6 * _F,
    "F halved, but F is the bytes of the table as it is": 7 * _N + 3 * _F,
    "the table's bytes are left out": 7 * _N,
    "a single fused kernel, equation (5)": 2 * _N + _F,
}
