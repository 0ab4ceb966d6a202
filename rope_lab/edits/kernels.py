"""The kernel of *Three edits*, which is rung 2's, and what the edits make of it.

Importing this loads Triton.
"""

from functools import partial

from ..judge.climb.instruments import headline
from ..judge.rehearsal import rehearsed
from ..rungs import rung_2_tile
from ..rungs.any_tile import launch
from ..rungs.changed import changed

_NAME = rung_2_tile.my_rope_kernel.fn.__name__
_LOADS = """\
    offset = ((position * rows + row) * 2 * HALF)[:, None] + pair[None, :]
    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)
"""

# edit 1 changes the launcher alone
KERNELS = {1: rung_2_tile.my_rope_kernel, 2: rung_2_tile.my_rope_kernel}  # before an edit
KERNELS[3] = changed(
    KERNELS[2],
    _NAME,
    (
        "angle1 = tl.load(angle_ptrs, mask=pair < HALF)[None, :]",
        "angle1 = tl.load(angle_ptrs, mask=pair < HALF)",
    ),
    (
        "angle2 = tl.load(angle_ptrs + HALF, mask=pair < HALF)[None, :]",
        "angle2 = tl.load(angle_ptrs + HALF, mask=pair < HALF)",
    ),
    ("tl.cos(angle1), tl.sin(angle1)", "tl.cos(angle1)[None, :], tl.sin(angle1)[None, :]"),
    ("tl.cos(angle2), tl.sin(angle2)", "tl.cos(angle2)[None, :], tl.sin(angle2)[None, :]"),
)
FINAL = changed(
    KERNELS[3], _NAME, (_LOADS, ""), ("    angle_ptrs = ", f"{_LOADS}    angle_ptrs = ")
)


def compile_answers() -> None:
    """Compile the kernels after edits 2 and 3; that after edit 1 is rung 3."""
    for kernel in (KERNELS[3], FINAL):
        rope = partial(launch, kernel, block_r=8, num_warps=1)
        (caught,) = rehearsed(rope, headline, "meta").launches
        caught.compiled()
