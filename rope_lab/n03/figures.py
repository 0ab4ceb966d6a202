"""The drawing of notebook 03: what the threads of a program load."""

import matplotlib.pyplot as plt

from ..figures import style as draw
from ..figures.style import INK, PROGRAM_COLORS, WIDTH

THREADS, LINE, ELEMENT = 32, 128, 4  # of a warp; bytes of a cache line, and of an fp32 element
AT_ONCE = 4  # elements that a thread loads by one instruction, at most: 16 bytes


def _each_thread(block: int, num_warps: int) -> tuple[int, int]:
    """How many elements a thread has, and how many it loads at once."""
    has = block // (num_warps * THREADS)
    return has, min(has, AT_ONCE)


def warps_and_threads(block: int, num_warps: int) -> None:
    """A program's first load: a row for each warp, a box for each thread, and the cache lines."""
    has, at_once = _each_thread(block, num_warps)
    line = LINE // (at_once * ELEMENT)  # threads that share a cache line
    figure, ax = plt.subplots(figsize=(WIDTH, 1 + 0.7 * num_warps))
    for warp in range(num_warps):
        y = -0.5 - 2.6 * warp
        ax.text(-0.4, y, f"warp {warp}", ha="right", va="center")
        for thread in range(THREADS):
            color = PROGRAM_COLORS[warp % len(PROGRAM_COLORS)]
            draw.box(ax, thread + 0.5, y, 0.9, 1, color, str(thread))
        for start in range(0, THREADS, line):
            first = (warp * THREADS + start) * at_once
            ax.plot([start + 0.1, start + line - 0.1], [y - 0.7] * 2, color=INK, linewidth=1.2)
            words = f"elements {first} to {first + line * at_once - 1}"
            draw.write(ax, start + line / 2, y - 0.85, words, va="top", fontsize=9.5)
    draw.bare(ax, (-3.4, THREADS + 0.3), (0.3 - 2.6 * num_warps, 0.2))
    load, lines = "one load" if has == at_once else "its first load", THREADS // line
    of_a_thread = f"{at_once} element{'s' * (at_once > 1)}"
    of_a_warp = f"{lines} cache line{'s' * (lines > 1)} of 128 bytes"
    draw.finish(figure, f"In {load}, a thread gets {of_a_thread}, and a warp {of_a_warp}")


def loads_of_a_thread(block: int, num_warps: int) -> str:
    """What `warps_and_threads` shows, in words."""
    has, at_once = _each_thread(block, num_warps)
    again = f", {has // at_once} times" if has > at_once else ""
    at_a_time = f"each thread loads {at_once * ELEMENT} bytes at once{again}"
    return f"block {block}, num_warps {num_warps}: {at_a_time}"
