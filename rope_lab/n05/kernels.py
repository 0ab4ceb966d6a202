"""Why the row kernel is slow: its arithmetic, or the start of its programs? Notebook 05 asks.

Importing this loads Triton.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from ..rungs import rung_1_naive, rung_2_row, rung_3_tile
from ..rungs.any_tile import launch
from ..rungs.changed import changed
from ..rungs.measured import beside_a_copy

# rung 2, its sines before its first store, with a flag that leaves them out
part_of_row_kernel = changed(
    rung_2_row.my_rope_kernel,
    "part_of_row_kernel",
    (
        "power of two\n):",
        "power of two\n"
        "    TRIG: tl.constexpr,  # compute cosine and sine? else use the angle itself for both\n"
        "):",
    ),
    (
        "    tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.sin(angle1)",
        "    cos1, sin1, cos2, sin2 = angle1, angle1, angle2, angle2\n"
        "    if TRIG:\n"
        "        cos1, sin1 = tl.cos(angle1), tl.sin(angle1)\n"
        "        cos2, sin2 = tl.cos(angle2), tl.sin(angle2)\n"
        "    tl.store(out_ptr + offset, x1 * cos1 - x2 * sin1",
    ),
    ("x2 * tl.cos(angle2) + x1 * tl.sin(angle2)", "x2 * cos2 + x1 * sin2"),
)


def part_of_row(t: Tensor, freqs: Tensor, trig: bool = True) -> Tensor:
    """Rung 2's result; without `trig` no rotation, but a time that tells what sin and cos cost."""
    return launch(part_of_row_kernel, t, freqs, TRIG=trig)


def make_cases() -> dict[str, Callable[[], Tensor]]:
    """Those of the record "05/two-bounds", at the headline shape."""
    rotations = {
        "naive": rung_1_naive.my_rope,
        "row": part_of_row,
        "row, no sin and cos": partial(part_of_row, trig=False),
        "tile": rung_3_tile.my_rope,
    }
    return beside_a_copy(rotations)
