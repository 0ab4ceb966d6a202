"""Values with fields, which kernels take and their parts hand to one another.

A value is either constants, known when a kernel is compiled, or numbers and blocks of the running
program: Triton 3.6 returns no tuple that mixes both. Read a field that may be None where it is used
(`table.sin_ptr`), and don't put it into another tuple. Importing this file loads nothing.
"""

from typing import Any, NamedTuple

# --- constants: each is one `tl.constexpr` argument of a kernel, made by its plan ---------------


class Head(NamedTuple):
    """The elements of a head, and the block that holds them."""

    half: int  # pairs: d2 / 2
    tail: int  # elements that do not turn and are passed through: d - d2, or 0 in place
    start: int  # the first element that turns
    columns: int  # of the block, a power of two: `half` or more, for several rows side by side
    tail_columns: int  # `tail` rounded up to a power of two, or 0
    reads_interleaved: bool = False  # a pair of the input is elements 2i and 2i + 1
    writes_interleaved: bool = False  # the same of the output


class Tile(NamedTuple):
    """What a program works on at a time: `positions` x `rows` blocks.

    A block mostly holds one row. Short rows share a block: | row 0 | row 1 | row 2 | left empty |
    """

    positions: int  # blocks of each row or group of rows, a power of two
    rows: int  # blocks of each position, a power of two
    side_by_side: int = 1  # rows in a block; of pairs more than one only without a tail
    over_positions: bool = False  # those of a block are a head at neighboring positions, not heads


class Order(NamedTuple):
    """The order in which programs take tiles, and what is known of the addresses of rows."""

    per_batch: bool  # a program has rows of one batch entry; False: all share their angles
    rows_outer: bool  # positions run faster than rows, not slower
    stretch: int  # blocks of positions that all rows finish before the next ones begin
    aligned: int  # bytes that divide every address of a row; 0: what the compiler sees
    out_aligned: int  # the same of the outputs


class Lookup(NamedTuple):
    """How cosines and sines are found."""

    one_per_pair: bool  # column i of the table belongs to pair i, not to element i
    interleaved: bool  # a pair has columns 2i and 2i + 1 of the table, not i and i + half
    unit: int  # elements in which the table's strides of b and s are counted, a hint of alignment
    fast_sine: bool  # fewer steps, which the interpreter and fp64 cannot take
    inverse: bool  # `turn` negates the sines
    attention_factor: float | None = None  # multiplies what is computed from turns; None: nothing


class Steps(NamedTuple):
    """The steps of a rotation, and which of them round; its results are always rounded."""

    fused: bool  # one product of each sum goes into a fused multiply-add
    rounds_cos_sin: bool  # to the stored dtype
    rounds_products: bool  # to the stored dtype, before they are added


class Norm(NamedTuple):
    """How rows are normalized."""

    eps: float  # added to the mean of squares
    weight_offset: float  # added to the weight
    after: bool  # normalize the rotated row
    rounds_normal: bool  # to the stored dtype, before the weights
    rounds_product: bool  # to the stored dtype, after them
    weights_last: bool  # they are loaded after the elements


class NormBackward(NamedTuple):
    """How rows were normalized."""

    weight_offset: float  # added to the weight
    after: bool  # the rotated row was normalized
    rounds_cos_sin: bool  # to the stored dtype, as the forward did
    packed: bool  # the ids are those that the forward wrote for packed tokens


class Packing(NamedTuple):
    """Where rows of q and v lie, in what is read and in what is written."""

    group: int  # heads of q between which one of k and one of v lie; 0: none do
    out_group: int  # the same of what is written
    v_aligned: int  # bytes that divide every address of a row of v; 0: what the compiler sees
    v_out_aligned: int


class BackwardOrder(NamedTuple):
    """Which tiles a program of the backward goes through, and what is known of addresses."""

    per_batch: bool  # a tile has rows of one batch entry; False: all share their angles
    rows_outer: bool  # programs' positions run faster than their rows, not slower
    fold: bool  # a program goes through batch entries and all rows, too
    stages: int  # tiles in flight
    aligned: int  # bytes that divide every address of a row of what was kept
    grad_aligned: int  # of the output's gradient
    out_aligned: int  # of the input's gradient


# --- what runs: pointers, numbers and blocks ----------------------------------------------------


class RopeStrides(NamedTuple):
    """In elements: of (s, b, h, d), of a table's (b, s, d), and of ids' (b, s)."""

    q: Any
    k: Any
    q_out: Any
    k_out: Any
    table: Any
    ids: Any


class NormStrides(NamedTuple):
    """The same, and (s, b, h, 1) of what has one number for each row."""

    q: Any
    k: Any
    q_out: Any
    k_out: Any
    q_rstd: Any
    k_rstd: Any
    table: Any
    ids: Any


class CacheStrides(NamedTuple):
    """The same as `RopeStrides`, and of v."""

    q: Any
    k: Any
    v: Any
    q_out: Any
    k_out: Any
    table: Any
    ids: Any


class SplitStrides(NamedTuple):
    """The same, and of v's output."""

    q: Any
    k: Any
    v: Any
    q_out: Any
    k_out: Any
    v_out: Any
    table: Any
    ids: Any


class NormBackwardStrides(NamedTuple):
    """The same as `NormStrides`, of the backward's tensors."""

    q_grad: Any
    k_grad: Any
    q: Any
    k: Any
    q_out: Any
    k_out: Any
    q_rstd: Any
    k_rstd: Any
    table: Any
    ids: Any


class Sizes(NamedTuple):
    """How many rows there are."""

    seq_len: Any  # s, or the number of packed tokens
    batch: Any  # b
    q_heads: Any  # h of q
    k_heads: Any  # h of k, 0 without k


class Memory(NamedTuple):
    """One tensor of q or of k, viewed as (s, b, h, d)."""

    ptr: Any  # or None
    strides: Any


class Slots(NamedTuple):
    """Where this program's tokens go in a cache."""

    block: Any  # (positions,), int64
    place: Any  # within its block, the same shape
    exists: Any  # whether the token has a slot, the same shape


class Table(NamedTuple):
    """Where angles are read."""

    ptr: Any  # angles or cosines, (b, s2, columns); or no table, but int64 frequencies (d2 / 2,)
    sin_ptr: Any  # sines, beside cosines; or None
    strides: Any  # of b, s, d
    length: Any  # s2


class TwoChunks(NamedTuple):
    """What this rank holds of each sequence in zigzag order: a chunk counted from each end.

    The number of fields tells a kernel which of the two it got: Triton 3.6 takes no None in here.
    """

    size: Any  # ranks that share every sequence evenly
    rank: Any


class EvenlyApart(NamedTuple):
    """The same in other orders: one chunk, or tokens that lie evenly apart."""

    size: Any
    rank: Any
    apart: Any  # from one token to the next; 0: one chunk


class GivenPositions(NamedTuple):
    """What says at which position each token is."""

    seq_len: Any  # s, or the number of packed tokens
    cu_seqlens_ptr: Any  # (sequences + 1,): packed sequences' starts, and the last end; or None
    sequences: Any  # number of packed sequences
    starts_ptr: Any  # (b,) or (sequences,): position of the first token of each sequence; or None
    ids_ptr: Any  # (b, s): position of each token; or None
    ids_strides: Any  # of b and of s
    cp: Any  # `TwoChunks`, `EvenlyApart`, or None


class Columns(NamedTuple):
    """What each column of a block holds, each (columns,)."""

    number: Any  # int64: which pair, or which element
    row: Any  # int32: which of the rows side by side
    exists: Any  # False for those that are left empty


class Place(NamedTuple):
    """Which rows of a tensor this program has, and at which tokens."""

    first_s: Any  # int64, its first token
    later: Any  # (positions, 1) or (1, columns), int64: by how much the others are later
    row: Any  # (rows, 1) or (rows, columns), int32: heads, or heads of all entries
    b: Any  # int64, the batch entry; 0 if rows are those of all entries
    heads: Any  # of the tensor


class ProgramRows(NamedTuple):
    """Which rows a program with a norm has: a `Place`, of q or of k, and what is there."""

    is_k: Any  # whether they are rows of k
    first_s: Any  # from here on as in `Place`
    later: Any
    row: Any
    b: Any
    heads: Any
    exists: Any  # whether there is such a row, (positions, rows, 1)


class RowPointers(NamedTuple):
    """Where this program's rows are, in one tensor."""

    pointers: Any  # to element 0 of each row, (positions, rows, 1 or columns)
    stride: Any  # of d
    exists: Any  # whether there is such a row, the same shape


class Tokens(NamedTuple):
    """This program's tokens."""

    s: Any  # (positions,), or over positions (columns,), int64
    exists: Any  # whether there is such a token, the same shape
    b: Any  # int64, the batch entry; 0 if rows are those of all entries


class TableRows(NamedTuple):
    """Which rows of the table this program's tokens need, shaped to meet its columns."""

    position: Any  # (positions, 1), (1, columns) or (columns,), int64
    exists: Any  # whether there is such a token, the same shape
    b: Any  # int64, the batch entry


class Share(NamedTuple):
    """What a program of the backward goes through: the same rows at many positions, or more."""

    is_k: Any  # whether they are rows of k
    row: Any  # (rows, 1); the first ones, if it goes through all rows
    row_exists: Any  # the same shape
    heads: Any  # of the tensor
    b: Any  # int64, the batch entry, the first if it goes through all of them
    chunk: Any  # the first of its tiles
    tiles: Any  # of all the programs that share them
    number: Any  # among the programs whose sums are added up, of q or of k


class Pieces(NamedTuple):
    """Whole rows in three pieces, each (positions, rows, columns)."""

    first: Any  # first members of pairs
    second: Any  # second members
    tail: Any  # what does not turn


class CosSin(NamedTuple):
    """Of the angle of each pair's first member, and of its second member's, which may differ."""

    cos1: Any
    sin1: Any
    cos2: Any
    sin2: Any


class TokenAngles(NamedTuple):
    """Where this program's tokens are, and by which angles their pairs turn."""

    position: Any  # (positions,) int64
    in_sequence: Any  # (positions,): whether the token is in a packed sequence
    cos_sin: Any  # `CosSin`, each (positions, 1, columns)
