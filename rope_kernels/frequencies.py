"""The angles: how far each pair turns at each position."""

import math

import torch
from torch import Tensor, nn

# 1 / 2 pi, the turns in a radian, in pieces of 24 bits: fp64 multiplies with them exactly
_TURNS_IN_A_RADIAN = (0x28BE60 * 2.0**-24, 0xDB9391 * 2.0**-48, 0x054A7F * 2.0**-72)


class RotaryPositionEmbedding(nn.Module):
    """Make the table of angles: position times inverse frequency, in radians.

    Pair i of d2/2 turns by `position * rotary_base ** (-2 i / d2)` (RoFormer, section 3.2.2). In
    place of its table, the functions that rotate take the module itself: then no angle is read from
    memory, and each is right to fp32's last digits, up to position 10^12.

    Args:
        dim: head dimension d.
        rotary_percent: share of the head dimension that is rotated: d2 = int(dim * rotary_percent),
            which must be even.
        seq_len_interpolation_factor: divide positions by this (position interpolation), if
            `pretrained_max_position_embeddings` is given too.
        pretrained_max_position_embeddings: sequence length of the training, in positions. Past it
            times the factor, `max_seq_len / pretrained_max_position_embeddings` divides instead.
        rotary_base: base of the geometric series of frequencies.
        interleaved: each angle stands twice side by side (a, a, b, b, ...), for the interleaved
            pairing, instead of once in each half (a, b, ..., a, b, ...).

    Attributes:
        inv_freq: (d2 / 2,), fp32, radians per position, finite. Stays fp32 when the module is cast:
            in bf16 an angle at position 1000 would be wrong by radians. May be assigned, and
            changed in place where PyTorch counts changes (not by `.data`, nor by a collective such
            as `torch.distributed.broadcast`: then `rope.inv_freq = rope.inv_freq.clone()`).

    Raises:
        ValueError: an argument is out of range; the message names it.

    Source: TransformerEngine's `RotaryPositionEmbedding`, same arguments, same fp32 arithmetic.
    """

    inv_freq: Tensor

    def __init__(
        self,
        dim: int,
        rotary_percent: float = 1.0,
        seq_len_interpolation_factor: float | None = None,
        pretrained_max_position_embeddings: int | None = None,
        rotary_base: float = 10000.0,
        interleaved: bool = False,
    ) -> None:
        super().__init__()
        factor, trained = seq_len_interpolation_factor, pretrained_max_position_embeddings
        if not 0.0 < rotary_percent <= 1.0:
            raise ValueError(f"rotary_percent is {rotary_percent}; accepted: above 0, up to 1")
        self.rotary_dim = int(dim * rotary_percent)
        if self.rotary_dim < 2 or self.rotary_dim % 2:
            came = f"dim = {dim} and rotary_percent = {rotary_percent} give {self.rotary_dim}"
            raise ValueError(f"{came} rotary dimensions; accepted: an even number, at least 2")
        _require_positive("rotary_base", rotary_base)
        _require_positive("seq_len_interpolation_factor", 1 if factor is None else factor)
        _require_positive("pretrained_max_position_embeddings", 1 if trained is None else trained)
        self.rotary_base, self.interleaved = rotary_base, interleaved
        self.seq_len_interpolation_factor = factor
        self.pretrained_max_position_embeddings = trained
        exponent = torch.arange(0, self.rotary_dim, 2, dtype=torch.float32) / self.rotary_dim
        self.register_buffer("inv_freq", 1.0 / rotary_base**exponent)
        self._known_turns = None, None, None  # what they were made from, its state then, and they
        self._turns_in_graphs = {}  # address -> turns that a captured CUDA graph reads

    def forward(self, max_seq_len: int, offset: int = 0) -> Tensor:
        """Angles of positions offset, ..., offset + max_seq_len - 1.

        Args:
            max_seq_len: number of positions s.
            offset: first position.

        Returns:
            (s, 1, 1, d2), fp32, radians, on the device of `inv_freq`. An fp32 angle is exact only
            to 2^-24 of itself, and inv_freq too: milliradians are lost at position 131 071.

        Raises:
            ValueError: `max_seq_len` is negative.
        """
        if max_seq_len < 0:
            raise ValueError(f"max_seq_len is {max_seq_len}; accepted: 0 or a positive number")
        position = torch.arange(max_seq_len, dtype=torch.float32, device=self.inv_freq.device)
        position = (position + offset) * self.position_scale(max_seq_len)
        angles = position[:, None] * self.inv_freq  # no matmul: autocast leaves it in fp32
        return for_both_members(angles, self.interleaved)[:, None, None, :]

    def position_scale(self, max_seq_len: int | None) -> float:
        """Factor for positions, which depends on how many they are (None: not known)."""
        trained, factor = self.pretrained_max_position_embeddings, self.seq_len_interpolation_factor
        if trained is None or factor is None:
            return 1.0
        if max_seq_len is None:
            raise ValueError(
                "freqs interpolates by the number of positions, which cu_seqlens, start_positions "
                "and position_ids leave open; accepted with them: its table, freqs(max_seq_len)"
            )
        return 1.0 / max(factor, max_seq_len / trained)

    def turns(self, max_seq_len: int | None, remember: bool = True) -> Tensor:
        """`in_turns` of `inv_freq`, interpolated; remembered, if wished, while that stays so."""
        inv_freq, scale = self.inv_freq, self.position_scale(max_seq_len)
        scales = 1.0, 1.0 / (self.seq_len_interpolation_factor or 1)  # others come and go
        if not remember or scale not in scales or inv_freq.is_inference():
            return in_turns(inv_freq, scale)
        state = inv_freq.data_ptr(), inv_freq._version, scale
        made_from, state_then, turns = self._known_turns
        capturing = inv_freq.is_cuda and torch.cuda.is_current_stream_capturing()
        if made_from is not inv_freq or state_then != state:
            with torch.inference_mode(False), torch.no_grad():
                turns = in_turns(inv_freq, scale)
            if capturing:
                return turns  # holds nothing before the graph is replayed
            if inv_freq.is_cuda:
                torch.cuda.current_stream(inv_freq.device).synchronize()  # others may read it
            self._known_turns = inv_freq, state, turns
        if capturing:
            self._turns_in_graphs[turns.data_ptr()] = turns  # not to be freed before it
        return turns

    def __getstate__(self):
        """What copies and files get: what is remembered holds for this memory alone."""
        return self.__dict__ | {"_known_turns": (None, None, None), "_turns_in_graphs": {}}

    def _apply(self, fn, recurse=True):
        # .half() and the like move these, but don't round
        exact = self.inv_freq, self.inv_freq.grad if self.inv_freq.is_leaf else None

        def move(x: Tensor) -> Tensor:
            moved = fn(x)
            rounded = moved.dtype != x.dtype and any(x is y for y in exact)
            return x.to(moved.device) if rounded else moved

        return super()._apply(move, recurse)


def in_turns(inv_freq: Tensor, scale: float = 1.0) -> Tensor:
    """`inv_freq * scale` in units of 2^-64 turns a position, int64, without whole turns.

    Its product with a position, in int64 arithmetic that overflows, is how far the pair has turned
    since its last whole turn. At position 1 000 000 the angle is right to 1e-12 radians, where an
    fp32 product of position and `inv_freq` is wrong by up to 0.05.
    """
    frequency = inv_freq.double() * scale
    coarse, total = frequency.float().double(), 0
    for part in (coarse, frequency - coarse):
        for piece in _TURNS_IN_A_RADIAN:
            turns = part * piece  # exact: 24 or 29 bits times 24
            total += ((turns - turns.round()) * 2.0**64).round().long()
    return total


def radians(turns: Tensor, position: Tensor, dtype: torch.dtype) -> Tensor:
    """Angles of `in_turns` at each position, but for whole turns, which int64's overflow drops."""
    turned = position[..., None] * turns
    if dtype == torch.float64:
        return turned.double() * (2 * math.pi * 2.0**-64)
    return (turned >> 32).to(dtype) * (2 * math.pi * 2.0**-32)


def for_both_members(angles: Tensor, interleaved: bool) -> Tensor:
    """Of one angle a pair (..., d2 / 2), one for each of its members (..., d2)."""
    return angles.repeat_interleave(2, -1) if interleaved else torch.cat((angles, angles), -1)


def _require_positive(name: str, value: float) -> None:
    if not (isinstance(value, int | float) and value > 0):
        raise ValueError(f"{name} is {value}; accepted: a positive number")
