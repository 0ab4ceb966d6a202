"""`cp_positions`, which tells a rank of context parallelism where its tokens are."""

import torch
from torch import Tensor

from .checks import bad, check_integer, check_lengths, check_rank, check_tensor
from .cp_orders import CpOrder, chunks_of, find_in_packed, positions_of_rank


def cp_positions(
    seq_len: int | None = None,
    *,
    cp_size: int,
    cp_rank: int,
    cp_order: CpOrder = "zigzag",
    cu_seqlens: Tensor | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Positions of the tokens that a rank of context parallelism holds, in the order it holds them.

    `cp_size`, `cp_rank` and `cp_order` of a call make a kernel compute these. As `position_ids`
    they do the same. Of a whole sequence `x[positions]` is what the rank holds.

    Args:
        seq_len: tokens of the whole sequence, which 2 * cp_size ('zigzag') or cp_size divides.
        cp_size, cp_rank, cp_order: as in `apply_rotary_pos_emb`.
        cu_seqlens: instead of `seq_len`, of packed sequences: (sequences + 1,), int32 or int64, as
            in `apply_rotary_pos_emb`. Its values are read, so the CPU waits for a GPU that has it.
        device: of the result; None: that of `cu_seqlens`, or PyTorch's default.

    Returns:
        int64, (seq_len / cp_size,), or (tokens / cp_size,) with `cu_seqlens`; each position counts
        from 0 in its sequence.

    Raises:
        TypeError: a bool where an integer is expected, or `cu_seqlens` has another dtype.
        ValueError: the order is not known, or the ranks cannot share the sequences.
    """
    check_rank(cp_size, cp_rank, cp_order)
    if (seq_len is None) == (cu_seqlens is None):
        came = "seq_len is None" if seq_len is None else f"seq_len is {seq_len} with cu_seqlens"
        raise bad(came, "one of seq_len and cu_seqlens")
    chunks, most = chunks_of(cp_size, cp_order), 2**62
    if cu_seqlens is None:
        accepted = f"an integer from 0 that {chunks} divides"
        check_integer("seq_len", seq_len, 0, most, accepted)
        if seq_len % chunks:
            raise bad(f"seq_len is {seq_len}", accepted)
        index = torch.arange(seq_len // cp_size, device=device)
        return positions_of_rank(index, seq_len // cp_size, cp_size, cp_rank, cp_order)
    bounds = check_tensor("cu_seqlens", cu_seqlens, (torch.int32, torch.int64)).long()
    if bounds.dim() != 1 or not len(bounds):
        raise bad(f"cu_seqlens has shape {tuple(cu_seqlens.shape)}", "(b + 1,)")
    tokens = int(bounds[-1])
    check_lengths(cu_seqlens, tokens, cp_size, cp_order)
    token = torch.arange(tokens // cp_size, device=bounds.device)
    _, index, length = find_in_packed(bounds // cp_size, token)
    return positions_of_rank(index, length, cp_size, cp_rank, cp_order).to(device)
