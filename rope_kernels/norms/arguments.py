"""What the norms' kernels are given, as in `../arguments.py`, which says why it comes in groups."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from ..arguments import Constants


class NormTensors(NamedTuple):
    """What `norm_rope_kernel` reads and writes. None: not in this call."""

    q: Tensor  # viewed as (s, b, h, d)
    k: Tensor | None
    q_out: Tensor  # may be the input
    k_out: Tensor | None
    q_weight: Tensor | None  # (d,)
    k_weight: Tensor | None
    # Those of a rotation: see `Tensors`.
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None
    starts: Tensor | None
    ids: Tensor | None


class NormBackwardTensors(NamedTuple):
    """What `norm_rope_backward_kernel` reads and writes. None: not in this call, or not wanted."""

    q: Tensor  # what the forward read
    k: Tensor | None
    q_grad: Tensor  # gradients of its results
    k_grad: Tensor | None
    q_out: Tensor | None  # gradients of what the forward read
    k_out: Tensor | None
    q_weight: Tensor | None
    k_weight: Tensor | None
    partials: Tensor | None  # (programs, d): each one's share of the weights' gradients
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None
    starts: Tensor | None
    ids: Tensor | None


class SumTensors(NamedTuple):
    """What `sum_partials_kernel` reads and writes. None: not in this call."""

    partials: Tensor  # (programs, d): shares of q's weight, then those of k's
    q_grad: Tensor | None  # (d,): gradients of the weights
    k_grad: Tensor | None


@dataclass(frozen=True)
class NormConstants(Constants):
    """How rows are normalized, besides how they turn."""

    eps: float  # is added to the mean of squares
    offset: float  # is added to the weight
    norm_after: bool  # rotate first, then normalize
    # Whether the compiler may fuse a product with a sum. A backward may, where its forward may not.
    fused: bool


@dataclass(frozen=True)
class NormForwardConstants(NormConstants):
    """Where a forward rounds, besides its rotation and its result, and in which order it loads."""

    rounds_normal: bool  # round the normalized row, before it meets the weight
    rounds_product: bool  # round its product with the weight
    weights_last: bool  # load weights after the elements, not before


@dataclass(frozen=True)
class NormBackwardConstants(NormConstants):
    """`rounding` is where the forward's rotation rounded. Gradients are not rounded there."""

    rounds_cos_sin: bool  # round cosines and sines, as the forward did
    next_first: bool  # load the next tile's rows before this tile's angles, not after them
