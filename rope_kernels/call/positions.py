"""The position of each token, by what a call says of sequences, starts, ids and ranks.

Ranks of context parallelism share a sequence in one of three orders. With n ranks and a sequence of
s tokens, rank r holds s / n of them:
- zigzag: chunks number r and 2n - 1 - r of 2n equal chunks. With a causal mask all ranks then have
  equally much to do. TransformerEngine, Megatron-LM, and PyTorch's `context_parallel`.
- contiguous: chunk number r of n. Megatron-LM's `cp_partition_mode="contiguous"`.
- round_robin: tokens r, r + n, r + 2n, ... SGLang's `round-robin-split`.

Packed sequences are shared one by one, in the same way.
"""

from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

if TYPE_CHECKING:
    from .rotation import Rotation

CpOrder = Literal["zigzag", "contiguous", "round_robin"]
CP_ORDERS: tuple[str, ...] = get_args(CpOrder)


def positions_of(rotation: "Rotation", seq_len: int) -> tuple[Tensor, Tensor | None]:
    """Position of each token, (b or 1, s), and whether it is in a sequence (None: all are)."""
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
    return position[None] if position.dim() == 1 else position, in_sequence


def positions_of_rank(
    index: Tensor, length: int | Tensor, cp_size: int, cp_rank: int, cp_order: str
) -> Tensor:
    """Positions in their sequence of the tokens that a rank holds.

    Args:
        index: of tokens among those of their sequence that the rank holds.
        length: how many of their sequence it holds.
        cp_size, cp_rank, cp_order: as in `api.apply_rotary_pos_emb`.
    """
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


def rank_of_last(cp_size: int, cp_order: str) -> int:
    """The rank that holds the last position of a sequence. Rank 0 holds the first."""
    return 0 if cp_order == "zigzag" else cp_size - 1


def find_in_packed(cu_seqlens: Tensor, token: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Which sequence each token of a packed batch is in, its index there, and that one's length.

    `cu_seqlens` counts the tokens that this rank holds. A token past the last sequence has the
    number of the last bound, and length 0.
    """
    sequence = torch.searchsorted(cu_seqlens, token, right=True) - 1
    return sequence, token - cu_seqlens[sequence], pad(cu_seqlens.diff(), (0, 1))[sequence]
