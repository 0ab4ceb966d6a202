"""A second kernel, for half-split pairs that `rope_kernel` would read badly.

Head dimension 72 in bf16: a row has 144 bytes, so every row is aligned to 16 bytes, and a thread
can load 16 at once. The second half of a row starts at byte 72, so `rope_kernel` would load and
store 8 bytes at a time, in tiles of 64 pairs a row, 28 of them empty. This kernel takes whole rows,
and several side by side: 7 of them fill 504 of 512 elements. It loads every element, and a second
time as the other member of its pair; that load comes from L1.
"""

import triton
import triton.language as tl

from .angles import cos_sin, cos_sin_of_both
from .parts import per_token, rows_of_program, unseen_zero
from .positions import positions


@triton.jit
def partner_of(
    element,  # (BLOCK,) int64: index in the rotary slice
    HALF: tl.constexpr,  # number of pairs
    TAIL: tl.constexpr,  # elements passed through
):
    """The other member of each element's pair; outside the slice, the element itself."""
    partner = tl.where(element < HALF, element + HALF, element - HALF)
    if TAIL > 0:
        partner = tl.where((element >= 0) & (element < 2 * HALF), partner, element)
    return partner


@triton.jit
def turn_element(
    x,  # elements, in the stored dtype
    other,  # the other member of each pair
    cos,  # of each element
    sin,  # of each element; for the transposed map, of the other member
    is_first,  # whether the element is the first member of its pair
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    INVERSE: tl.constexpr,  # negate the sines
):
    """Rotate every element in the dtype of its cosine, and round once; the same bits as `turn`."""
    sin = tl.where(is_first, -sin, sin) if TRANSPOSE == INVERSE else tl.where(is_first, sin, -sin)
    return tl.fma(x.to(cos.dtype), cos, other.to(cos.dtype) * sin).to(x.dtype)


@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "sequences"])
def whole_rows_kernel(
    q_ptr,  # input, viewed as (s, b, h, d)
    k_ptr,  # second input, of any strides too, or None
    q_out_ptr,  # outputs, of any strides too; they may be the inputs
    k_out_ptr,
    table_ptr,  # angles or cosines, (b, s2, columns); or int64, (d2 / 2,): 2^-64 turns a position
    sin_ptr,  # sines, if the table holds cosines, or None
    cu_seqlens_ptr,  # (sequences + 1,): where packed sequences start, and the last ends; or None
    starts_ptr,  # (b,) or (sequences,): position of the first token of each sequence; or None
    ids_ptr,  # (b, s): position of each token; or None
    seq_len,  # s, or the number of packed tokens
    batch,  # b
    q_heads,  # h of q
    k_heads,  # h of k
    s2,  # positions in the table
    sequences,  # number of packed sequences
    cp,  # (cp_size, cp_rank): this rank has two chunks of every sequence; or None
    q_strides,  # of s, b, h, d; in elements, any
    k_strides,
    q_out_strides,
    k_out_strides,
    table_strides,  # of b, s, d; any
    ids_strides,  # of b, s; any
    HALF: tl.constexpr,  # d2 / 2, number of pairs
    TAIL: tl.constexpr,  # elements passed through: d - d2, or 0 in place
    START: tl.constexpr,  # the first element that turns
    FIRST: tl.constexpr,  # the first element to read and write: 0, or START in place
    BLOCK_S: tl.constexpr,  # blocks of a program over positions, a power of two
    BLOCK_R: tl.constexpr,  # blocks of a program over rows, a power of two
    BLOCK: tl.constexpr,  # elements of the rows side by side, rounded up to a power of two
    ROWS_PER_BLOCK: tl.constexpr,  # rows side by side
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    INVERSE: tl.constexpr,  # negate the sines
    ONE_PER_PAIR: tl.constexpr,  # column i of the table belongs to pair i
    PER_BATCH: tl.constexpr,  # a program has rows of one batch entry; False: all share their angles
    ROWS_OUTER: tl.constexpr,  # order of programs: positions run faster than rows, not slower
    STRETCH: tl.constexpr,  # blocks of positions that all rows finish before the next ones begin
    FAST_SINE: tl.constexpr,  # fewer steps, which the interpreter and fp64 cannot take
    ALIGNED: tl.constexpr,  # bytes that divide every address of a row; 0: what the compiler sees
    OUT_ALIGNED: tl.constexpr,  # the same of the outputs
    TABLE_UNIT: tl.constexpr,  # elements in which the table's strides of b and s are counted
    IN_PLACE: tl.constexpr,  # the outputs are the inputs
    OVER_POSITIONS: tl.constexpr,  # rows side by side are one head at so many positions
):
    # Which row each column is of, and which element of it: no column is left empty between rows.
    WIDTH: tl.constexpr = 2 * HALF + TAIL
    column = tl.arange(0, BLOCK)
    row_in_block = column // WIDTH
    element = (column % WIDTH + unseen_zero()).to(tl.int64) + (FIRST - START)
    in_block = column < ROWS_PER_BLOCK * WIDTH

    t_pointers, out_pointers, t_stride, out_stride, exists, s, s_exists, b = rows_of_program(
        (q_ptr, q_out_ptr, q_heads, q_strides, q_out_strides),
        (k_ptr, k_out_ptr, k_heads, k_strides, k_out_strides),
        *(seq_len, batch, BLOCK_S, BLOCK_R),
        *(PER_BATCH, ROWS_OUTER, STRETCH, ALIGNED, OUT_ALIGNED),
        *(row_in_block, ROWS_PER_BLOCK, OVER_POSITIONS),
    )

    # Read every element, and once more as the other member of its pair.
    other = partner_of(element, HALF, TAIL)
    mask = exists & in_block[None, None, :]
    slices = t_pointers + tl.full((), START, tl.int64) * t_stride
    stored = tl.load(slices + (element * t_stride)[None, None, :], mask)
    stored_other = tl.load(slices + (other * t_stride)[None, None, :], mask)

    # A barrier keeps these loads above the search, as in `rope_kernel`.
    if cu_seqlens_ptr is not None:
        tl.debug_barrier()

    # Rotate in fp32 (fp64 for fp64), and round once.
    position, in_sequence = positions(
        s, s_exists, b, seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, ids_strides, cp
    )
    turns = in_block
    if TAIL > 0:
        turns = in_block & (element >= 0) & (element < 2 * HALF)
    table = table_ptr, sin_ptr, table_strides, s2
    token = per_token(position, OVER_POSITIONS), per_token(s_exists, OVER_POSITIONS), b, table
    if BLOCK_S == 1 and not OVER_POSITIONS:  # in one dimension, no two warps evaluate the same sine
        token = tl.broadcast_to(position, (BLOCK,)), tl.broadcast_to(s_exists, (BLOCK,)), b, table
    dtype: tl.constexpr = q_ptr.dtype.element_ty
    if ONE_PER_PAIR:
        pair_of = tl.where(element < HALF, element, element - HALF)
        cos, sin = cos_sin(token, TABLE_UNIT, pair_of, turns, dtype, FAST_SINE)
    elif TRANSPOSE:
        cos, _, _, sin = cos_sin_of_both(token, TABLE_UNIT, element, other, turns, dtype, FAST_SINE)
    else:
        cos, sin = cos_sin(token, TABLE_UNIT, element, turns, dtype, FAST_SINE)
    is_first = (element < HALF)[None, None, :]
    y = turn_element(stored, stored_other, cos, sin, is_first, TRANSPOSE, INVERSE)
    if TAIL > 0:
        y = tl.where(turns[None, None, :], y, stored)
    if cu_seqlens_ptr is not None:  # tokens past the last sequence pass through
        y = tl.where(per_token(in_sequence, OVER_POSITIONS)[:, None, :], y, stored)

    # Write every element once. In place another thread may still need the old value.
    if IN_PLACE:
        tl.debug_barrier()
    slices = out_pointers + tl.full((), START, tl.int64) * out_stride
    tl.store(slices + (element * out_stride)[None, None, :], y, mask)
