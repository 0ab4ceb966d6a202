"""Notebook 02: what PyTorch does, without words about blocks."""

import torch

from ..judge.definitions import BLOCKS, OTHER_SIZES, rope, rotate_half
from ..judge.spec import spec

_PYTORCH = {"leave_out": BLOCKS, "extra": OTHER_SIZES}


def _halves_of_the_whole_head(t, freqs):
    angles, d2 = freqs[: t.shape[0]], freqs.shape[-1]
    turned = t[..., :d2] * angles.cos() + rotate_half.function(t)[..., :d2] * angles.sin()
    return torch.cat((turned, t[..., d2:]), dim=-1)


rope_in_pytorch = spec(
    rope.function,
    **_PYTORCH,
    mistakes={
        "the halves of the whole head: rotate_half gets all d elements of t, not the first d2": (
            _halves_of_the_whole_head
        )
    },
)

# exercise 2: how many N eager PyTorch moves where half of the head rotates, beside 6F
PARTIAL_ROTATION = {
    "equation (3) as it is, for all of d": 12,
    "half of everything, but the last cat sees all of t": 6,
    "the last cat is left out": 5,
    "neg works on half of what rotates, a quarter of t": 7.5,
    "the first cat joins only what rotates": 8,
    "a single fused kernel, equation (4)": 2,
}
