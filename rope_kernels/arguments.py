"""The kernels' arguments: tensors, as named tuples, and constants, as frozen dataclasses.

Both launches and kernels import this file, so it doesn't import Triton. `norms/arguments.py` has
the arguments of the norms' kernels.

Triton compiles one kernel for each value of a `Constants`, so it contains no lengths, positions or
addresses: these are ordinary arguments. Triton specializes on each integer in a tuple: it compiles
another kernel if the integer is 1, or if 16 divides it. That is useful for strides. Sizes are
passed one by one, because only then can it be told not to (`kernel.SIZES`).

A tuple never contains both None and integers, or both None and another tuple: Triton 3.6.0 would
lose integers that are 1. An absent tensor has no strides at all, which also makes launches faster.
"""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class Tensors(NamedTuple):
    """The tensors that `rope_kernel` and `wide_kernel` read and write. None: not in this call.

    Inside a kernel, the fields are pointers.
    """

    q: Tensor  # queries, or any tensor to rotate, viewed as (s, b, h, d)
    k: Tensor | None  # keys: the same positions, other heads
    v: Tensor | None  # like k, but it is only copied
    q_out: Tensor  # results; they may be the inputs
    k_out: Tensor | None  # with slots, a cache (blocks, page, h, d); so is `v_out`
    v_out: Tensor | None
    # The angles. From frequencies, `kernel.angles_on_the_fly` computes them.
    table: Tensor  # angles or cosines, (b, s2, table columns); or frequencies, (d2 / 2,)
    sin: Tensor | None  # sines, if the table contains cosines
    # Each token's position: its index in its batch entry or packed sequence. If ranks share
    # sequences, its index among the tokens of all ranks, which `cu_seqlens` counts. First position
    # and start are added. An id overrides all of these (`kernel.find_positions`).
    cu_seqlens: Tensor | None  # (sequences + 1,): where packed sequences start, and the last ends
    starts: Tensor | None  # (b,) or (sequences,): position of the first token of each sequence
    ids: Tensor | None  # (b, s): position of each token
    slots: Tensor | None = None  # (listed,): each token's slot in the caches; negative: none


@dataclass(frozen=True)
class Constants:
    """What Triton needs to know at compile time."""

    # Which elements of a row rotate.
    half: int  # pairs of a row
    start: int  # the first element that rotates
    tail: int  # elements of a row that are only copied; 0 in place
    reads_interleaved: bool  # input: pair i is elements 2i, 2i + 1; else i, i + half
    writes_interleaved: bool  # the same for the output; see `output_pairing`
    # The tile of a program.
    positions: int  # of a tile
    rows: int  # of each position in a tile
    rows_outer: bool  # from one program to the next, positions change before rows do
    # Programs finish all rows of this many blocks of positions before the next ones; None: of all.
    stretch: int | None
    # What Triton may assume to make wide loads and stores.
    # Bytes that divide the address of each row read; 0: Triton sees without help that 16 do.
    aligned: int
    out_aligned: int  # the same for each row written
    table_unit: int  # factor of the table's strides of b and s, a constant so that Triton sees it
    # How pairs rotate.
    on_the_fly: bool  # angles are computed from frequencies
    one_per_pair: bool  # the table has a column for each pair, not for each element
    attention_factor: float | None  # multiplies cos and sin on the fly (YaRN); None: 1
    cp_order: str | None  # which tokens of a sequence a rank has: `find_positions`; None: all
    inverse: bool  # rotate by minus the angle
    transpose: bool  # the transposed map, which computes gradients
    rounding: str  # "once", or where PyTorch's operators round: see `kernel.rotate_pairs`
    fast_sine: bool  # fewer instructions, see `kernel.cos_sin`; on NVIDIA GPUs, not for fp64
    # Packed qkv: heads of q before each head of k and of v; 0: all heads of q are together.
    read_group: int
    write_group: int  # the same for the output


@dataclass(frozen=True)
class WideConstants(Constants):
    """Constants of `wide_kernel`, which puts half-split rows side by side: see its picture.

    `positions` and `rows` are those of a whole tile.
    """

    lines: int  # of a position in a tile, a power of two
    columns: int  # of a line, a power of two: a column is an element
    side_by_side: int  # rows in a line
    over_positions: bool  # a line has one head at several positions, not several heads of one
    in_place: bool  # results overwrite the input
