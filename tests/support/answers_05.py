"""Notebook 05: its exercises, and wrong answers to them."""

from exercise import Exercise, KernelOfTheRungBelow, WrongAnswer
from rope_lab.n05 import exercises
from rope_lab.rungs import RUNGS

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
            mistake="a block that is no power of two",
            instead={"tl.arange(0, BLOCK_HALF)": "tl.arange(0, HALF)"},
            told="round it up, and mask the lanes that are too many",
        ),
        KernelOfTheRungBelow(rung=2, told="my_rope takes no `out`"),
    ),
)


RUNG_3 = Exercise(
    cell="05-ex2",
    judged_by=RUNGS[3],
    wrong_answers=(
        WrongAnswer(
            mistake="rows a block apart",
            instead={
                "(position * rows + row) * 2 * HALF": "(position * rows + row) * 2 * BLOCK_HALF"
            },
            told="rows are 2 * HALF apart in memory, and BLOCK_HALF is the width of the block",
        ),
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
            mistake="| for &",
            instead={"[:, None] & (pair": "[:, None] | (pair"},
            told="is `pair < HALF` in it, joined by &?",
        ),
        KernelOfTheRungBelow(
            rung=3, told="every row evaluates its own: a program needs several rows of one position"
        ),
    ),
)


HALF_A_TABLE = Exercise(
    cell="05-ex3",
    judged_by=exercises.rope_by_first_half,
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
    judged_by=exercises.rope_of_q_and_k_at_once,
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
            mistake="heads by a bit mask",
            instead={"row % heads": "row & (heads - 1)"},
            told="the wrong head: row & (h - 1) is row % h only where h is a power of two",
        ),
        WrongAnswer(
            mistake="names of k too late",
            instead={_IF + _PLACE: _PLACE + _IF},
            told="no row of k comes out: from program q_rows on, set row, heads, strides",
        ),
        WrongAnswer(
            mistake="programs for twice the rows of q",
            instead={"s * b * (h + g)": "s * b * 2 * h"},
            told="programs after the last row of k store, too",
        ),
    ),
)
