"""What turns, by which angles, and where each token is: the one object between a call and a kernel.

Letters: s = position in the sequence, b = batch, h = head, d = head dimension, t = token of a
packed batch. The order of the letters of a format is the order of the dimensions.

Ranks of context parallelism share a sequence in one of three orders. With n ranks and a sequence of
s tokens, rank r holds s / n of them:
- zigzag: chunks number r and 2n - 1 - r of 2n equal chunks. With a causal mask all ranks then have
  equally much to do. TransformerEngine, Megatron-LM, and PyTorch's `context_parallel`.
- contiguous: chunk number r of n. Megatron-LM's `cp_partition_mode="contiguous"`.
- round_robin: tokens r, r + n, r + 2n, ... SGLang's `round-robin-split`.

Packed sequences are shared one by one, in the same way.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from .embedding import RotaryPositionEmbedding, for_both_members, radians

TensorFormat = Literal["sbhd", "bshd", "bhsd", "thd"]
CpOrder = Literal["zigzag", "contiguous", "round_robin"]
OutputPairing = Literal["same", "half"]
Rounding = Literal["once", "model", "upcast", "promoted"]
Freqs = Tensor | tuple[Tensor, Tensor] | RotaryPositionEmbedding
FORMATS, CP_ORDERS = get_args(TensorFormat), get_args(CpOrder)
OUTPUT_PAIRINGS, ROUNDINGS = get_args(OutputPairing), get_args(Rounding)


def view_as_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """View `t` as (s, b, h, d), without a copy; a packed (t, h, d) becomes (t, 1, h, d)."""
    if tensor_format == "thd":
        return t.unsqueeze(1)
    return t.permute([tensor_format.index(letter) for letter in "sbhd"])


def view_from_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """Undo `view_as_sbhd`, without a copy."""
    if tensor_format == "thd":
        return t.squeeze(1)
    return t.permute(["sbhd".index(letter) for letter in tensor_format])


def seq_len_of(t: Tensor, tensor_format: str) -> int:
    """s, or the number of packed tokens. A view would take longer than all checks of a call."""
    return t.shape[0 if tensor_format == "thd" else tensor_format.index("s")]


def compute_dtype(t: Tensor) -> torch.dtype:
    return torch.float64 if t.dtype == torch.float64 else torch.float32


@dataclass(slots=True)
class Rotation:
    """The linear map of one call: its arguments, but for the tensors that turn.

    `api.prepare` puts in what came; when it has checked that, `table`, `rotary_dim` and `rounding`
    become what a kernel needs.
    """

    # radians (s2, 1, 1, w), cosines (s2, w) or (b, s2, w), or turns (d2 / 2,); w is d2 or d2 / 2
    table: Tensor
    sin: Tensor | None = None  # sines, if the table holds cosines
    cu_seqlens: Tensor | None = None  # (sequences + 1,)
    # (b,) or (sequences,); a number, which all sequences share, becomes `first_position`
    start_positions: Tensor | None = None
    position_ids: Tensor | None = None  # (b or 1, s) or (tokens,)
    tensor_format: str = "sbhd"
    rotary_dim: int | None = None  # d2
    rotary_start: int = 0  # the first element that turns
    interleaved: bool = False
    output_pairing: str = "same"  # or "half": reads interleaved pairs, writes half-split ones
    cp_size: int = 1
    cp_rank: int = 0
    cp_order: str = "zigzag"
    inverse: bool = False  # by minus the angle: every sine is negated
    rounding: str | None = "once"  # where values are rounded to the dtype of what turns
    attention_factor: float = 1.0  # of cos and sin from turns; from here on by name alone
    transpose: bool = False  # the transposed map, which takes gradients back
    promoted_from: str = ""  # a dtype: forward reads it and returns that of the table, back reverts
    keeps_strides: bool = False  # of what turns, as operators do; not of gradients
    # Of all sequences; None: 0. It comes last, for it is the only field that a kernel takes from
    # each call: every other one is part of what is remembered of a call.
    first_position: int | None = None

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """The fields that are tensors, in their order."""
        return self.table, self.sin, self.cu_seqlens, self.start_positions, self.position_ids

    @property
    def options(self) -> tuple[str | bool | int | float | None, ...]:
        """The fields that are not, in their order, but for `first_position`."""
        return _options_of(self)

    @property
    def where(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The tensors that say where tokens are."""
        return self.cu_seqlens, self.start_positions, self.position_ids

    @property
    def looks_up_positions(self) -> bool:
        """Whether a token's position is known only after loading its sequence, start or id.

        A first position is no load: it is an argument of the kernel.
        """
        has_ids = self.position_ids is not None
        return has_ids or self.cu_seqlens is not None or self.start_positions is not None

    @property
    def on_the_fly(self) -> bool:
        """Whether angles are computed from turns instead of read from a table."""
        return self.table.dim() == 1

    @property
    def one_per_pair(self) -> bool:
        """Whether column i of the table belongs to pair i, not to element i."""
        return 2 * self.table.shape[-1] == self.rotary_dim

    @property
    def tables(self) -> tuple[Tensor, ...]:
        """Angles, or cosines and sines, each (b or 1, s2, w)."""
        tables = (self.table,) if self.sin is None else (self.table, self.sin)
        # not flatten, which PyTorch can't do to a batch of gradients
        tables = [x[:, 0, 0] if x.dim() == 4 else x for x in tables]
        return tuple([x if x.dim() == 3 else x[None] for x in tables])

    @property
    def table_len(self) -> int:
        """s2."""
        return self.table.shape[1 if self.table.dim() == 3 else 0]

    @property
    def per_batch(self) -> bool:
        """Whether each entry of a dense batch has its own angles."""
        own_starts = self.start_positions is not None and self.cu_seqlens is None
        ids = self.position_ids
        own_ids = ids is not None and ids.dim() == 2 and ids.shape[0] > 1
        return own_starts or own_ids or (self.table.dim() == 3 and self.table.shape[0] != 1)

    @property
    def pairings(self) -> tuple[bool, bool]:
        """Whether pairs are interleaved in what is read, and in what is written."""
        given, returned = self.interleaved, self.interleaved and self.output_pairing == "same"
        return (returned, given) if self.transpose else (given, returned)

    def returned_dtype(self, t: Tensor) -> torch.dtype:
        """That of the result, from what turns: another one only if the rotation promotes."""
        if not self.promoted_from:
            return t.dtype
        return getattr(torch, self.promoted_from) if self.transpose else self.table.dtype

    def memory_for(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Empty tensors for the results."""
        keeps = self.keeps_strides and not self.transpose
        kind = torch.preserve_format if keeps else torch.contiguous_format
        dtype = self.returned_dtype(tensors[0])
        return tuple([torch.empty_like(t, dtype=dtype, memory_format=kind) for t in tensors])

    def cos_sin(self, seq_len: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
        """cos and sin, (b or 1, s, d2), NaN past the table; and whether tokens are in sequences."""
        in_order = not self.looks_up_positions and self.first_position is None
        if in_order and not self.on_the_fly and self.cp_size == 1:
            tables, in_sequence = [x[:, :seq_len] for x in self.tables], None
        else:
            position, in_sequence = self.positions(seq_len)
            if self.on_the_fly:
                tables = [radians(self.table, position[..., None], dtype)]
            else:
                # cast first: the gradient of a row adds up that of all tokens before it is rounded
                tables = [_rows_at(x.to(dtype), position) for x in self.tables]
        cos, sin = tables[0].to(dtype), tables[-1].to(dtype)
        if self.sin is None:
            cos, sin = cos.cos(), sin.sin()
        if self.attention_factor != 1.0:
            cos, sin = cos * self.attention_factor, sin * self.attention_factor
        if self.one_per_pair:
            cos, sin = (for_both_members(v, self.interleaved) for v in (cos, sin))
        return cos, -sin if self.inverse else sin, in_sequence

    def positions(self, seq_len: int) -> tuple[Tensor, Tensor | None]:
        """Position of each token, (b or 1, s), and whether it is in a sequence (None: all are)."""
        token = torch.arange(seq_len, device=self.table.device)
        position, length, in_sequence, starts = token, seq_len, None, self.start_positions
        if self.cu_seqlens is not None:
            ends = self.cu_seqlens.long() // self.cp_size
            sequence, position, length = find_in_packed(ends, token)
            in_sequence = token < ends[-1]
            starts = None if starts is None else pad(starts, (0, 1))[sequence]
        elif starts is not None:
            starts = starts[:, None]
        position = positions_of_rank(position, length, self.cp_size, self.cp_rank, self.cp_order)
        if self.first_position is not None:
            position = position + self.first_position
        if starts is not None:
            position = position + starts
        if self.position_ids is not None:
            position = self.position_ids.long()
        return position[None] if position.dim() == 1 else position, in_sequence


TENSORS, NAMES = 5, tuple([field.name for field in fields(Rotation)])  # those come first
_options_of = attrgetter(*NAMES[TENSORS:-1])


def _rows_at(table: Tensor, position: Tensor) -> Tensor:
    """Rows of the table at each position, (b or 1, s, columns); NaN past its end."""
    entry, s2 = torch.arange(table.shape[0], device=table.device)[:, None], table.shape[1]
    row = torch.where(position < 0, s2, position).clamp(max=s2)
    return pad(table, (0, 0, 0, 1), value=math.nan)[entry, row]


def positions_of_rank(
    index: Tensor, length: int | Tensor, cp_size: int, cp_rank: int, cp_order: str
) -> Tensor:
    """Positions of tokens that a rank holds, from their indices among the `length` it holds."""
    if cp_size == 1:
        return index
    if cp_order == "contiguous":
        return index + cp_rank * length
    if cp_order == "round_robin":
        return index * cp_size + cp_rank
    # Each sequence has 2 * cp_size chunks. Rank r holds chunk r, and chunk r from the end.
    chunk, from_the_end = length // 2, 2 * cp_size - 2 - cp_rank
    return index + chunk * torch.where(index < chunk, cp_rank, from_the_end)


def chunks_of(cp_size: int, cp_order: str) -> int:
    """A number that has to divide the length of every sequence."""
    return 2 * cp_size if cp_order == "zigzag" and cp_size > 1 else cp_size


def find_in_packed(cu_seqlens: Tensor, token: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which sequence each token of a packed batch is in, its index there, and that one's length.

    `cu_seqlens` counts the tokens that this rank holds. A token past the last sequence has the
    number of the last bound, and length 0.
    """
    sequence = torch.searchsorted(cu_seqlens, token, right=True) - 1
    return sequence, token - cu_seqlens[sequence], pad(cu_seqlens.diff(), (0, 1))[sequence]
