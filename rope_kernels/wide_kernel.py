"""The kernel for half-split rows that are better aligned than their second halves.

`rope_kernel` pads each row to a power of two, and loads its halves separately. With a head
dimension of 72 in bf16, every row is aligned to 16 bytes, but its second half only to 8, and almost
half of the elements that its threads hold are padding. Here a tile consists of lines, and a line
has several whole rows side by side:

    | row 0 | row 1 | row 2 | empty |

A column is an element. Each element is loaded a second time, as the other member of its pair; that
load hits L1.

Read `rope_kernel` in `kernel.py` first. It explains the arguments that have no comment here.
"""

import triton
import triton.language as tl

from .kernel import (
    SIZES,
    find_cos_sin,
    find_positions,
    load_turns,
    my_tile,
    packed_heads,
    rotate_pairs,
    row_pointers,
)


@triton.jit(do_not_specialize=SIZES)
def wide_kernel(
    tensors,
    first_position,
    seq_len,
    batch,
    q_heads,
    k_heads,
    ids_strides,
    table_strides,
    read_strides,
    written_strides,
    table_len,
    sequences,
    cp_size,
    cp_rank,
    C: tl.constexpr,  # `WideConstants`
):
    ROUNDING: tl.constexpr = C.rounding
    ROWS_OF_LINE: tl.constexpr = C.rows // C.lines
    COLUMNS_OF_ROW: tl.constexpr = 2 * C.half + C.tail

    # My tile: rows of q, of k or of v.
    s_block, row_block, b, heads, is_kv, is_v, x_ptr, x_strides, y_ptr, y_strides = my_tile(
        tensors, read_strides, written_strides, seq_len, batch, q_heads, k_heads,
        HAS_V=tensors.v is not None, C=C,
    )  # fmt: skip

    # My columns: each one's row in its line, and its column in that row. After the last row, a line
    # is empty.
    column = tl.arange(0, C.columns)
    row_in_line, column_in_row = column * 0, column
    if C.side_by_side > 1:
        row_in_line, column_in_row = column // COLUMNS_OF_ROW, column % COLUMNS_OF_ROW
        column_in_row += unseen_zero()
    is_filled = column < C.side_by_side * COLUMNS_OF_ROW

    # My positions and rows, in 64 bits, because an offset may exceed 2^31 elements.
    b = b.to(tl.int64)
    first_s = s_block.to(tl.int64) * C.positions
    row = (row_block * C.rows + tl.arange(0, C.lines) * ROWS_OF_LINE)[:, None]
    if C.over_positions:
        s_offset = row_in_line.to(tl.int64)
    else:
        s_offset = tl.arange(0, C.positions).to(tl.int64)
        if C.side_by_side > 1:
            row += row_in_line[None, :]
    s = first_s + s_offset  # (positions,) or (columns,)
    s_exists = s < seq_len
    s_offset = per_token(s_offset, C)
    token_exists = per_token(s_exists, C)
    exists = token_exists[:, None, :] & (row < heads)[None, :, :] & is_filled[None, None, :]
    x_head, y_head = packed_heads(row, is_kv, C)
    x_rows = row_pointers(x_ptr, x_strides, first_s, s_offset, x_head, b, ALIGNED=C.aligned)
    y_rows = row_pointers(y_ptr, y_strides, first_s, s_offset, y_head, b, ALIGNED=C.out_aligned)

    # Load each column's own element, and the other member of its pair.
    element, partner, has_pair = elements_of_rows(column_in_row, is_filled, C)
    x_d_stride, y_d_stride = x_strides[3], y_strides[3]
    start = tl.cast(C.start, tl.int64)
    x_rows += start * x_d_stride
    y_rows += start * y_d_stride
    x1 = tl.load(x_rows + (element * x_d_stride)[None, None, :], exists)
    x2 = tl.load(x_rows + (partner * x_d_stride)[None, None, :], exists)
    if tensors.v is not None:
        if is_v:  # v isn't rotated, only copied.
            tl.store(y_rows + (element * y_d_stride)[None, None, :], x1, exists)
            return

    # ptxas would move the loads above below a search for sequences, and below an exchange between
    # threads that waits for ids. `rope_kernel` says why a barrier prevents it. In calls without
    # either, a barrier costs 1 to 5 points (benchmarks/NOTES.md).
    HAS_IDS: tl.constexpr = tensors.ids is not None
    if tensors.cu_seqlens is not None or (C.on_the_fly and HAS_IDS and not C.over_positions):
        tl.debug_barrier()

    # Cosines and sines of my tokens' angles. Some ten columns have the same pair. On the fly, each
    # pair's frequency is reduced once, and threads exchange the turns, or if a line has one
    # position, cosines and sines. Over positions, this only pays off with many columns, and not
    # while ids are loaded (benchmarks/NOTES.md).
    position, in_sequence = find_positions(
        s, s_exists, b, tensors, first_position, ids_strides, seq_len, sequences, cp_size,
        cp_rank, C=C,
    )  # fmt: skip
    position = per_token(position, C)
    pair = tl.where(element < C.half, element, partner)
    own_pair, own_has_pair, turns = pair, has_pair, None
    PAYS_OFF: tl.constexpr = not C.over_positions or (C.columns > 256 and not HAS_IDS)
    EXCHANGES: tl.constexpr = C.on_the_fly and PAYS_OFF
    if EXCHANGES:
        of_pair = tl.where(has_pair, pair, 0).to(tl.int32)
        own_pair = tl.arange(0, triton.next_power_of_2(C.half))
        own_has_pair = own_pair < C.half
        if C.over_positions:
            turns, turn = load_turns(tensors, own_pair, own_has_pair)
            turns = tl.gather(turns, of_pair, 0), tl.gather(turn, of_pair, 0)
    cos1, sin1, cos2, sin2 = find_cos_sin(
        position, token_exists, b, own_pair, own_has_pair, (element, partner), tensors,
        table_strides, table_len, C=C, turns=turns,
    )  # fmt: skip
    if EXCHANGES and not C.over_positions:
        cos1, sin1 = of_columns(cos1, of_pair), of_columns(sin1, of_pair)
        cos2, sin2 = cos1, sin1

    # Rotate, and store every element once. `rotate_pairs` computes y1 = cos x1 - sin x2, for first
    # members of pairs. Here x1 also contains second members, with their partners in x2: their sine
    # needs the other sign.
    is_first = (element < C.half)[None, None, :]
    sin1, sin2 = tl.where(is_first, sin1, -sin1), tl.where(is_first, sin2, -sin2)
    is_rotated = None
    if tensors.cu_seqlens is not None:
        is_rotated = per_token(in_sequence, C)[:, None, :]
    y1, _ = rotate_pairs(
        x1, x2, cos1, sin1, cos2, sin2, is_rotated,
        TRANSPOSE=C.transpose, ROUNDING=ROUNDING, COMPUTES_COS_SIN=tensors.sin is None,
        RETURNED=tensors.q_out.dtype.element_ty,
    )  # fmt: skip
    if C.tail > 0:
        y1 = tl.where(has_pair[None, None, :], y1, x1)
    if C.in_place:
        # Two threads load each element. Both must have it before one of them overwrites it.
        tl.debug_barrier()
    tl.store(y_rows + (element * y_d_stride)[None, None, :], y1, exists)


@triton.jit
def per_token(x, C: tl.constexpr):
    """Values per token, (positions,) or (columns,), as (positions, 1) or (1, columns)."""
    return x[None, :] if C.over_positions else x[:, None]


@triton.jit
def of_columns(values, of_pair):
    """Each column's value: that of its pair, among `values`, (positions, 1, pairs)."""
    if values.shape[0] == 1:  # Triton 3.7 can't compile all gathers with three dimensions.
        return tl.gather(tl.reshape(values, (values.shape[2],)), of_pair, 0)[None, None, :]
    values = tl.reshape(values, (values.shape[0], values.shape[2]))
    of_pair = tl.broadcast_to(of_pair[None, :], (values.shape[0], of_pair.shape[0]))
    return tl.gather(values, of_pair, 1)[:, None, :]


@triton.jit
def unseen_zero():
    """A 0 that the compiler can't see, because grids have one dimension: a multiple of 65536.

    This works around a compiler bug. LLVM computes the remainder of a small number in 16 bits, and
    adds to two of them at a time (`add.s16x2`). ptxas 12.8 for sm_90 then compares the halves as if
    nothing had been added. With this zero, sums have 32 bits or more.
    """
    return tl.program_id(1) * 65536


@triton.jit
def elements_of_rows(column_in_row, is_filled, C: tl.constexpr):
    """For each column: its element, the other member of its pair, and whether it has a pair.

    Elements are counted from `C.start`. An element of the tail is its own partner. Without a tail,
    the columns of a row are its rotary slice, which starts at `C.start`.
    """
    element = column_in_row.to(tl.int64) - (C.start if C.tail > 0 else 0)
    has_pair = (element >= 0) & (element < 2 * C.half)
    partner = tl.where(element < C.half, element + C.half, element - C.half)
    if C.tail > 0:
        partner = tl.where(has_pair, partner, element)
    return element, partner, is_filled & has_pair
