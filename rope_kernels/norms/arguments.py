"""The arguments of the norms' kernels. `../arguments.py` explains why they are grouped."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from ..arguments import Constants


class NormTensors(NamedTuple):
    """The tensors that `norm_rope_kernel` reads and writes. None: not in this call."""

    q: Tensor  # viewed as (s, b, h, d)
    k: Tensor | None
    q_out: Tensor  # may be the input
    k_out: Tensor | None
    q_weight: Tensor | None  # (d,)
    k_weight: Tensor | None
    # The tensors of a rotation: see `Tensors`.
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None
    starts: Tensor | None
    ids: Tensor | None


class NormBackwardTensors(NamedTuple):
    """The tensors of `norm_rope_backward_kernel`. None: not in this call, or not wanted."""

    q: Tensor  # the forward's inputs
    k: Tensor | None
    q_grad: Tensor  # gradients of the forward's results
    k_grad: Tensor | None
    q_out: Tensor | None  # gradients of the forward's inputs, which are written
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
    """The tensors that `sum_partials_kernel` reads and writes. None: not in this call."""

    partials: Tensor  # (programs, d): shares of q's weight, then of k's
    q_grad: Tensor | None  # (d,): gradients of the weights
    k_grad: Tensor | None


@dataclass(frozen=True)
class NormConstants(Constants):
    """The constants of a rotation and a norm."""

    eps: float  # added to the mean of squares
    offset: float  # added to the weight
    norm_after: bool  # rotate first, then normalize
    fused: bool  # whether FMA is on; it may be in a backward although it isn't in the forward


@dataclass(frozen=True)
class NormForwardConstants(NormConstants):
    """Where a forward rounds, besides its rotation and its result, and in which order it loads."""

    rounds_normal: bool  # round the normalized row, before the product with the weight
    rounds_product: bool  # round its product with the weight
    weights_last: bool  # load weights after the elements, not before


@dataclass(frozen=True)
class NormBackwardConstants(NormConstants):
    """Constants of a backward. `rounding` is the forward's; gradients are rounded once."""

    rounds_cos_sin: bool  # round cosines and sines, as the forward did
    next_first: bool  # load the next tile's rows before this tile's angles, not after them
