"""By which angle each token turns: the arguments that say so in one form, and in plain PyTorch."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .frequencies import for_both_members, radians


class Angles(NamedTuple):
    """What `check_arguments` makes of the arguments: tensors first, then the rest."""

    # radians, (s2, 1, 1, d2); cosines, (s2, d2) or (b, s2, d2); or turns a position, (d2 / 2,)
    table: Tensor
    sin: Tensor | None  # sines, if the table holds cosines
    cu_seqlens: Tensor | None  # (sequences + 1,)
    start_positions: Tensor | None  # (b,), or (sequences,)
    position_ids: Tensor | None  # (b or 1, s), or (tokens,)
    tensor_format: str
    interleaved: bool
    cp_size: int
    cp_rank: int
    known: dict | None = None  # `kinds.known_of` this call

    @property
    def on_the_fly(self) -> bool:
        """Are angles computed from turns, instead of read from a table?"""
        return self.table.dim() == 1

    @property
    def rotary_dim(self) -> int:
        """d2."""
        return self.table.shape[-1] * (2 if self.on_the_fly else 1)

    @property
    def rows(self) -> list[Tensor]:
        """Tables of angles, or of cosines and of sines: (b or 1, s2, d2)."""
        tables = [x for x in self[:2] if x is not None]
        return [x if x.dim() == 3 else x.flatten(1)[None] for x in tables]

    @property
    def per_batch(self) -> bool:
        """Does each entry of a dense batch have angles of its own?"""
        own_starts = self.start_positions is not None and self.cu_seqlens is None
        ids = self.position_ids
        own_ids = ids is not None and ids.dim() == 2 and ids.shape[0] > 1
        return own_starts or own_ids or (self.table.dim() == 3 and self.table.shape[0] != 1)

    @property
    def are_looked_up(self) -> bool:
        """Is a token's position known only after a load: of its sequence, its start, or its id?"""
        return any(x is not None for x in self[2:5])

    def positions(self, seq_len: int) -> tuple[Tensor, Tensor | None]:
        """Position of each token, (b or 1, s), and whether it lies in a sequence (None: all do)."""
        token = torch.arange(seq_len, device=self.table.device)
        position, length, in_sequence, starts = token, seq_len, None, self.start_positions
        if self.cu_seqlens is not None:
            ends = self.cu_seqlens.long() // self.cp_size
            sequence = torch.searchsorted(ends, token, right=True) - 1
            position, length = token - ends[sequence], pad(ends.diff(), (0, 1))[sequence]
            in_sequence = token < ends[-1]
            starts = None if starts is None else pad(starts, (0, 1))[sequence]
        elif starts is not None:
            starts = starts[:, None]
        if self.cp_size > 1:
            # of 2 cp_size chunks, rank r has number r and, counted from the end, number r again
            chunk, last = length // 2, 2 * self.cp_size - 2 - self.cp_rank
            position = position + chunk * torch.where(position < chunk, self.cp_rank, last)
        if starts is not None:
            position = position + starts
        if self.position_ids is not None:
            position = self.position_ids.long()
        return position if position.dim() == 2 else position[None], in_sequence

    def cos_sin(self, seq_len: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
        """cos and sin, (b or 1, s, d2), NaN past the table; and `positions`' second result."""
        if not (self.on_the_fly or self.are_looked_up or self.cp_size > 1):
            rows, in_sequence = [x[:, :seq_len] for x in self.rows], None
        else:
            position, in_sequence = self.positions(seq_len)
            if self.on_the_fly:
                rows = [for_both_members(radians(self.table, position, dtype), self.interleaved)]
            else:
                rows = [_rows_at(x, position) for x in self.rows]
        cos, sin = rows[0].to(dtype), rows[-1].to(dtype)
        return (cos.cos(), sin.sin(), in_sequence) if self.sin is None else (cos, sin, in_sequence)

    def add_rows(self, rows: Tensor) -> Tensor:
        """Add up the rows, (b or 1, s, n), of all tokens at a position: (b or 1, s2, n).

        That is the gradient of taking rows from tables. Outside torch.compile, `index_put` sorts
        on a GPU before it adds, so the order of addition is always the same.
        """
        seq_len, (entries, s2) = rows.shape[1], self.rows[0].shape[:2]
        if not (self.are_looked_up or self.cp_size > 1):
            return pad(rows, (0, 0, 0, s2 - seq_len))
        position, in_sequence = self.positions(seq_len)
        counts = (position >= 0) & (position < s2)
        counts = counts if in_sequence is None else counts & in_sequence
        entry = torch.arange(entries, device=rows.device)[:, None]
        # others are added to a row behind the last
        index = torch.broadcast_tensors(entry, torch.where(counts, position, s2))
        zeros = rows.new_zeros(entries, s2 + 1, rows.shape[2])
        return zeros.index_put(index, rows, accumulate=True)[:, :s2]


def _rows_at(table: Tensor, position: Tensor) -> Tensor:
    """Rows of the table at each position, (b or 1, s, d2); NaN past its end."""
    entry, s2 = torch.arange(table.shape[0], device=table.device)[:, None], table.shape[1]
    row = torch.where(position < 0, s2, position).clamp(max=s2)
    return pad(table, (0, 0, 0, 1), value=math.nan)[entry, row]
