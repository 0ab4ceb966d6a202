"""What kernels are given: tensors, as named tuples, and what is constant, as frozen dataclasses.

Launches make these, and kernels read them, so this file loads no Triton. The norms' kernels have
theirs in `norms/arguments.py`.

Triton compiles one kernel for each value of a `Constants`. So no length, no position and no address
is in it: these are arguments that come when the kernel runs. Triton looks at each integer of a
tuple, and compiles one more kernel where it is 1, or where 16 divides it. That is wanted for
strides. Sizes come one by one, so that it does not look at them (`kernel.SIZES`).

No tuple holds None beside integers, and none that has None holds another tuple: Triton 3.6.0 then
loses integers that are 1. What is not there has no strides, which also makes launches quicker.
"""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class Tensors(NamedTuple):
    """What `rope_kernel` and `wide_kernel` read and write. None: not in this call.

    A kernel sees pointers in their place.
    """

    q: Tensor  # queries, or any tensor that turns, viewed as (s, b, h, d)
    k: Tensor | None  # keys: the same positions, other heads
    v: Tensor | None  # like k, but it is copied
    q_out: Tensor  # results; they may be the inputs
    k_out: Tensor | None  # with slots a cache, (blocks, page, h, d); so is `v_out`
    v_out: Tensor | None
    # By which angles. From turns they are computed: see `kernel.angles_on_the_fly`.
    table: Tensor  # angles or cosines, (b, s2, table columns); or turns, (d2 / 2,)
    sin: Tensor | None  # sines, if the table has cosines
    # Which position a token has. It is the token's index in its sequence, which is a batch entry or
    # a packed sequence. Where ranks share sequences, `kernel.find_positions` makes it the index
    # among tokens of all ranks, which `cu_seqlens` counts. First position and start are added to
    # that. An id overrides all of these.
    cu_seqlens: Tensor | None  # (sequences + 1,): where packed sequences start, and the last ends
    starts: Tensor | None  # (b,) or (sequences,): position of the first token of each sequence
    ids: Tensor | None  # (b, s): position of each token
    slots: Tensor | None = None  # (listed,): where in the caches tokens go; negative: nowhere


@dataclass(frozen=True)
class Constants:
    """What is decided when a kernel compiles."""

    # Which elements of a row turn.
    half: int  # pairs of a row
    start: int  # the first element that turns
    tail: int  # elements before and after those that turn; 0 in place, where they stay
    reads_interleaved: bool  # input: pair i is elements 2i, 2i + 1; else i, i + half
    writes_interleaved: bool  # the same of the output; see `output_pairing`
    # Which tile a program takes.
    positions: int  # of a tile
    rows: int  # of each position in a tile
    rows_outer: bool  # from one program to the next, positions change before rows do
    # Programs finish all rows of so many blocks of positions before they go on; None: of all.
    stretch: int | None
    # What Triton may assume, so that it makes wide loads and stores.
    # Bytes that divide the address of each row read; 0 where Triton sees by itself that 16 do.
    aligned: int
    out_aligned: int  # the same of each row written
    table_unit: int  # factor of the table's strides of b and s, constant so that Triton sees it
    # How pairs turn.
    on_the_fly: bool  # angles are computed from turns
    one_per_pair: bool  # the table has a column for each pair, not for each element
    attention_factor: float | None  # of cos and sin on the fly, as YaRN has it; None: 1
    cp_order: str | None  # which tokens of a sequence a rank has: `find_positions`; None: all
    inverse: bool  # by minus the angle
    transpose: bool  # the transposed map, which takes gradients back
    rounding: str  # "once"; or as PyTorch's operators round, see `kernel.turn`
    fast_sine: bool  # fewer instructions, see `kernel.cos_sin`; on NVIDIA's GPUs, not for fp64
    # Packed qkv: so many heads of q, then one of k and one of v; 0: heads of q follow each other.
    read_group: int
    write_group: int  # the same of what is written


@dataclass(frozen=True)
class WideConstants(Constants):
    """Those of rows that lie side by side in lines: `wide_kernel.py` has a picture.

    They are half-split. `positions` and `rows` are those of a whole tile.
    """

    lines: int  # of a position in a tile, a power of two
    columns: int  # of a line, a power of two: a column is an element
    side_by_side: int  # rows in a line
    over_positions: bool  # a line has one head at many positions, not heads of one
    in_place: bool  # results overwrite what is read
