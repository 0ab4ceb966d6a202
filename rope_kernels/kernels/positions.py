"""Parts of kernels that say where tokens are: sequences of a packed batch, starts, ids, ranks."""

import triton
import triton.language as tl


@triton.jit
def find_sequences(
    token,  # (positions,) or (columns,) int64: indices into the packed batch
    cu_seqlens_ptr,  # (sequences + 1,) int32 or int64: sequence starts, then the last end
    sequences,  # number of packed sequences
    cp_size,  # ranks that share every sequence evenly
    PROBES: tl.constexpr,  # starts compared in one step of the search, a power of two
):
    """Each token's sequence, that sequence's start and length, and whether the token is in one."""
    # The last start <= token is `low` or one of the `span` starts after it (empty sequences share
    # their start with the next one). A step compares PROBES evenly spaced starts at once: every
    # step waits for memory, so fewer steps are faster, even with more loads.
    low = token * 0
    span = sequences
    while span > 0:
        apart = (span - 1) // PROBES + 1
        probe = low[:, None] + apart * tl.arange(1, PROBES + 1)[None, :]
        start = tl.load(cu_seqlens_ptr + probe, probe <= sequences, other=0).to(tl.int64)
        before = (start <= (token * cp_size)[:, None]) & (probe <= sequences)
        low += apart * tl.sum(before.to(tl.int64), 1)
        span = apart - 1
    in_sequence = token * cp_size < tl.load(cu_seqlens_ptr + sequences).to(tl.int64)
    in_sequence &= low < sequences  # if the first start is not 0
    start = tl.load(cu_seqlens_ptr + low).to(tl.int64)
    end = tl.load(cu_seqlens_ptr + low + 1, in_sequence, other=0).to(tl.int64)
    return low, start // cp_size, (end - start) // cp_size, in_sequence


@triton.jit
def find_positions(tokens, given):
    """Each token's position in its sequence, int64, and whether it is in a sequence."""
    s, s_exists, b = tokens
    cp = given.cp
    sequence, start, length, in_sequence = s * 0 + b, 0, given.seq_len, s_exists
    if given.cu_seqlens_ptr is not None:
        cp_size = 1 if cp is None else cp.size
        block_s: tl.constexpr = s.shape[0]
        probes: tl.constexpr = 32 // block_s if block_s < 16 else 2  # one per thread of a warp
        sequence, start, length, in_sequence = find_sequences(
            s, given.cu_seqlens_ptr, given.sequences, cp_size, probes
        )
    position = s - start
    if cp is not None:
        if len(cp) == 2:
            # `TwoChunks`: each sequence has 2 * cp_size chunks; rank r holds chunk r, and chunk r
            # from the end.
            chunk = length // 2
            counted_back = 2 * cp.size.to(tl.int64) - 2 - cp.rank
            position += tl.where(position < chunk, cp.rank, counted_back) * chunk
        else:
            of_chunk = position + (position * 0 + length) * cp.rank
            position = tl.where(cp.apart == 0, of_chunk, position * cp.apart + cp.rank)
    if given.starts_ptr is not None:
        position += tl.load(given.starts_ptr + sequence, in_sequence, other=0).to(tl.int64)
    if given.ids_ptr is not None:
        id_ptr = given.ids_ptr + b * given.ids_strides[0] + s * given.ids_strides[1]
        position = tl.load(id_ptr, s_exists, other=0).to(tl.int64)
    return position, in_sequence
