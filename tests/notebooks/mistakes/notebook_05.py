"""Mistakes in answers to notebook 05."""

from . import Wrong, WrongRung

ANSWERS = [
    # half a table
    Wrong(
        *(3, "each half its own angle"),
        {
            "    cos, sin =": "    angle2 = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, "
            "mask=exists)\n    cos, sin =",
            "x2 * cos + x1 * sin": "x2 * tl.cos(angle2) + x1 * tl.sin(angle2)",
        },
        "the wrong angle: each half takes its own, where one is asked for both",
    ),
    Wrong(
        *(3, "a cosine twice"),
        {"x2 * cos + x1 * sin": "x2 * cos + x1 * cos"},
        "the wrong function: a cosine for the sine, in the second half",
    ),
    Wrong(
        *(3, "both halves loaded"),
        {
            "    cos, sin =": "    other = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, "
            "mask=exists)\n    angle = tl.where(other > 9, other, angle)\n    cos, sin ="
        },
        "it loads 256 bytes of freqs_ptr, where 128 are asked for: half a row of the table for",
    ),
    Wrong(
        *(3, "each cosine evaluated twice"),
        {"x2 * cos + x1 * sin": "x2 * tl.cos(angle + 0.0) + x1 * sin"},
        "it evaluates 32 sines and 64 cosines, where 32 of each are asked for",
    ),
    # right in other words than the solution's: nothing is to be said about them
    Wrong(
        *(3, "evaluated in both lines, which the compiler does once"),
        {
            "    cos, sin = tl.cos(angle), tl.sin(angle)\n": "",
            "x1 * cos - x2 * sin": "x1 * tl.cos(angle) - x2 * tl.sin(angle)",
            "x2 * cos + x1 * sin": "x2 * tl.cos(angle) + x1 * tl.sin(angle)",
        },
        *("RIGHT: ", "RIGHT"),
    ),
    # q and k
    Wrong(
        *(4, "two launches"),
        {
            "def rope_q_and_k(": "def both(",
            "    return q_out, k_out\n": "    return q_out, k_out\n\n\n"
            "def rope_q_and_k(q, k, freqs):\n"
            "    return both(q, k, freqs)[0], both(q, k, freqs)[1]\n",
        },
        "too many launches: 2, where 1 would do",
    ),
    Wrong(
        *(4, "no tail"),
        {"        tl.store(out_row_ptr + column, x, mask=passes)\n": ""},
        "the tail is forgotten",
    ),
    Wrong(
        *(4, "k by q's heads"),
        {"row - q_rows, k_heads, k_strides": "row - q_rows, q_heads, k_strides"},
        "the wrong heads: the rows of k are counted by the heads of q",
    ),
    Wrong(
        *(4, "heads by a bit mask"),
        {"row % heads": "row & (heads - 1)"},
        "the wrong head: row & (h - 1) is row % h only where h is a power of two",
    ),
    Wrong(
        *(4, "q rotated twice"),
        {"t_ptr, out_ptr = k_ptr, k_out_ptr": "t_ptr, out_ptr = q_ptr, k_out_ptr"},
        "the wrong row: (0, 0, 0) of the result is made of q[0, 0, 0]",
    ),
]
RUNGS = [
    # 2: a row of pairs
    WrongRung(
        *(2, "one angle for both halves"),
        {"angle2 = tl.load(angle_ptr + HALF": "angle2 = tl.load(angle_ptr"},
        *("the wrong angle: the second half takes the first half's angle", "WRONG"),
    ),
    WrongRung(
        *(2, "the second half's sign"),
        {"x2 * tl.cos(angle2) + x1": "x2 * tl.cos(angle2) - x1"},
        *("a sign: that of the sine in the second half", "WRONG"),
    ),
    WrongRung(
        *(2, "the first member overwritten"),
        {
            "tl.store(out_ptr + offset, x1 *": "x1 = x1 *",
            "tl.sin(angle1), mask=exists)": "tl.sin(angle1)\n"
            "    tl.store(out_ptr + offset, x1, mask=exists)",
        },
        *("overwritten too early: the second half is computed from the results of the", "WRONG"),
    ),
    WrongRung(
        *(2, "no mask at the first store"),
        {"x2 * tl.sin(angle1), mask=exists)": "x2 * tl.sin(angle1))"},
        *("which one stays is undefined on a GPU", "WRONG"),
    ),
    WrongRung(
        *(2, "the partner loaded after the first store"),
        {
            "    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)\n": "",
            "    tl.store(out_ptr + offset, x1 *": "    x2 = tl.load(t_ptr + offset + HALF, "
            "mask=exists).to(tl.float32)\n    tl.store(out_ptr + offset, x1 *",
            "    tl.store(out_ptr + offset + HALF": "    x1 = tl.load(t_ptr + offset, "
            "mask=exists).to(tl.float32)\n    tl.store(out_ptr + offset + HALF",
        },
        *("in place", "WRONG"),
    ),
    WrongRung(
        *(2, "a clone of what is overwritten"),
        {"    if out is None:\n": "    if out is t:\n        t = t.clone()\n    if out is None:\n"},
        "in place, for (2048, 16, 8, 256) PyTorch runs clone or contiguous, where the",
    ),
    # 3: a tile
    WrongRung(
        *(3, "position and rows exchanged"),
        {
            "tl.program_id(0) // row_blocks": "tl.program_id(0) % row_blocks",
            "tl.program_id(0) % row_blocks * BLOCK_R": "tl.program_id(0) // row_blocks * BLOCK_R",
        },
        *("of 4 programs store nothing: is their mask false?", "WRONG"),
    ),
    WrongRung(
        *(3, "sines of the whole tile"),
        {
            "mask=pair < HALF)[None, :]\n    angle2": "mask=pair < HALF)[None, :]\n"
            "    angle1 = angle1 + tl.zeros((BLOCK_R, BLOCK_HALF), tl.float32)\n    angle2",
        },
        "a sine of the whole tile, (8, 128)",
    ),
    WrongRung(
        *(3, "four rows"),
        {"block_r, num_warps = 8, 4": "block_r, num_warps = 4, 4"},
        "a program has too few rows of its position: BLOCK_R",
    ),
    WrongRung(
        *(2, "one half loaded twice"),
        {"x2 = tl.load(t_ptr + offset + HALF,": "x2 = tl.load(t_ptr + offset,"},
        *("the first half is taken for both: where is the second one loaded?", "WRONG"),
    ),
    WrongRung(
        *(2, "neighbors with the angles of halves"),
        {
            "offset = row * 2 * HALF + pair": "offset = row * 2 * HALF + 2 * pair",
            "offset + HALF": "offset + 1",
        },
        *("the wrong pairing: it pairs neighbors", "WRONG"),
    ),
    WrongRung(
        *(2, "the members of a pair exchanged"),
        {"x1 * tl.cos(angle1) - x2 *": "x2 * tl.cos(angle1) - x1 *"},
        *("the pair's members have changed places in the first half", "WRONG"),
    ),
    WrongRung(
        *(2, "one cosine for both halves"),
        {"x2 * tl.cos(angle2)": "x2 * tl.cos(angle1)"},
        *("the wrong cosine: that of the other half's angle, in the second half", "WRONG"),
    ),
    WrongRung(
        *(2, "a mask that is never true"),
        {"x1 * tl.sin(angle2), mask=exists)": "x1 * tl.sin(angle2), mask=pair < 0)"},
        *("unwritten: no program stores the second half of each row", "WRONG"),
    ),
    WrongRung(
        *(2, "a mask that is too short"),
        {"exists = pair < HALF": "exists = pair < HALF - 1"},
        *("unwritten: no program stores columns 3, 7 of each row", "WRONG"),
    ),
    WrongRung(
        *(2, "positions for rows"),
        {"out, b * h,": "out, s,"},
        *(
            "the wrong position: row (1, 0, 0) is turned by the angles of position 0, not of 1",
            "WRONG",
        ),
    ),
    WrongRung(
        *(2, "another tensor than `out`"),
        {"if out is None:\n": "if True:\n"},
        *("unwritten: the result is t as it came, and no program stores in it", "WRONG"),
    ),
    WrongRung(
        *(3, "a bit mask for a remainder"),
        {"tl.program_id(0) % row_blocks": "(tl.program_id(0) & (row_blocks - 1))"},
        *("in the case '39 rows of a position'", "WRONG"),
    ),
]
