"""Mistakes in answers to notebook 09."""

from . import WrongRung

NUMBERS = {
    3: [
        (["instructions", "instructions", "programs", "bytes"], "its instructions take 7 us"),
        (["bytes", "bytes", "programs", "bytes"], "its bytes take 30 us"),
    ],
}
RUNGS = [
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
