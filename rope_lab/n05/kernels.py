"""What limits the kernels of notebook 05: bytes, sines, or the start of programs?

Importing this loads Triton.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from ..rungs import rung_1_naive, rung_2_tile
from ..rungs.any_tile import launch
from ..rungs.changed import changed
from ..rungs.measured import beside_a_copy
from ..rungs.pairs_of_a_row import pairs_kernel, rope_by_pairs

# angles in place of their sines and cosines: the result is wrong, and its time tells what they cost
without_sines_kernel = changed(
    pairs_kernel,
    "without_sines_kernel",
    ("x1 * tl.cos(angle1) - x2 * tl.sin(angle1)", "x1 * angle1 - x2 * angle1"),
    ("x2 * tl.cos(angle2) + x1 * tl.sin(angle2)", "x2 * angle2 + x1 * angle2"),
)


def make_cases() -> dict[str, Callable[[], Tensor]]:
    """Those of the record "05/against-the-copy", at the headline shape."""
    rotations = {
        "rung 1": rung_1_naive.my_rope,
        "pairs": rope_by_pairs,
        "pairs, no sin and cos": partial(launch, without_sines_kernel),
        "rung 2": rung_2_tile.my_rope,
    }
    return beside_a_copy(rotations)
