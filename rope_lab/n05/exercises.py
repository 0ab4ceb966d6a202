"""Notebook 05: kernels that own their pairs."""
# ruff: noqa: F821 (the letters of shapes)

import torch

from ..judge.climb.specifications import UNMASKED, mistakes_of_pairs
from ..judge.definitions import rope, rope_of_q_and_k
from ..judge.exercise import Exercise, KernelOfTheRungBelow, WrongAnswer
from ..judge.lines import keys_by_lines
from ..judge.spec import STRIDED, spec
from ..rungs import RUNGS

RUNG_2 = Exercise(
    cell="05-ex1",
    judged_by=RUNGS[2],
    wrong_answers=(
        WrongAnswer(
            mistake="one angle for both halves",
            instead={"angle2 = tl.load(angle_ptr + HALF": "angle2 = tl.load(angle_ptr"},
            told="the wrong angle: the second half takes the first half's angle",
        ),
        WrongAnswer(
            mistake="the second half's sign",
            instead={"x2 * tl.cos(angle2) + x1": "x2 * tl.cos(angle2) - x1"},
            told="a sign: that of the sine in the second half",
        ),
        WrongAnswer(
            mistake="the first member overwritten",
            instead={
                "tl.store(out_ptr + offset, x1 *": "x1 = x1 *",
                "tl.sin(angle1), mask=exists)": (
                    "tl.sin(angle1)\n    tl.store(out_ptr + offset, x1, mask=exists)"
                ),
            },
            told="overwritten too early: the second half is computed from the results of the",
        ),
        WrongAnswer(
            mistake="no mask at the first store",
            instead={"x2 * tl.sin(angle1), mask=exists)": "x2 * tl.sin(angle1))"},
            told="which one stays is undefined on a GPU",
        ),
        WrongAnswer(
            mistake="the partner loaded after the first store",
            instead={
                "    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)\n": "",
                "    tl.store(out_ptr + offset, x1 *": (
                    "    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)\n"
                    "    tl.store(out_ptr + offset, x1 *"
                ),
                "    tl.store(out_ptr + offset + HALF": (
                    "    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)\n"
                    "    tl.store(out_ptr + offset + HALF"
                ),
            },
            told="in place",
        ),
        WrongAnswer(
            mistake="a clone of what is overwritten",
            instead={
                "    if out is None:\n": (
                    "    if out is t:\n        t = t.clone()\n    if out is None:\n"
                )
            },
            told="in place, for (2048, 16, 8, 256) PyTorch runs clone or contiguous, where the",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="one half loaded twice",
            instead={"x2 = tl.load(t_ptr + offset + HALF,": "x2 = tl.load(t_ptr + offset,"},
            told="the first half is taken for both: where is the second one loaded?",
        ),
        WrongAnswer(
            mistake="neighbors with the angles of halves",
            instead={
                "offset = row * 2 * HALF + pair": "offset = row * 2 * HALF + 2 * pair",
                "offset + HALF": "offset + 1",
            },
            told="the wrong pairing: it pairs neighbors",
        ),
        WrongAnswer(
            mistake="the members of a pair exchanged",
            instead={"x1 * tl.cos(angle1) - x2 *": "x2 * tl.cos(angle1) - x1 *"},
            told="the pair's members have changed places in the first half",
        ),
        WrongAnswer(
            mistake="one cosine for both halves",
            instead={"x2 * tl.cos(angle2)": "x2 * tl.cos(angle1)"},
            told="the wrong cosine: that of the other half's angle, in the second half",
        ),
        WrongAnswer(
            mistake="a mask that is never true",
            instead={"x1 * tl.sin(angle2), mask=exists)": "x1 * tl.sin(angle2), mask=pair < 0)"},
            told="unwritten: no program stores the second half of each row",
        ),
        WrongAnswer(
            mistake="a mask that is too short",
            instead={"exists = pair < HALF": "exists = pair < HALF - 1"},
            told="unwritten: no program stores columns 3, 7 of each row",
        ),
        WrongAnswer(
            mistake="positions for rows",
            instead={"out, b * h,": "out, s,"},
            told="the wrong position: row (1, 0, 0) is turned by the angles of position 0, "
            "not of 1",
        ),
        WrongAnswer(
            mistake="another tensor than `out`",
            instead={"if out is None:\n": "if True:\n"},
            told="unwritten: the result is t as it came, and no program stores in it",
        ),
        WrongAnswer(
            mistake="the second half a block away",
            instead={"+ HALF": "+ BLOCK_HALF"},
            told="the second member is HALF further, and BLOCK_HALF is the width of the block",
        ),
        WrongAnswer(
            mistake="the second half of t a block away",
            instead={"ptr + offset + HALF": "ptr + offset + BLOCK_HALF"},
            told="loaded and stored BLOCK_HALF further: HALF, as its angle is",
        ),
        WrongAnswer(
            mistake="the second half loaded a block away",
            instead={"(t_ptr + offset + HALF": "(t_ptr + offset + BLOCK_HALF"},
            told="loaded BLOCK_HALF further and stored HALF further",
        ),
        WrongAnswer(
            mistake="the second half stored a block away",
            instead={"(out_ptr + offset + HALF": "(out_ptr + offset + BLOCK_HALF"},
            told="stored BLOCK_HALF further and loaded HALF further",
        ),
        WrongAnswer(
            mistake="the second angle a block away",
            instead={"angle_ptr + HALF": "angle_ptr + BLOCK_HALF"},
            told="angle is HALF further in its row of the table, not BLOCK_HALF",
        ),
        WrongAnswer(
            mistake="a row of the table for each row",
            instead={"position = row // rows": "position = row"},
            told="the angle is that of the row's number: a position has `rows` rows",
        ),
        WrongAnswer(
            mistake="rows half as far apart",
            instead={"offset = row * 2 * HALF": "offset = row * HALF"},
            told="rows are 2 * HALF apart in memory, and HALF is half of that",
        ),
        WrongAnswer(
            mistake="the first result twice",
            instead={
                "x2 * tl.cos(angle2) + x1 * tl.sin(angle2)": (
                    "x1 * tl.cos(angle1) - x2 * tl.sin(angle1)"
                )
            },
            told="the first result is stored in both halves",
        ),
        WrongAnswer(
            mistake="a mask that is too long",
            instead={"exists = pair < HALF": "exists = pair < 2 * HALF"},
            told="every result is right, so a mask is missing",
        ),
        WrongAnswer(
            mistake="a block that is no power of two",
            instead={"tl.arange(0, BLOCK_HALF)": "tl.arange(0, HALF)"},
            told="round it up, and mask the lanes that are too many",
        ),
        WrongAnswer(
            mistake="the second store without HALF",
            instead={"tl.store(out_ptr + offset + HALF": "tl.store(out_ptr + offset"},
            told="both results are stored in the first half",
        ),
        WrongAnswer(
            mistake="neighbors loaded, halves stored",
            instead={
                "x1 = tl.load(t_ptr + offset": "x1 = tl.load(t_ptr + offset + pair",
                "x2 = tl.load(t_ptr + offset + HALF": "x2 = tl.load(t_ptr + offset + pair + 1",
            },
            told="neighbors are loaded, and halves are stored",
        ),
        WrongAnswer(
            mistake="neighbors loaded with their angles, halves stored",
            instead={
                "x1 = tl.load(t_ptr + offset": "x1 = tl.load(t_ptr + offset + pair",
                "x2 = tl.load(t_ptr + offset + HALF": "x2 = tl.load(t_ptr + offset + pair + 1",
                "position * 2 * HALF + pair": "position * 2 * HALF + 2 * pair",
                "angle2 = tl.load(angle_ptr + HALF": "angle2 = tl.load(angle_ptr + 1",
            },
            told="neighbors are loaded, and angles of neighbors",
        ),
        WrongAnswer(
            mistake="the next element for the second member",
            instead={"x2 = tl.load(t_ptr + offset + HALF": "x2 = tl.load(t_ptr + offset + 1"},
            told="HALF further, where it is loaded, and not the next element",
        ),
        WrongAnswer(
            mistake="the first angle by the row's number",
            instead={
                "angle1 = tl.load(angle_ptr": "angle1 = tl.load(freqs_ptr + row * 2 * HALF + pair"
            },
            told="the first angle is that of the row's number",
        ),
        WrongAnswer(
            mistake="the second angle by the row's number",
            instead={"load(angle_ptr + HALF": "load(freqs_ptr + offset + HALF"},
            told="the second angle is that of the row's number",
        ),
        WrongAnswer(
            mistake="the table without a factor",
            instead={"position * 2 * HALF + pair": "position + pair"},
            told="rows of the table are 2 * HALF apart: position needs this factor",
        ),
        WrongAnswer(
            mistake="the table by the block's width",
            instead={"position * 2 * HALF + pair": "position * 2 * BLOCK_HALF + pair"},
            told="rows of the table are 2 * HALF apart, and BLOCK_HALF is the width of the block",
        ),
        WrongAnswer(
            mistake="the partner in the next row",
            instead={
                "x2 = tl.load(t_ptr + offset + HALF": "x2 = tl.load(t_ptr + offset + 2 * HALF"
            },
            told="2 * HALF further is the next row",
        ),
        WrongAnswer(
            mistake="the partner before the first member",
            instead={"x2 = tl.load(t_ptr + offset + HALF": "x2 = tl.load(t_ptr + offset - HALF"},
            told="HALF after the first one, and not before it",
        ),
        WrongAnswer(
            mistake="the partner from the row's end",
            instead={"load(t_ptr + offset + HALF": "load(t_ptr + offset - 2 * pair + 2 * HALF - 1"},
            told="the first member is paired with the last one",
        ),
        WrongAnswer(
            mistake="the second result twice",
            instead={
                "x1 * tl.cos(angle1) - x2 * tl.sin(angle1)": (
                    "x2 * tl.cos(angle2) + x1 * tl.sin(angle2)"
                )
            },
            told="the second result is stored in both halves",
        ),
        WrongAnswer(
            mistake="no HALF anywhere",
            instead={"+ HALF": "+ 0"},
            told="HALF further, in t, in the table and in the result",
        ),
        WrongAnswer(
            mistake="columns two apart",
            instead={"offset = row * 2 * HALF + pair": "offset = row * 2 * HALF + 2 * pair"},
            told="2 * pair is the first of two neighbors",
        ),
        WrongAnswer(
            mistake="a row of t by its position",
            instead={"offset = row *": "offset = position *"},
            told="a row of t begins at row * 2 * HALF, not at position",
        ),
        WrongAnswer(
            mistake="an element of the table",
            instead={"x1 = tl.load(t_ptr + offset": "x1 = tl.load(freqs_ptr + offset"},
            told="the first member is loaded from the table",
        ),
        KernelOfTheRungBelow(rung=2, told="my_rope takes no `out`"),
    ),
)

RUNG_3 = Exercise(
    cell="05-ex2",
    judged_by=RUNGS[3],
    wrong_answers=(
        WrongAnswer(
            mistake="position and rows exchanged",
            instead={
                "tl.program_id(0) // row_blocks": "tl.program_id(0) % row_blocks",
                "tl.program_id(0) % row_blocks * BLOCK_R": (
                    "tl.program_id(0) // row_blocks * BLOCK_R"
                ),
            },
            told="of 4 programs store nothing: is their mask false?",
        ),
        WrongAnswer(
            mistake="sines of the whole tile",
            instead={
                "mask=pair < HALF)[None, :]\n    angle2": (
                    "mask=pair < HALF)[None, :]\n"
                    "    angle1 = angle1 + tl.zeros((BLOCK_R, BLOCK_HALF), tl.float32)\n"
                    "    angle2"
                ),
            },
            told="a sine of the whole tile, (8, 128)",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="four rows",
            instead={"block_r, num_warps = 8, 4": "block_r, num_warps = 4, 4"},
            told="a program has too few rows of its position: BLOCK_R",
            state="NOT YET",
        ),
        WrongAnswer(
            mistake="a bit mask for a remainder",
            instead={"tl.program_id(0) % row_blocks": "(tl.program_id(0) & (row_blocks - 1))"},
            told="in the case '39 rows of a position'",
        ),
        WrongAnswer(
            mistake="no mask of rows",
            instead={"(row < rows)[:, None] & (pair < HALF)[None, :]": "(pair < HALF)[None, :]"},
            told="Pairs end at HALF, and a tile's rows at `rows`",
        ),
        WrongAnswer(
            mistake="no mask of pairs",
            instead={"(row < rows)[:, None] & (pair < HALF)[None, :]": "(row < rows)[:, None]"},
            told="the tile's mask is true for lanes past HALF",
        ),
        WrongAnswer(
            mistake="angles without a mask",
            instead={", mask=pair < HALF)": ")"},
            told="every result is right, so a mask is missing",
        ),
        WrongAnswer(
            mistake="rows of the first position",
            instead={"(position * rows + row) *": "row *"},
            told="row counts within its position: position * rows comes before it",
        ),
        WrongAnswer(
            mistake="positions one row apart",
            instead={"(position * rows + row) *": "(position + row) *"},
            told="`rows` rows come before the next position",
        ),
        WrongAnswer(
            mistake="no parentheses",
            instead={
                "((position * rows + row) * 2 * HALF)[:, None]": (
                    "(position * rows + row * 2 * HALF)[:, None]"
                )
            },
            told="2 * HALF multiplies row alone",
        ),
        WrongAnswer(
            mistake="positions as far apart as their lanes",
            instead={"position * rows + row)": "position * row_blocks * BLOCK_R + row)"},
            told="a position has `rows` rows in memory, however many lanes its programs have",
        ),
        WrongAnswer(
            mistake="rows a block apart",
            instead={
                "(position * rows + row) * 2 * HALF": "(position * rows + row) * 2 * BLOCK_HALF"
            },
            told="rows are 2 * HALF apart in memory, and BLOCK_HALF is the width of the block",
        ),
        WrongAnswer(
            mistake="rows half as far apart",
            instead={"(position * rows + row) * 2 * HALF": "(position * rows + row) * HALF"},
            told="rows are 2 * HALF apart in memory, and HALF is half of that (in a tile)",
        ),
        WrongAnswer(
            mistake="rows one element apart",
            instead={"(position * rows + row) * 2 * HALF": "(position * rows + row)"},
            told="the row's number needs this factor (in a tile)",
        ),
        WrongAnswer(
            mistake="rows as far apart as there are rows",
            instead={"(position * rows + row) * 2 * HALF": "(position * rows + row) * rows"},
            told="and `rows` says how many there are (in a tile)",
        ),
        WrongAnswer(
            mistake="the factor of the row",
            instead={"(position * rows + row) * 2 * HALF": "(position + row * rows) * 2 * HALF"},
            told="the factor belongs to the position",
        ),
        WrongAnswer(
            mistake="parentheses around less",
            instead={"(position * rows + row) * 2 * HALF": "position * rows * 2 * HALF + row"},
            told="2 * HALF multiplies position alone",
        ),
        WrongAnswer(
            mistake="columns two apart",
            instead={"+ pair[None, :]": "+ 2 * pair[None, :]"},
            told="2 * pair is the first of two neighbors (in a tile)",
        ),
        WrongAnswer(
            mistake="| for &",
            instead={"[:, None] & (pair": "[:, None] | (pair"},
            told="is `pair < HALF` in it, joined by &?",
        ),
        KernelOfTheRungBelow(
            rung=3, told="every row evaluates its own: a program needs several rows of one position"
        ),
    ),
)


@spec(
    leave_out=(*STRIDED, "part of the head rotated"),
    kernel=True,
    half_the_table=True,
    mistakes=mistakes_of_pairs(angle2="angle1"),
    unmasked=UNMASKED,
)
def rope_by_first_half(t: "(s, b, h, d)", freqs: "angles (s2, 1, 1, d2)"):
    """`rope` of whole heads by the table's first half; its second half does not matter.

    So it shows whether a kernel reads only one half.
    """
    first = freqs[..., : freqs.shape[-1] // 2]
    return rope.function(t, torch.cat((first, first), dim=-1))


HALF_A_TABLE = Exercise(
    cell="05-ex3",
    judged_by=rope_by_first_half,
    wrong_answers=(
        WrongAnswer(
            mistake="each half its own angle",
            instead={
                "    cos, sin =": (
                    "    angle2 = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, "
                    "mask=exists)\n"
                    "    cos, sin ="
                ),
                "x2 * cos + x1 * sin": "x2 * tl.cos(angle2) + x1 * tl.sin(angle2)",
            },
            told="the wrong angle: each half takes its own, where one is asked for both",
        ),
        WrongAnswer(
            mistake="a cosine twice",
            instead={"x2 * cos + x1 * sin": "x2 * cos + x1 * cos"},
            told="the wrong function: a cosine for the sine, in the second half",
        ),
        WrongAnswer(
            mistake="both halves loaded",
            instead={
                "    cos, sin =": (
                    "    other = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, "
                    "mask=exists)\n"
                    "    angle = tl.where(other > 9, other, angle)\n"
                    "    cos, sin ="
                )
            },
            told="it loads 256 bytes of freqs_ptr, where 128 are asked for: half a row of "
            "the table for",
        ),
        WrongAnswer(
            mistake="each cosine evaluated twice",
            instead={"x2 * cos + x1 * sin": "x2 * tl.cos(angle + 0.0) + x1 * sin"},
            told="it evaluates 32 sines and 64 cosines, where 32 of each are asked for",
        ),
        WrongAnswer(
            mistake="the angle by the row's number",
            instead={"freqs_ptr + position": "freqs_ptr + row"},
            told="the angle is that of the row's number",
        ),
        WrongAnswer(
            mistake="the first result twice",
            instead={"x2 * cos + x1 * sin": "x1 * cos - x2 * sin"},
            told="the first result is stored in both halves",
        ),
        # right in other words than the solution's: nothing is to be said about them
        WrongAnswer(
            mistake="evaluated in both lines, which the compiler does once",
            instead={
                "    cos, sin = tl.cos(angle), tl.sin(angle)\n": "",
                "x1 * cos - x2 * sin": "x1 * tl.cos(angle) - x2 * tl.sin(angle)",
                "x2 * cos + x1 * sin": "x2 * tl.cos(angle) + x1 * tl.sin(angle)",
            },
            told="RIGHT: ",
            state="RIGHT",
        ),
    ),
)


def _nothing(q, k, freqs):
    return torch.full_like(q, torch.nan), torch.full_like(k, torch.nan)


rope_of_q_and_k_at_once = spec(
    rope_of_q_and_k.function,
    launches=1,
    kernel=True,
    unmasked="every result is right, and programs after the last row of k store, too",
    mistakes={
        "no row of k comes out: from program q_rows on, set row, heads, strides and both pointers "
        "to those of k, before they are used": keys_by_lines(place="row - program - 1"),
        "no row of q or k comes out: is the condition the wrong way round?": _nothing,
        "the wrong heads: the rows of k are counted by the heads of q": (
            keys_by_lines(heads="q_heads")
        ),
        "the rows of k are counted on from those of q: subtract q_rows": (
            keys_by_lines(row="program")
        ),
        "row - q_rows is the row of k: it begins at 0, in program q_rows": (
            keys_by_lines(row="program - q_rows - 1")
        ),
        "the first row of k has no program: row >= q_rows, and then row - q_rows": (
            keys_by_lines(place="where(program == q_rows, -1, row)")
        ),
        "the rows of k are found by the strides of q: set strides, too": (
            keys_by_lines(strides="q_strides")
        ),
        "the rows of k are found by the heads and the strides of q: set both, too": (
            keys_by_lines(heads="q_heads", strides="q_strides")
        ),
        "the rows of k are read from q: set t_ptr, too": keys_by_lines(t_ptr="q_ptr"),
        "the rows of k are stored in the result of q: set out_ptr, too": (
            keys_by_lines(goes_to_q=True)
        ),
        "both pointers are still those of q: set t_ptr and out_ptr, too": (
            keys_by_lines(goes_to_q=True, t_ptr="q_ptr")
        ),
    },
)


_IF = """\
    if row >= q_rows:
        row, heads, strides = row - q_rows, k_heads, k_strides
        t_ptr, out_ptr = k_ptr, k_out_ptr
"""
_PLACE = """\
    position, sequence, head = row // (batch * heads), row // heads % batch, row % heads
"""

QUERIES_AND_KEYS = Exercise(
    cell="05-ex5",
    judged_by=rope_of_q_and_k_at_once,
    wrong_answers=(
        WrongAnswer(
            mistake="two launches",
            instead={
                "def rope_q_and_k(": "def both(",
                "    return q_out, k_out\n": (
                    "    return q_out, k_out\n"
                    "\n"
                    "\n"
                    "def rope_q_and_k(q, k, freqs):\n"
                    "    return both(q, k, freqs)[0], both(q, k, freqs)[1]\n"
                ),
            },
            told="too many launches: 2, where 1 would do",
        ),
        WrongAnswer(
            mistake="no tail",
            instead={"        tl.store(out_row_ptr + column, x, mask=passes)\n": ""},
            told="the tail is forgotten",
        ),
        WrongAnswer(
            mistake="k by q's heads",
            instead={"row - q_rows, k_heads, k_strides": "row - q_rows, q_heads, k_strides"},
            told="the wrong heads: the rows of k are counted by the heads of q",
        ),
        WrongAnswer(
            mistake="heads by a bit mask",
            instead={"row % heads": "row & (heads - 1)"},
            told="the wrong head: row & (h - 1) is row % h only where h is a power of two",
        ),
        WrongAnswer(
            mistake="q rotated twice",
            instead={"t_ptr, out_ptr = k_ptr, k_out_ptr": "t_ptr, out_ptr = q_ptr, k_out_ptr"},
            told="the rows of k are read from q: set t_ptr, too",
        ),
        WrongAnswer(
            mistake="q_rows not subtracted",
            instead={"row, heads, strides = row - q_rows, k_heads": "heads, strides = k_heads"},
            told="the rows of k are counted on from those of q: subtract q_rows",
        ),
        WrongAnswer(
            mistake="k by q's strides",
            instead={
                "heads, strides = row - q_rows, k_heads, k_strides": "heads = row - q_rows, k_heads"
            },
            told="the rows of k are found by the strides of q",
        ),
        WrongAnswer(
            mistake="k by q's heads and strides",
            instead={
                "row, heads, strides = row - q_rows, k_heads, k_strides": "row = row - q_rows"
            },
            told="by the heads and the strides of q",
        ),
        WrongAnswer(
            mistake="> for >=",
            instead={"row >= q_rows": "row > q_rows"},
            told="the first row of k has no program",
        ),
        WrongAnswer(
            mistake="the stub without its `raise`",
            instead={_IF: ""},
            told="no row of k comes out: from program q_rows on, set row, heads, strides",
        ),
        WrongAnswer(
            mistake="names of k too late",
            instead={_IF + _PLACE: _PLACE + _IF},
            told="no row of k comes out: from program q_rows on, set row, heads, strides",
        ),
        WrongAnswer(
            mistake="k's result not set",
            instead={"t_ptr, out_ptr = k_ptr, k_out_ptr": "t_ptr = k_ptr"},
            told="stored in the result of q: set out_ptr, too",
        ),
        WrongAnswer(
            mistake="no pointer set",
            instead={"        t_ptr, out_ptr = k_ptr, k_out_ptr\n": ""},
            told="both pointers are still those of q",
        ),
        WrongAnswer(
            mistake="the condition the wrong way round",
            instead={"row >= q_rows": "row < q_rows"},
            told="is the condition the wrong way round?",
        ),
        WrongAnswer(
            mistake="one row too far back",
            instead={"row - q_rows": "row - q_rows - 1"},
            told="row - q_rows is the row of k: it begins at 0",
        ),
        WrongAnswer(
            mistake="programs for twice the rows of q",
            instead={"s * b * (h + g)": "s * b * 2 * h"},
            told="programs after the last row of k store, too",
        ),
    ),
)
