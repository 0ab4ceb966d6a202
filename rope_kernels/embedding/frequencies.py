"""Where a module's frequencies come from: one value for each way of scaling a context length.

Each says in `inv_freq()` how far every pair turns per position, (d2 / 2,), in radians. It is
computed on the CPU, so that it has the same bits whatever the device of the module is: those of
Hugging Face's `modeling_rope_utils.py` (transformers 5.17), which rounds in fp32 after every step.
The fields have the names of the keys in a configuration.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Geometric:
    """`base ** (-2 i / d2)` for pair i. Source: RoFormer, section 3.2.2."""

    rotary_dim: int  # d2
    base: float
    rope_type: ClassVar[str] = "default"

    def inv_freq(self) -> Tensor:
        """Radians per position of each pair, (d2 / 2,), fp32 (fp64 if given so), on the CPU."""
        return 1.0 / powers(self.base, self.rotary_dim, self.rotary_dim)

    def with_base(self, base: float) -> "Geometric":
        """The same with another base."""
        return replace(self, base=base)

    def for_length(self, seq_len: int | None) -> "Geometric":
        """The same for sequences of up to so many tokens; most types do not depend on it."""
        return self

    @property
    def words(self) -> list[str]:
        """For the module's repr."""
        shown = [f"rotary_base={self.base}"]
        if self.rope_type != "default":
            shown.append(f"rope_type={self.rope_type!r}")
            given = {field.name: getattr(self, field.name) for field in fields(self)}
            scalars = {n: x for n, x in given.items() if isinstance(x, int | float)}
            shown += [f"{n}={x}" for n, x in scalars.items() if n not in ("rotary_dim", "base")]
        return shown


@dataclass(frozen=True, eq=False)
class Given(Geometric):
    """Frequencies of the caller's own."""

    given: Tensor  # (d2 / 2,), fp32 or fp64, on the CPU

    def inv_freq(self) -> Tensor:
        return self.given

    @property
    def words(self) -> list[str]:
        return ["inv_freq given"]

    def with_base(self, base: float) -> Geometric:
        came = "rotary_base was assigned to a module whose inv_freq was given"
        raise ValueError(f"{came}; accepted: an assignment to inv_freq")


@dataclass(frozen=True)
class Linear(Geometric):
    """All frequencies divided. Source: position interpolation, https://arxiv.org/abs/2306.15595."""

    factor: float
    rope_type: ClassVar[str] = "linear"

    def inv_freq(self) -> Tensor:
        return super().inv_freq() / self.factor


@dataclass(frozen=True)
class Stretched(Geometric):
    """A larger base, whatever the length. Source: HunYuan, whose files call it 'dynamic', too."""

    alpha: float
    rope_type: ClassVar[str] = "dynamic"

    @property
    def stretched_base(self) -> float:
        return self.base * self.alpha ** (self.rotary_dim / (self.rotary_dim - 2))

    def inv_freq(self) -> Tensor:
        return 1.0 / powers(self.stretched_base, self.rotary_dim, self.rotary_dim)


@dataclass(frozen=True)
class Proportional(Geometric):
    """The first pairs of a head turn, with the frequencies that they have if all turn.

    Unlike partial rotation: pairs span the whole head, and the last ones have frequency 0. Source:
    Gemma 4's full attention, `_compute_proportional_rope_parameters` of transformers.
    """

    factor: float
    partial_rotary_factor: float  # the share of pairs that turn
    rope_type: ClassVar[str] = "proportional"

    def inv_freq(self) -> Tensor:
        turning = int(self.partial_rotary_factor * self.rotary_dim // 2)
        turned = 1.0 / powers(self.base, 2 * turning, self.rotary_dim)
        resting = torch.zeros(self.rotary_dim // 2 - turning, device="cpu")
        return torch.cat((turned, resting)) / self.factor


@dataclass(frozen=True)
class Llama3(Geometric):
    """Slow pairs divided, fast ones kept, and a smooth transition between the two.

    Source: Llama 3.1, `_compute_llama3_parameters` of transformers.
    """

    factor: float
    low_freq_factor: float  # pairs with fewer turns in the original length are divided
    high_freq_factor: float  # pairs with more turns are kept
    original_max_position_embeddings: int
    rope_type: ClassVar[str] = "llama3"

    def inv_freq(self) -> Tensor:
        own, original = super().inv_freq(), self.original_max_position_embeddings
        low, high = self.low_freq_factor, self.high_freq_factor
        length = 2 * math.pi / own  # of a turn, in positions
        share = (original / length - low) / (high - low)  # of the frequency that is kept
        between = (1 - share) * own / self.factor + share * own
        is_slow, is_fast = length > original / low, length < original / high
        kept_or_mixed = torch.where(is_fast, own, between)
        return torch.where(is_slow, own / self.factor, kept_or_mixed)


@dataclass(frozen=True)
class Yarn(Geometric):
    """Slow pairs divided, fast ones kept, and a ramp over the pairs between.

    Source: YaRN, https://arxiv.org/abs/2309.00071; `_compute_yarn_parameters` of transformers.
    """

    factor: float
    beta_fast: float  # turns in the original length from which on a pair is kept
    beta_slow: float  # turns up to which it is divided
    original_max_position_embeddings: int
    truncate: bool  # the ramp begins and ends at whole pairs
    rope_type: ClassVar[str] = "yarn"

    def inv_freq(self) -> Tensor:
        base = powers(self.base, self.rotary_dim, self.rotary_dim)
        kept, divided = 1.0 / base, 1.0 / (self.factor * base)
        low, high = self._pair_with(self.beta_fast), self._pair_with(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, self.rotary_dim - 1)
        if low == high:
            high += 0.001
        pair = torch.arange(self.rotary_dim // 2, dtype=torch.float32, device="cpu")
        share = 1 - ((pair - low) / (high - low)).clamp(0, 1)  # of what is kept
        return divided * (1 - share) + kept * share

    def _pair_with(self, turns: float) -> float:
        """Which pair, in fractions, makes so many turns in the original length."""
        length = self.original_max_position_embeddings / (turns * 2 * math.pi)
        return (self.rotary_dim * math.log(length)) / (2 * math.log(self.base))


@dataclass(frozen=True)
class LongRope(Geometric):
    """Each frequency divided by a number of its own, from one of two lists.

    Source: LongRoPE, https://arxiv.org/abs/2402.13753; `_compute_longrope_parameters` of
    transformers.
    """

    short_factor: tuple[float, ...]  # (d2 / 2,)
    long_factor: tuple[float, ...]  # for sequences longer than the original length
    original_max_position_embeddings: int
    seq_len: int | None = None  # None: the original length
    rope_type: ClassVar[str] = "longrope"

    def inv_freq(self) -> Tensor:
        is_long = (self.seq_len or 0) > self.original_max_position_embeddings
        factor = self.long_factor if is_long else self.short_factor
        factor = torch.tensor(factor, dtype=torch.float32, device="cpu")
        return 1.0 / (factor * powers(self.base, self.rotary_dim, self.rotary_dim))

    def for_length(self, seq_len: int | None) -> "LongRope":
        return replace(self, seq_len=seq_len)


@dataclass(frozen=True)
class Dynamic(Geometric):
    """A base that grows with the length of a sequence past the original one ("dynamic NTK").

    Source: `_compute_dynamic_ntk_parameters` of transformers.
    """

    factor: float
    max_position_embeddings: int
    seq_len: int | None = None  # None: the original length
    rope_type: ClassVar[str] = "dynamic"

    def inv_freq(self) -> Tensor:
        original = self.max_position_embeddings
        seq_len = max(self.seq_len or 0, original)
        longer = (self.factor * seq_len / original) - (self.factor - 1)
        base = self.base * longer ** (self.rotary_dim / (self.rotary_dim - 2))
        return 1.0 / powers(base, self.rotary_dim, self.rotary_dim)

    def for_length(self, seq_len: int | None) -> "Dynamic":
        return replace(self, seq_len=seq_len)


def powers(base: float, columns: int, rotary_dim: int) -> Tensor:
    """The base to the power of 0, 2 / d2, 4 / d2, ... for `columns` elements, fp32."""
    element = torch.arange(0, columns, 2, dtype=torch.float32, device="cpu")
    return base ** (element / rotary_dim)
