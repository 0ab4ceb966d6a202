"""Notebook 05: its exercises, and wrong answers to them."""

from exercise import Exercise, KernelOfTheRungBelow, WrongAnswer
from rope_lab.n05 import exercises
from rope_lab.rungs import RUNGS

RUNG_2 = Exercise(
    cell="05-ex1",
    judged_by=RUNGS[2],
    wrong_answers=(
        WrongAnswer(
            "the wrong angle: the second half takes the first half's angle",
            {"angle2 = tl.load(angle_ptr + HALF": "angle2 = tl.load(angle_ptr"},
            kind="load",
            line="angle2 = tl.load(angle_ptr, mask=exists)",
        ),
        WrongAnswer(
            "in the case 'more elements than a block'",
            {"BLOCK_HALF=triton.next_power_of_2(d // 2)": "BLOCK_HALF=128"},
        ),
        WrongAnswer(
            "a sign: that of the sine in the second half",
            {"x2 * tl.cos(angle2) + x1": "x2 * tl.cos(angle2) - x1"},
            kind="factor",
            line="tl.store(out_ptr + offset + HALF, x2 * tl.cos(angle2) - x",
        ),
        WrongAnswer(
            "overwritten too early: the second half is computed from the results of the",
            {
                "tl.store(out_ptr + offset, x1 *": "x1 = x1 *",
                "tl.sin(angle1), mask=exists)": (
                    "tl.sin(angle1)\n    tl.store(out_ptr + offset, x1, mask=exists)"
                ),
            },
            kind="wrong element",
            line="tl.store(out_ptr + offset + HALF, x2 * tl.cos(angle2) + x",
        ),
        WrongAnswer(
            "which one stays is undefined on a GPU",
            {"x2 * tl.sin(angle1), mask=exists)": "x2 * tl.sin(angle1))"},
        ),
        WrongAnswer(
            "in place",
            {
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
            kind="read again",
            line="x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)",
        ),
        WrongAnswer(
            "PyTorch runs clone or contiguous; let the kernel do it",
            {
                "    if out is None:\n": (
                    "    if out is t:\n        t = t.clone()\n    if out is None:\n"
                )
            },
        ),
        WrongAnswer(
            "the first half is taken for both: where is the second one loaded?",
            {"x2 = tl.load(t_ptr + offset + HALF,": "x2 = tl.load(t_ptr + offset,"},
            kind="load",
            line="x2 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)",
        ),
        WrongAnswer(
            "the wrong pairing: it pairs neighbors",
            {
                "offset = row * 2 * HALF + pair": "offset = row * 2 * HALF + 2 * pair",
                "offset + HALF": "offset + 1",
            },
            kind="wrong element",
            line="x2 = tl.load(t_ptr + offset + 1, mask=exists).to(tl.float",
        ),
        WrongAnswer(
            "the pair's members have changed places in the first half",
            {"x1 * tl.cos(angle1) - x2 *": "x2 * tl.cos(angle1) - x1 *"},
            kind="factor",
            line="tl.store(out_ptr + offset, x2 * tl.cos(angle1) - x1 * tl.",
        ),
        WrongAnswer(
            "the wrong cosine: that of the other half's angle, in the second half",
            {"x2 * tl.cos(angle2)": "x2 * tl.cos(angle1)"},
            kind="wrong element",
            line="tl.store(out_ptr + offset + HALF, x2 * tl.cos(angle1) + x",
        ),
        WrongAnswer(
            "unwritten: no program stores columns 3, 7 of each row",
            {"exists = pair < HALF": "exists = pair < HALF - 1"},
            kind="mask",
            line="exists = pair < HALF - 1",
        ),
        WrongAnswer(
            "the wrong position: row (1, 0, 0) is rotated by the angles of position 0, not of 1",
            {"out, b * h,": "out, s,"},
            kind="index",
            line="position = row // rows",
        ),
        WrongAnswer(
            "unwritten: the result is t as it came, and no program stores in it",
            {"if out is None:\n": "if True:\n"},
            kind="unwritten",
            line="tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.",
        ),
        WrongAnswer(
            "round it up, and mask the lanes that are too many",
            {"tl.arange(0, BLOCK_HALF)": "tl.arange(0, HALF)"},
        ),
        KernelOfTheRungBelow(rung=2, words="my_rope takes no `out`"),
    ),
)


RUNG_3 = Exercise(
    cell="05-ex2",
    judged_by=RUNGS[3],
    wrong_answers=(
        WrongAnswer(
            "rows are 2 * HALF apart in memory, and BLOCK_HALF is the width of the block",
            {"(position * rows + row) * 2 * HALF": "(position * rows + row) * 2 * BLOCK_HALF"},
            kind="index",
            line="offset = ((position * rows + row) * 2 * BLOCK_HALF)[:, No",
        ),
        WrongAnswer(
            "of 4 programs store nothing: is their mask false?",
            {
                "tl.program_id(0) // row_blocks": "tl.program_id(0) % row_blocks",
                "tl.program_id(0) % row_blocks * BLOCK_R": (
                    "tl.program_id(0) // row_blocks * BLOCK_R"
                ),
            },
            kind="unwritten",
            line="offset = ((position * rows + row) * 2 * HALF)[:, None] +",
        ),
        WrongAnswer(
            "a sine of the whole tile, (8, 128)",
            {
                "mask=pair < HALF)[None, :]\n    angle2": (
                    "mask=pair < HALF)[None, :]\n"
                    "    angle1 = angle1 + tl.zeros((BLOCK_R, BLOCK_HALF), tl.float32)\n"
                    "    angle2"
                )
            },
            state="NOT YET",
        ),
        WrongAnswer(
            "a program has too few rows of its position: BLOCK_R",
            {"block_r, num_warps = 8, 4": "block_r, num_warps = 4, 4"},
            state="NOT YET",
        ),
        WrongAnswer(
            "in the case '39 rows of a position'",
            {"tl.program_id(0) % row_blocks": "(tl.program_id(0) & (row_blocks - 1))"},
        ),
        WrongAnswer(
            "Pairs end at HALF, and a tile's rows at `rows`",
            {"(row < rows)[:, None] & (pair < HALF)[None, :]": "(pair < HALF)[None, :]"},
            kind="outside",
            line="x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)",
        ),
        WrongAnswer(
            "is `pair < HALF` in it, joined by &?",
            {"[:, None] & (pair": "[:, None] | (pair"},
            kind="mask",
            line="exists = (row < rows)[:, None] | (pair < HALF)[None, :]",
        ),
        KernelOfTheRungBelow(
            rung=3,
            words="every row evaluates its own: a program needs several rows of one position",
        ),
    ),
)


HALF_A_TABLE = Exercise(
    cell="05-ex3",
    judged_by=exercises.rope_by_first_half,
    wrong_answers=(
        WrongAnswer(
            "the wrong angle: each half takes its own, where both should take the same",
            {
                "    cos, sin =": (
                    "    angle2 = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, "
                    "mask=exists)\n"
                    "    cos, sin ="
                ),
                "x2 * cos + x1 * sin": "x2 * tl.cos(angle2) + x1 * tl.sin(angle2)",
            },
            kind="load",
            line="angle2 = tl.load(freqs_ptr + position * 2 * HALF + HALF +",
        ),
        WrongAnswer(
            "the wrong function: a cosine for the sine, in the second half",
            {"x2 * cos + x1 * sin": "x2 * cos + x1 * cos"},
            kind="factor",
            line="tl.store(out1_ptr + HALF, x2 * cos + x1 * cos, mask=exists)",
        ),
        WrongAnswer(
            ("it loads 256 bytes of freqs_ptr, expected 128: half a row of the table for"),
            {
                "    cos, sin =": (
                    "    other = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, "
                    "mask=exists)\n"
                    "    angle = tl.where(other > 9, other, angle)\n"
                    "    cos, sin ="
                )
            },
        ),
        WrongAnswer(
            "it evaluates 32 sines and 64 cosines, expected 32 of each",
            {"x2 * cos + x1 * sin": "x2 * tl.cos(angle + 0.0) + x1 * sin"},
        ),
        # right in other words than the solution's: nothing is to be said about them
        WrongAnswer(
            "RIGHT: ",
            {
                "    cos, sin = tl.cos(angle), tl.sin(angle)\n": "",
                "x1 * cos - x2 * sin": "x1 * tl.cos(angle) - x2 * tl.sin(angle)",
                "x2 * cos + x1 * sin": "x2 * tl.cos(angle) + x1 * tl.sin(angle)",
            },
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
            "too many launches: 2, where 1 would do",
            {
                "def rope_q_and_k(": "def both(",
                "    return q_out, k_out\n": (
                    "    return q_out, k_out\n"
                    "\n"
                    "\n"
                    "def rope_q_and_k(q, k, freqs):\n"
                    "    return both(q, k, freqs)[0], both(q, k, freqs)[1]\n"
                ),
            },
        ),
        WrongAnswer(
            "the wrong head: row & (h - 1) is row % h only where h is a power of two",
            {"row % heads": "row & (heads - 1)"},
            kind="wrong place",
            line="x1 = tl.load(row_ptr + pair * strides[3], mask=exists).to",
        ),
        WrongAnswer(
            "no row of k comes out: from program q_rows on, set row, heads, strides",
            {_IF + _PLACE: _PLACE + _IF},
            kind="outside",
            line="x1 = tl.load(row_ptr + pair * strides[3]",
        ),
        WrongAnswer(
            "programs after the last row of k store, too",
            {"s * b * (h + g)": "s * b * 2 * h"},
            kind="mask",
            line="exists = pair < HALF",
        ),
    ),
)
