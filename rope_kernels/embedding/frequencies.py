"""How far every pair turns per position: one function for each way of scaling a context length.

All give (d2 / 2,) radians, fp32, computed on the CPU, so that they have the same bits whatever the
device of the module is: those of Hugging Face's `modeling_rope_utils.py` (transformers 5.17), which
rounds in fp32 after every step. The arguments have the names of the keys in a configuration.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor


def default(rotary_dim: int, base: float) -> Tensor:
    """`base ** (-2 i / d2)` for pair i. Source: RoFormer, section 3.2.2."""
    return 1.0 / powers(base, rotary_dim, rotary_dim)


def linear(rotary_dim: int, base: float, factor: float) -> Tensor:
    """All frequencies divided. Source: position interpolation, https://arxiv.org/abs/2306.15595."""
    return default(rotary_dim, base) / factor


def dynamic(
    rotary_dim: int,
    base: float,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    seq_len: int | None = None,
    alpha: float | None = None,
) -> Tensor:
    """A base that grows with the length of a sequence past the original one ("dynamic NTK").

    Source: `_compute_dynamic_ntk_parameters` of transformers. By `alpha` it grows whatever the
    length is: HunYuan's, whose files call that 'dynamic', too.
    """
    if alpha is None:
        seq_len = max(seq_len or 0, max_position_embeddings)
        alpha = (factor * seq_len / max_position_embeddings) - (factor - 1)
    return default(rotary_dim, base * alpha ** (rotary_dim / (rotary_dim - 2)))


def proportional(
    rotary_dim: int, base: float, factor: float, partial_rotary_factor: float
) -> Tensor:
    """The first pairs of a head turn, with the frequencies that they have if all turn.

    Unlike partial rotation: pairs span the whole head, and the last ones have frequency 0. Source:
    Gemma 4's full attention, `_compute_proportional_rope_parameters` of transformers.
    """
    turning = int(partial_rotary_factor * rotary_dim // 2)
    turned = 1.0 / powers(base, 2 * turning, rotary_dim)
    resting = torch.zeros(rotary_dim // 2 - turning, device="cpu")
    return torch.cat((turned, resting)) / factor


def llama3(
    rotary_dim: int,
    base: float,
    factor: float,
    low_freq_factor: float,  # pairs with fewer turns in the original length are divided
    high_freq_factor: float,  # pairs with more turns are kept
    original_max_position_embeddings: int,
) -> Tensor:
    """Slow pairs divided, fast ones kept, and a smooth transition between the two.

    Source: Llama 3.1, `_compute_llama3_parameters` of transformers.
    """
    own, original = default(rotary_dim, base), original_max_position_embeddings
    low, high = low_freq_factor, high_freq_factor
    length = 2 * math.pi / own  # of a turn, in positions
    share = (original / length - low) / (high - low)  # of the frequency that is kept
    between = (1 - share) * own / factor + share * own
    is_slow, is_fast = length > original / low, length < original / high
    kept_or_mixed = torch.where(is_fast, own, between)
    return torch.where(is_slow, own / factor, kept_or_mixed)


def yarn(
    rotary_dim: int,
    base: float,
    factor: float,
    beta_fast: float,  # turns in the original length from which on a pair is kept
    beta_slow: float,  # turns up to which it is divided
    original_max_position_embeddings: int,
    truncate: bool,  # the ramp begins and ends at whole pairs
) -> Tensor:
    """Slow pairs divided, fast ones kept, and a ramp over the pairs between.

    Source: YaRN, https://arxiv.org/abs/2309.00071; `_compute_yarn_parameters` of transformers.
    """

    def pair_with(turns: float) -> float:
        """Which pair, in fractions, makes so many turns in the original length."""
        length = original_max_position_embeddings / (turns * 2 * math.pi)
        return (rotary_dim * math.log(length)) / (2 * math.log(base))

    by_pair = powers(base, rotary_dim, rotary_dim)
    kept, divided = 1.0 / by_pair, 1.0 / (factor * by_pair)
    low, high = pair_with(beta_fast), pair_with(beta_slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary_dim - 1)
    if low == high:
        high += 0.001
    pair = torch.arange(rotary_dim // 2, dtype=torch.float32, device="cpu")
    share = 1 - ((pair - low) / (high - low)).clamp(0, 1)  # of what is kept
    return divided * (1 - share) + kept * share


def longrope(
    rotary_dim: int,
    base: float,
    short_factor: tuple[float, ...],  # (d2 / 2,)
    long_factor: tuple[float, ...],  # for sequences longer than the original length
    original_max_position_embeddings: int,
    seq_len: int | None = None,
) -> Tensor:
    """Each frequency divided by a number of its own, from one of two lists.

    Source: LongRoPE, https://arxiv.org/abs/2402.13753; `_compute_longrope_parameters` of
    transformers.
    """
    is_long = (seq_len or 0) > original_max_position_embeddings
    factor = long_factor if is_long else short_factor
    factor = torch.tensor(factor, dtype=torch.float32, device="cpu")
    return 1.0 / (factor * powers(base, rotary_dim, rotary_dim))


def given(rotary_dim: int, base: float, inv_freq: Tensor) -> Tensor:
    """Frequencies of the caller's own, fp32 or fp64."""
    return inv_freq


def powers(base: float, columns: int, rotary_dim: int) -> Tensor:
    """The base to the power of 0, 2 / d2, 4 / d2, ... for `columns` elements, fp32."""
    element = torch.arange(0, columns, 2, dtype=torch.float32, device="cpu")
    return base ** (element / rotary_dim)


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Where a module's frequencies come from: one of these functions and its arguments."""

    rotary_dim: int  # d2
    base: float
    formula: Callable[..., Tensor] = default
    keys: dict[str, object] = field(default_factory=dict)

    def inv_freq(self) -> Tensor:
        """Radians per position of each pair, (d2 / 2,)."""
        return self.formula(self.rotary_dim, self.base, **self.keys)

    @property
    def words(self) -> list[str]:
        """For the module's repr."""
        if self.formula is given:
            return ["inv_freq given"]
        shown = [f"rotary_base={self.base}"]
        if self.formula is not default:
            shown.append(f"rope_type={self.formula.__name__!r}")
            shown += [f"{key}={x}" for key, x in self.keys.items() if isinstance(x, int | float)]
        return shown
