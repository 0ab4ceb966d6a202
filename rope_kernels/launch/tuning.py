"""Which tile a call gets: tables, read from top to bottom. The first row that matches is used.

A new block size is a new row, above the first row that would take its calls. `when` asks for facts
of the call (`tile_facts.py`). All tiles were measured on one H200: see benchmarks/NOTES.md.
Give `tests/kernels/test_compiled_code.py` a call that takes the new row.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from .tile_facts import FULL_OVER_ROWS, Facts, lanes_follow_positions

FULL_OVER_POSITIONS = 0.85  # rows of a head share few cosines, so their blocks may be large
ANY, ALONG_POSITIONS, ACROSS_ROWS = "any", "along positions", "across rows"


class Row(NamedTuple):
    """One line of a table."""

    when: Callable[[Facts], bool]
    tile: "RotationTile | ForwardTile | BackwardTile"
    why: str
    lanes: str = ANY  # how neighboring lanes lie in a tile, see `tile_facts.lanes_follow_positions`


def first_match(
    table: Sequence[Row], facts: Facts, lanes: str = ANY
) -> "RotationTile | ForwardTile | BackwardTile":
    """The tile of the first row that matches; the last row of a table matches every call."""
    for row in table:
        if row.when(facts) and row.lanes in (ANY, lanes):
            return row.tile


def lanes_of_a_tile() -> str:
    """How neighboring lanes lie in a tile, with this Triton, which is loaded."""
    return ALONG_POSITIONS if lanes_follow_positions() else ACROSS_ROWS


# The rotation


class Kind(Enum):
    """How rows lie in a tile."""

    PADDED = "padded rows"  # one below the other, each padded to a power of two
    PAIRS = "pairs side by side"  # of several rows, in blocks
    WHOLE = "whole rows side by side"  # in blocks, taken by `whole_rows_kernel`


class RotationTile(NamedTuple):
    """What a tile is built from."""

    kind: Kind  # how rows lie: padded, or side by side in blocks
    tile_bytes: int  # of a tile, at most; but it has one row or one block at least
    warp_bytes: int  # of a tile, for each warp; one warp needs no barrier to share cosines
    full: float | None = None  # share that rows side by side should fill of their block
    over_positions: bool = False  # side by side are rows of a head, not those of a position
    block_bytes: int = 0  # of a block, at least
    rows: int | None = None  # padded ones of a position, at most; None: as many as fit
    most_empty: float = 0.4  # share of the places for padded rows that may stay empty
    least_rows: int = 1  # of a position that a tile keeps, however many places are empty


# The norm's tiles take them, too: `tiles._padded`.
PADDED_ROWS = (
    Row(
        when=lambda facts: facts.filled_by_row < 2 / 3,
        tile=RotationTile(Kind.PADDED, tile_bytes=4096, warp_bytes=4096),
        why="A third of the tile is padding, which takes no time to load.",
    ),
    Row(
        when=lambda facts: facts.looks_up_positions and not (facts.on_the_fly or facts.k_rows),
        tile=RotationTile(Kind.PADDED, tile_bytes=4096, warp_bytes=4096),
        why="It looks up positions, then reads a table: it starts late and gets more to do. With "
        "k the larger tiles would be half empty. On the fly they spill.",
    ),
    Row(
        lanes=ACROSS_ROWS,
        when=lambda facts: facts.packed and facts.context_parallel,
        tile=RotationTile(Kind.PADDED, tile_bytes=2048, warp_bytes=4096, most_empty=1.0),
        why="A lane would search for two positions: 4 x 2 has 95 % with Triton 3.6, and 58 with "
        "3.7.1.",
    ),
    Row(
        when=lambda facts: facts.packed,
        tile=RotationTile(Kind.PADDED, tile_bytes=2048, warp_bytes=4096, most_empty=0.2),
        why="Each program waits for its searches, so fewer and fuller ones gain more: 8 + 1 heads "
        "gain 11 points.",
    ),
    Row(
        when=lambda facts: True,
        tile=RotationTile(Kind.PADDED, tile_bytes=2048, warp_bytes=4096),
        why="Half the registers of 4 KiB let twice as many programs wait for memory.",
    ),
)


ROTATION = (
    Row(
        when=lambda facts: (
            facts.takes_pairs
            and not facts.rows_outer
            and (facts.packed or not facts.takes_whole_rows)
            and facts.filled_by_pairs < 2 / 3
            and facts.half_bytes % 32 == 0
        ),
        tile=RotationTile(Kind.PAIRS, tile_bytes=4096, warp_bytes=2048, full=FULL_OVER_POSITIONS),
        why="A third of the registers would hold padding. Rows of 160 gain 2 points, packed 10.",
    ),
    Row(
        when=lambda facts: (
            facts.takes_pairs
            and not facts.rows_outer
            and (not facts.takes_whole_rows or (facts.packed and facts.half_bytes % 8 == 0))
            and facts.filled_by_pairs < 2 / 3
        ),
        tile=RotationTile(Kind.PAIRS, tile_bytes=2048, warp_bytes=2048, full=FULL_OVER_POSITIONS),
        why="The same where a half ends within a sector. Packed tokens wait longest, so their "
        "programs need the most bytes in flight, even if they read them 8 at a time.",
    ),
    Row(
        when=lambda facts: (
            facts.takes_pairs
            and facts.rows_outer
            and not (facts.packed or facts.inplace or facts.takes_whole_rows)
            and facts.filled_by_pairs < 0.8
        ),
        tile=RotationTile(
            Kind.PAIRS,
            tile_bytes=4096,
            warp_bytes=2048,
            full=FULL_OVER_POSITIONS,
            over_positions=True,
        ),
        why="The rows of a head are neighbors in memory: 96 and 192 gain a point. In place they "
        "lose 5.",
    ),
    Row(
        when=lambda facts: (
            facts.takes_whole_rows
            and not facts.packed
            and (facts.rows_outer or facts.rows_fit_badly)
            and facts.inplace
        ),
        tile=RotationTile(
            Kind.WHOLE,
            tile_bytes=4096,
            warp_bytes=2048,
            full=FULL_OVER_POSITIONS,
            over_positions=True,
            block_bytes=1024,
        ),
        why="Programs that share a cache line disturb each other: in place, blocks of 1024 bytes "
        "gain 3 points over 512.",
    ),
    Row(
        when=lambda facts: (
            facts.takes_whole_rows
            and not facts.packed
            and (facts.rows_outer or facts.rows_fit_badly)
        ),
        tile=RotationTile(
            Kind.WHOLE,
            tile_bytes=4096,
            warp_bytes=2048,
            full=FULL_OVER_POSITIONS,
            over_positions=True,
        ),
        why="Neighbors in memory belong side by side. And 32 heads of 72 in bshd leave 4 of 36 "
        "places empty: 82 %, and 92 % with rows of a head. Packed tokens would each need a search.",
    ),
    Row(
        when=lambda facts: (
            facts.takes_whole_rows
            and facts.looks_up_positions
            and not facts.on_the_fly
            and facts.width_bytes % 16 == 0
        ),
        tile=RotationTile(Kind.WHOLE, tile_bytes=8192, warp_bytes=4096, full=FULL_OVER_ROWS),
        why="It looks up positions, then reads a table: it starts late and gets more to do.",
    ),
    Row(
        when=lambda facts: (
            facts.takes_whole_rows
            and facts.looks_up_positions
            and facts.on_the_fly
            and facts.width_bytes % 16 == 0
        ),
        tile=RotationTile(Kind.WHOLE, tile_bytes=4096, warp_bytes=4096, full=FULL_OVER_ROWS),
        why="The same without a table to wait for.",
    ),
    Row(
        when=lambda facts: (
            facts.takes_whole_rows and facts.on_the_fly and facts.filled_by_whole_rows < 3 / 4
        ),
        tile=RotationTile(Kind.WHOLE, tile_bytes=4096, warp_bytes=4096, full=FULL_OVER_ROWS),
        why="Each of two warps would have too few rows: 88 on the fly reaches 93 % with one, 89 "
        "with two.",
    ),
    Row(
        when=lambda facts: facts.takes_whole_rows and facts.packed,
        tile=RotationTile(Kind.WHOLE, tile_bytes=2048, warp_bytes=2048, full=FULL_OVER_ROWS),
        why="Rows of 100 are read 8 bytes at a time: 2 KiB are 8 loads a thread already.",
    ),
    Row(
        when=lambda facts: facts.takes_whole_rows,
        tile=RotationTile(Kind.WHOLE, tile_bytes=4096, warp_bytes=2048, full=FULL_OVER_ROWS),
        why="At 72, second members start at byte 72 and would be read 8 bytes at a time. Two "
        "warps: at 72 95 %, and 88 with one.",
    ),
    Row(
        when=lambda facts: (
            facts.k_rows > 0
            and facts.on_the_fly
            and not facts.looks_up_positions
            and facts.fills_its_block
            and facts.element_bytes == 2
        ),
        tile=RotationTile(Kind.PADDED, tile_bytes=2048, warp_bytes=4096, rows=1),
        why="Sines of 8 positions cost less than the places that the few rows of k would leave "
        "empty: 8 + 1 heads gain 13 to 30 points, 64 + 8 one or two. Ids, padding and "
        "fp32 keep more rows.",
    ),
    Row(
        when=lambda facts: (
            facts.takes_pairs
            and facts.fills_its_block
            and not (facts.packed or facts.rows_outer or facts.inplace or facts.k_rows)
            and not (facts.looks_up_positions or facts.on_the_fly)
            and facts.width_bytes >= 256
            and 2048 < facts.rows * facts.width_bytes <= 4096
        ),
        tile=RotationTile(Kind.PADDED, tile_bytes=4096, warp_bytes=4096, most_empty=1.0),
        why="All rows of a position, so nobody else reads its row of the table: 9 to 16 heads of "
        "128 gain 1 to 5 points, and nothing with 65 536 tokens.",
    ),
    *PADDED_ROWS,
)


# The norm. Its tiles are made of padded rows, at most WARP_BYTES of them a warp.


class ForwardTile(NamedTuple):
    """How a forward's tile differs from a backward's, which loads the weights first."""

    bytes: int = 1  # times the backward's; at least `warps`
    warps: int = 1  # times the backward's
    positions: int = 1  # at least, as long as each of `warps` still has a row
    registers: int | None = None  # of a thread, where it has no special case; None: no limit
    weights_last: bool = False  # loaded after the elements


class BackwardTile(NamedTuple):
    """How a backward's programs fill the GPU."""

    programs_per_sm: int  # of one warp
    stages: int = 1  # tiles that a program has in flight


NORM_FORWARD = (
    Row(
        when=lambda facts: facts.on_the_fly and facts.packed,
        tile=ForwardTile(bytes=2),
        why="91 to 93 % on the fly with weights that come first; a limit of registers costs 3.",
    ),
    Row(
        when=lambda facts: facts.on_the_fly and facts.rows_outer and facts.padded_half <= 64,
        tile=ForwardTile(bytes=2, positions=4, registers=96, weights_last=True),
        why="20 warps share an SM instead of 16, and late weights wait in no registers.",
    ),
    Row(
        when=lambda facts: facts.on_the_fly and facts.rows_outer,
        tile=ForwardTile(bytes=2, positions=4, registers=96),
        why="At 256, late weights cost 18 points.",
    ),
    Row(
        when=lambda facts: facts.on_the_fly and facts.padded_half <= 64,
        tile=ForwardTile(weights_last=True),
        why="Late weights gain 2 points; at 256 they cost 7.",
    ),
    Row(
        lanes=ALONG_POSITIONS,
        when=lambda facts: facts.packed,
        tile=ForwardTile(bytes=2, registers=96),
        why="The limit gains 5 points.",
    ),
    Row(
        lanes=ACROSS_ROWS,
        when=lambda facts: facts.packed and facts.fills_its_block,
        tile=ForwardTile(bytes=2, registers=112, weights_last=True),
        why="A thread has more angles. 96 registers would spill 200 bytes: 75 %, and 88 to 92 so.",
    ),
    Row(
        lanes=ACROSS_ROWS,
        when=lambda facts: facts.packed,
        tile=ForwardTile(bytes=2),
        why="With padding, a limit and late weights cost 6 points at 80.",
    ),
    Row(
        when=lambda facts: facts.rows_outer and facts.fills_its_block and facts.padded_half < 64,
        tile=ForwardTile(bytes=2, warps=2, positions=8),
        why="8 positions gain 4 points at 64, with either order of lanes.",
    ),
    Row(
        lanes=ALONG_POSITIONS,
        when=lambda facts: facts.rows_outer and facts.fills_its_block and facts.padded_half == 64,
        tile=ForwardTile(bytes=2, warps=2, positions=8, registers=72),
        why="90 % at 128. Across rows it would spill, and stay at 76.",
    ),
    Row(
        lanes=ACROSS_ROWS,
        when=lambda facts: facts.rows_outer and facts.padded_half == 64,
        tile=ForwardTile(bytes=2, positions=4, weights_last=True),
        why="Late weights save registers for the angles: 85 % at 128, and 77 without.",
    ),
    Row(
        when=lambda facts: facts.rows_outer,
        tile=ForwardTile(bytes=2, positions=4),
        why="Positions are neighbors in memory. 8 of them cost 4 points at 80 and 96, 9 at 256.",
    ),
    Row(
        when=lambda facts: True,
        tile=ForwardTile(),
        why="No more rows than the backward. With a table, weights that come first gain 5 points.",
    ),
)

NORM_BACKWARD = (
    Row(
        when=lambda facts: not facts.fills_its_block,
        tile=BackwardTile(programs_per_sm=8),
        why="With padding a thread takes up to 255 registers.",
    ),
    Row(
        when=lambda facts: True,
        tile=BackwardTile(programs_per_sm=12),
        why="168 registers a thread: so many warps fill an SM. 10 or 14 lose 6 points and more, "
        "and 2 stages 15.",
    ),
)
