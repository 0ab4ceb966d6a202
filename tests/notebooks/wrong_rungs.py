"""Kernels that are not on their rung, and what they must be told.

Each is our kernel of the rung with a line or two as readers write them: text of ours on the left,
what is there instead on the right. `test_answers_in_notebooks.py` has them judged.
"""

from dataclasses import dataclass

from rope_lab.rungs import RUNGS


@dataclass(frozen=True)
class WrongRung:
    """A kernel with a mistake in it; `state` is what its verdict begins with."""

    rung: int
    mistake: str
    instead: dict[str, str]  # text of our kernel: what is in its place
    told: str  # words of the verdict
    state: str = "NOT YET"

    def __str__(self) -> str:
        return f"{self.rung} {self.mistake}"


WRONG_RUNGS = [
    # 1: the whole formula
    WrongRung(
        *(1, "the sign of the other half"),
        {"(in_first_half, -other, other)": "(in_first_half, other, -other)"},
        *("a sign: it rotates by minus the angle", "WRONG"),
    ),
    WrongRung(
        *(1, "a stride that is not used"),
        {"column * stride_d, mask=exists": "column, mask=exists"},
        *("the last one is forgotten for the element itself", "WRONG"),
    ),
    WrongRung(
        *(1, "sequence and head exchanged"),
        {"i // D % heads": "i // (D * batch) % heads", "i // (D * heads) %": "i // D %"},
        *("the wrong row: sequence and head are counted in the other order", "WRONG"),
    ),
    WrongRung(
        *(1, "the tail rotated by what is there"),
        {"mask=rotates, other=0.0)\n    quarter": "mask=rotates)\n    quarter"},
        *("a load without `other` leaves it undefined", "WRONG"),
    ),
    WrongRung(
        *(1, "every element loaded three times"),
        {
            "    rotates =": "    again = tl.load(row_ptr + column * stride_d, mask=exists)\n"
            "    x = (x + again.to(tl.float32)) / 2\n    rotates ="
        },
        "each element of t is loaded 3 times",
    ),
    WrongRung(
        *(1, "cos and sin evaluated twice"),
        {"x * tl.cos(angle) +": "x * tl.cos(angle + 0.0) * tl.cos(angle) / tl.cos(angle) +"},
        "rung 1 wants sin/cos evaluations at most 4 a pair",
    ),
    WrongRung(
        *(1, "the sign by half of the head"),
        {"tl.where(in_first_half, -other": "tl.where(column < D // 2, -other"},
        *("the sign by half of D, where half of D2 decides", "WRONG"),
    ),
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
    # 4: its own backward
    WrongRung(
        *(4, "minus the angle"),
        {"sin1, sin2 = -sin2, -sin1": "sin1, sin2 = -sin1, -sin2"},
        *("the wrong sine: each half takes the sine that the other", "WRONG"),
    ),
    WrongRung(
        *(4, "the sines exchanged without a sign"),
        {"sin1, sin2 = -sin2, -sin1": "sin1, sin2 = sin2, sin1"},
        *("the gradient for minus the angles", "WRONG"),
    ),
    WrongRung(
        *(4, "cosines exchanged, too"),
        {
            "        sin1, sin2 = -sin2, -sin1\n": "        sin1, sin2 = -sin2, -sin1\n"
            "        cos1, cos2 = cos2, cos1\n"
        },
        *("the wrong cosine: each half takes the cosine of the", "WRONG"),
    ),
    WrongRung(
        *(4, "`out` forgotten in the backward"),
        {"    if out is None:\n": "    if out is None or transpose:\n"},
        *("in the case 'backward in place, small and plain'", "WRONG"),
    ),
    WrongRung(
        *(4, "a flag that isn't a constant"),
        {"TRANSPOSE: tl.constexpr,": "TRANSPOSE,"},
        *("a flag or a size is NAME: tl.constexpr", "WRONG"),
    ),
    WrongRung(
        *(4, "another kernel for the backward"),
        {
            "    s, b, h, d = t.shape\n": "    from rope_kernels import rope_bw\n\n"
            "    if transpose and out is None:\n        return rope_bw(t, freqs)\n"
            "    s, b, h, d = t.shape\n"
        },
        "the backward launches another kernel, where a flag of this one would do",
    ),
    # 5: one warp
    WrongRung(
        *(5, "four rows"),
        {"num_warps = 8, 1": "num_warps = 4, 1"},
        "rung 5 wants instruction time at most 42 us",
    ),
    WrongRung(
        *(5, "one row"), {"num_warps = 8, 1": "num_warps = 1, 1"}, "they take 164 us to start"
    ),
    WrongRung(
        *(5, "pairs from the last to the first"),
        {"pair = tl.arange(0, BLOCK_HALF)": "pair = BLOCK_HALF - 1 - tl.arange(0, BLOCK_HALF)"},
        "16 bytes need neighbors in one lane",
    ),
    WrongRung(
        *(5, "the flag of rung 4 lost"),
        {"TRANSPOSE=transpose": "TRANSPOSE=False"},
        *("a sign and the wrong sine: the map itself", "WRONG"),
    ),
    # 6: the sine of a row
    WrongRung(
        *(6, "sixteen rows"),
        {"num_warps = 8, 1": "num_warps = 16, 1"},
        "more than 8 rows a program: stay at 8",
    ),
    WrongRung(
        *(6, "a loop over rows"),
        {
            "    rows,  # b * h, rows of one position\n": "    rows,  # b * h\n",
            "    tl.store(out_ptr + offset, x1": "    for _ in range(1):\n        pass\n"
            "    tl.store(out_ptr + offset, x1",
        },
        "instructions can't be counted through a loop; write rows as a tile",
    ),
    # 7: loads first
    WrongRung(
        *(7, "one sine before the second angle"),
        {
            "    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)\n": "",
            "    cos2, sin2": "    angle2 = tl.load(angle_ptr + HALF, mask=pair < HALF)\n"
            "    cos2, sin2",
        },
        "freqs_ptr is loaded after a sine: move (angle2 = tl.load(angle_ptr + HALF",
    ),
    WrongRung(
        *(7, "four warps"),
        {"block_r, num_warps = 8, 1": "block_r, num_warps = 8, 4"},
        "4 warps share the loads: see num_warps",
    ),
]
OF_THE_RUNG_BELOW = {  # what its kernel is told: it isn't on this rung yet
    2: "my_rope takes no `out`",
    3: "every row evaluates its own: a program needs several rows of one position",
    4: "my_rope takes no `transpose`",
    5: "128 lanes share the angles of a row: how many has each? See num_warps",
    6: "is the sine taken after the broadcast (cos1, sin1 = tl.cos(angle1), tl.sin(angle1))?",
    7: "t_ptr is loaded after a sine: move (x1 = tl.load(t_ptr + offset, mask",
}
WRONG_RUNGS += [
    WrongRung(
        *(rung, "the kernel of the rung below"),
        {RUNGS[rung].source.strip(): RUNGS[rung - 1].source.strip()},
        told,
    )
    for rung, told in OF_THE_RUNG_BELOW.items()
]
