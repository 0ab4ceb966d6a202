"""What turns, by which angles, and where each token is."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..embedding import for_both_members, radians
from .arguments import getter_of
from .positions import positions_of


class Normalization(NamedTuple):
    """RMS norm of rows, as one call asks for it. `api.norm_rope` says what the words mean."""

    eps: float
    weight_offset: float  # is added to the weight
    after: bool  # normalizes the rotated row
    like_model: bool  # rounds where a model in PyTorch does, not once
    casts_last: bool  # a model that rounds after the weight, and not before it


@dataclass(slots=True)
class Rotation:
    """The linear map of one call: what checked arguments say, in one form for every format."""

    # radians (s2, 1, 1, w), cosines (s2, w) or (b, s2, w), or turns (d2 / 2,); w is d2 or d2 / 2
    table: Tensor
    sin: Tensor | None = None  # sines, if the table holds cosines
    cu_seqlens: Tensor | None = None  # (sequences + 1,)
    start_positions: Tensor | None = None  # (b,) or (sequences,)
    position_ids: Tensor | None = None  # (b or 1, s) or (tokens,)
    tensor_format: str = "sbhd"
    interleaved: bool = False
    cp_size: int = 1
    cp_rank: int = 0
    cp_order: str = "zigzag"
    transpose: bool = False  # the transposed map, which takes gradients back
    one_per_pair: bool = False  # column i of the table belongs to pair i, not to element i
    rotary_start: int = 0  # the first element that turns
    inverse: bool = False  # by minus the angle: every sine is negated
    to_half_split: bool = False  # reads interleaved pairs, writes half-split ones
    rounding: str = "once"  # where values are rounded to the dtype of what turns
    attention_factor: float = 1.0  # of cos and sin that are computed from turns
    promoted_from: str = ""  # a dtype: forward reads it and returns that of the table, back reverts
    keeps_strides: bool = False  # of what turns, as operators do; not of gradients
    norm: Normalization | None = None  # of rows, beside the rotation

    @classmethod
    def of(
        cls, values: Iterable[Tensor | str | bool | int | float | Normalization | None]
    ) -> "Rotation":
        """The rotation that has these `tensors`, and then these `options`."""
        return cls(*values)

    def transposed(self) -> "Rotation":
        """The map that takes gradients back, or, of such a map, the first one."""
        back = Rotation.of((*self.tensors, *self.options))  # faster than `dataclasses.replace`
        back.transpose = not self.transpose
        return back

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """The fields that are tensors, in their order."""
        return _tensors_of(self)

    @property
    def where(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Those that say where tokens are."""
        return self.cu_seqlens, self.start_positions, self.position_ids

    @property
    def options(self) -> tuple[str | bool | int | float | Normalization | None, ...]:
        """The fields that are not tensors, in their order."""
        return _options_of(self)

    @property
    def on_the_fly(self) -> bool:
        """Whether angles are computed from turns instead of read from a table."""
        return self.table.dim() == 1

    @property
    def rotary_dim(self) -> int:
        """d2."""
        return self.table.shape[-1] * (2 if self.on_the_fly or self.one_per_pair else 1)

    @property
    def pairings(self) -> tuple[bool, bool]:
        """Whether pairs are interleaved in what is read, and in what is written."""
        given, returned = self.interleaved, self.interleaved and not self.to_half_split
        return (returned, given) if self.transpose else (given, returned)

    @property
    def tables(self) -> tuple[Tensor, ...]:
        """Angles, or cosines and sines, each (b or 1, s2, d2); or d2 / 2 wide."""
        tables = (self.table,) if self.sin is None else (self.table, self.sin)
        return tuple(x if x.dim() == 3 else x.flatten(1)[None] for x in tables)

    @property
    def per_batch(self) -> bool:
        """Whether each entry of a dense batch has its own angles."""
        own_starts = self.start_positions is not None and self.cu_seqlens is None
        ids = self.position_ids
        own_ids = ids is not None and ids.dim() == 2 and ids.shape[0] > 1
        return own_starts or own_ids or (self.table.dim() == 3 and self.table.shape[0] != 1)

    @property
    def looks_up_positions(self) -> bool:
        """Whether a token's position is known only after loading its sequence, start or id."""
        has_ids = self.position_ids is not None
        return has_ids or self.cu_seqlens is not None or self.start_positions is not None

    def cos_sin(self, seq_len: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None]:
        """cos and sin, (b or 1, s, d2), NaN past the table; and whether tokens are in sequences."""
        if not (self.on_the_fly or self.looks_up_positions or self.cp_size > 1):
            tables, in_sequence = [x[:, :seq_len] for x in self.tables], None
        else:
            position, in_sequence = positions_of(self, seq_len)
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
        if self.on_the_fly or self.one_per_pair:
            cos, sin = (for_both_members(v, self.interleaved) for v in (cos, sin))
        return cos, -sin if self.inverse else sin, in_sequence


_TYPES = {field.name: field.type for field in fields(Rotation)}
TENSORS = tuple(takewhile(lambda name: _TYPES[name] in (Tensor, Tensor | None), _TYPES))
OPTIONS = tuple(_TYPES)[len(TENSORS) :]
FIELDS = TENSORS + OPTIONS
_tensors_of, _options_of = getter_of(TENSORS), getter_of(OPTIONS)


def _rows_at(table: Tensor, position: Tensor) -> Tensor:
    """Rows of the table at each position, (b or 1, s, columns); NaN past its end."""
    entry, s2 = torch.arange(table.shape[0], device=table.device)[:, None], table.shape[1]
    row = torch.where(position < 0, s2, position).clamp(max=s2)
    return pad(table, (0, 0, 0, 1), value=math.nan)[entry, row]


# What a rotation returns


def returned_dtype(rotation: Rotation, t: Tensor) -> torch.dtype:
    """That of the result, from what turns: another one only if the rotation promotes."""
    if not rotation.promoted_from:
        return t.dtype
    return getattr(torch, rotation.promoted_from) if rotation.transpose else rotation.table.dtype


def memory_for(tensors: tuple[Tensor, ...], rotation: Rotation) -> tuple[Tensor, ...]:
    """Empty tensors for the results of one launch."""
    keeps = rotation.keeps_strides and not rotation.transpose
    kind = torch.preserve_format if keeps else torch.contiguous_format
    dtype = returned_dtype(rotation, tensors[0])
    return tuple([torch.empty_like(t, dtype=dtype, memory_format=kind) for t in tensors])
