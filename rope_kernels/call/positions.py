"""The position of each token, by what a call says of sequences, starts, ids and ranks."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from .cp_orders import find_in_packed, positions_of_rank

if TYPE_CHECKING:
    from .rotation import Rotation


def positions_of(rotation: "Rotation", seq_len: int) -> tuple[Tensor, Tensor | None]:
    """Position of each token, (b or 1, s), and whether it is in a sequence (None: all are).

    With `axes` a token has one on each axis, (axes, b or 1, s).
    """
    token = torch.arange(seq_len, device=rotation.table.device)
    position, length, in_sequence, starts = token, seq_len, None, rotation.start_positions
    if rotation.cu_seqlens is not None:
        ends = rotation.cu_seqlens.long() // rotation.cp_size
        sequence, position, length = find_in_packed(ends, token)
        in_sequence = token < ends[-1]
        starts = None if starts is None else pad(starts, (0, 1))[sequence]
    elif starts is not None:
        starts = starts[:, None]
    position = positions_of_rank(
        position, length, rotation.cp_size, rotation.cp_rank, rotation.cp_order
    )
    if starts is not None:
        position = position + starts
    if rotation.position_ids is not None:
        position = rotation.position_ids.long()
    packed = position.dim() == (1 if rotation.axes is None else 2)
    return position.unsqueeze(-2) if packed else position, in_sequence


def shape_of_kept(rotation: "Rotation", tokens: int) -> tuple[int, ...]:
    """Of the positions of packed tokens that a forward keeps: that of `position_ids`."""
    return (tokens,) if rotation.axes is None else (rotation.position_ids.shape[0], tokens)
