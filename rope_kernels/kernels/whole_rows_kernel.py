"""A second kernel, for half-split pairs that `rope_kernel` would read badly.

Head dimension 72 in bf16: a row has 144 bytes, so every row is aligned to 16 bytes, and a thread
can load 16 at once. The second half of a row starts at byte 72, so `rope_kernel` would load and
store 8 bytes at a time, in tiles that are partly empty. This kernel takes whole rows,
and several side by side: 7 of them fill 504 of 512 elements. It loads every element, and a second
time as the other member of its pair; that load comes from L1.
"""

import triton
import triton.language as tl

from .angles import cos_sin, cos_sin_of_both
from .parts import from_element, per_token, product, rows_of_program, unseen_zero
from .positions import find_positions
from .values import Columns, GivenPositions, Memory, Sizes, Table, TableRows


@triton.jit
def elements_of_block(
    head: tl.constexpr,
    SIDE_BY_SIDE: tl.constexpr,  # rows in a block
    IN_PLACE: tl.constexpr,  # rows without their tail
):
    """The `Columns` of a block of whole rows, none left empty between them.

    Elements are counted from the first one that turns.
    """
    WIDTH: tl.constexpr = 2 * head.half + head.tail
    FIRST: tl.constexpr = 0 if IN_PLACE else -head.start
    column = tl.arange(0, head.columns)
    element = (column % WIDTH + unseen_zero()).to(tl.int64) + FIRST
    return Columns(element, column // WIDTH, column < SIDE_BY_SIDE * WIDTH)


@triton.jit
def table_rows_of_columns(position, tokens, COLUMNS: tl.constexpr, tile: tl.constexpr):
    """`TableRows` of a tile's tokens. Of a single one, for each of its COLUMNS: in one dimension.

    Then no two warps evaluate the same sine.
    """
    if tile.positions == 1 and not tile.over_positions:
        at = TableRows(
            tl.broadcast_to(position, (COLUMNS,)),
            tl.broadcast_to(tokens.exists, (COLUMNS,)),
            tokens.b,
        )
    else:
        at = TableRows(
            per_token(position, tile.over_positions),
            per_token(tokens.exists, tile.over_positions),
            tokens.b,
        )
    return at


@triton.jit
def partner_of(
    element,  # (columns,) int64: index in the rotary slice
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
    x,  # elements
    other,  # the other member of the pair of each
    cos_sin,  # of each element; for the transposed map, the sine of the other member
    is_first,  # whether the element is the first member of its pair
    BACK: tl.constexpr,  # the other way round: transposed or inverse, but not both
    STORED: tl.constexpr,  # the dtype of the results
    steps: tl.constexpr,
):
    """Rotate every element in the dtype of its cosine; the same bits as `turn`, `turn_in_steps`."""
    cos, sin = cos_sin
    if steps.fused:
        sin = tl.where(is_first, sin, -sin) if BACK else tl.where(is_first, -sin, sin)
        y = tl.fma(x.to(cos.dtype), cos, other.to(cos.dtype) * sin)
    else:
        of_cos, of_sin = product(x, cos, STORED, steps), product(other, sin, STORED, steps)
        y = tl.where(is_first == BACK, of_cos + of_sin, of_cos - of_sin)
    return y.to(STORED)


# No value of these is compiled in: a new length or table compiles no new kernel.
@triton.jit(do_not_specialize=["seq_len", "batch", "q_heads", "k_heads", "s2", "sequences"])
def whole_rows_kernel(
    q_ptr,  # input, viewed as (s, b, h, d)
    k_ptr,  # second input, or None
    q_out_ptr,  # outputs; they may be the inputs
    k_out_ptr,
    table_ptr,  # angles or cosines, (b, s2, columns); or int64 frequencies, see `angle_from_turns`
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
    cp,  # context parallelism, `TwoChunks` or `EvenlyApart`; or None
    strides,  # `RopeStrides`
    head: tl.constexpr,  # `Head`: which elements turn; its block holds whole rows side by side
    tile: tl.constexpr,  # `Tile`: how much a program takes
    order: tl.constexpr,  # `Order`: which tile it takes
    lookup: tl.constexpr,  # `Lookup`: how it finds cosines and sines
    steps: tl.constexpr,  # `Steps`: what is rounded
    TRANSPOSE: tl.constexpr,  # False: forward. True: the transposed map, for gradients
    IN_PLACE: tl.constexpr,  # the outputs are the inputs, and only the rotary slice is touched
):
    STORED: tl.constexpr = q_ptr.dtype.element_ty
    RETURNED: tl.constexpr = q_out_ptr.dtype.element_ty
    PACKED: tl.constexpr = cu_seqlens_ptr is not None
    q, k = Memory(q_ptr, strides.q), Memory(k_ptr, strides.k)
    q_out, k_out = Memory(q_out_ptr, strides.q_out), Memory(k_out_ptr, strides.k_out)
    sizes = Sizes(seq_len, batch, q_heads, k_heads)
    table = Table(table_ptr, sin_ptr, strides.table, s2)
    given = GivenPositions(seq_len, cu_seqlens_ptr, sequences, starts_ptr, ids_ptr, strides.ids, cp)

    # My tile: elements of some rows of q or of k, at some tokens.
    elements = elements_of_block(head, tile.side_by_side, IN_PLACE)
    t, out, tokens = rows_of_program(
        tl.program_id(0), q, k, q_out, k_out, sizes, elements, tile, order
    )

    # Read every element, and once more as the other member of its pair.
    element, _, in_block = elements
    other = partner_of(element, head.half, head.tail)
    exists = t.exists & in_block[None, None, :]
    x_ptr = from_element(t, head.start)
    x = tl.load(x_ptr + (element * t.stride)[None, None, :], exists)
    x_other = tl.load(x_ptr + (other * t.stride)[None, None, :], exists)

    # A barrier keeps these loads above the search, as in `rope_kernel`.
    if PACKED:
        tl.debug_barrier()

    # Cosines and sines of the angles of my tokens.
    position, in_sequence = find_positions(tokens, given)
    does_turn = in_block
    if head.tail > 0:
        does_turn = in_block & (element >= 0) & (element < 2 * head.half)
    at = table_rows_of_columns(position, tokens, head.columns, tile)
    columns = Columns(element, elements.row, does_turn)
    if lookup.one_per_pair:
        pair = tl.where(element < head.half, element, element - head.half)
        columns = Columns(pair, elements.row, does_turn)
        cos, sin = cos_sin(at, table, columns, lookup, STORED)
    elif TRANSPOSE:
        both = cos_sin_of_both(at, table, columns, other, lookup, STORED)
        cos, sin = both.cos1, both.sin2
    else:
        cos, sin = cos_sin(at, table, columns, lookup, STORED)

    # Turn in fp32 (fp64 for fp64), and round. Tokens past the last sequence pass through.
    is_first = (element < head.half)[None, None, :]
    BACK: tl.constexpr = TRANSPOSE != lookup.inverse
    y = turn_element(x, x_other, (cos, sin), is_first, BACK, RETURNED, steps)
    if head.tail > 0:
        y = tl.where(does_turn[None, None, :], y, x)
    if PACKED:
        y = tl.where(per_token(in_sequence, tile.over_positions)[:, None, :], y, x)

    # Write every element once. In place another thread may still need the old value.
    if IN_PLACE:
        tl.debug_barrier()
    y_ptr = from_element(out, head.start)
    tl.store(y_ptr + (element * out.stride)[None, None, :], y, exists)
