"""Drawings of notebook 03 and its detour: who loads what, who waits for whom, measured times."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from . import style as draw
from .style import BLUE, GREEN, INK, ORANGE, PALE, PROGRAM_COLORS, RED, WIDTH

_CELL = 0.86  # of an element, which is 1 wide

# by warps: marker, size, color; where curves lie on one line, each still shows around the next
_MARKERS = {1: ("o", 11, BLUE), 2: ("s", 8, ORANGE), 4: ("^", 5, GREEN), 8: ("D", 5, RED)}


def who_loads_what(n: int, block: int) -> None:
    """Elements in a row, colored by the program that handles them; the masked tail is hollow."""
    programs = -(-n // block)
    figure, ax = plt.subplots(figsize=(8.0, 1.9))
    for program, color in enumerate(PROGRAM_COLORS[:programs]):
        first, last = program * block, (program + 1) * block - 1
        for i in range(first, last + 1):
            draw.box(ax, i, 0, _CELL, _CELL, color, str(i), exists=i < n)
        ax.plot([first - 0.4, last + 0.4], [-0.62] * 2, color=color)
        draw.write(ax, (first + last) / 2, -1.0, f"program {program}", fontsize=11)
    beyond = programs * block - n
    draw.bare(ax, (-0.7, programs * block - 0.3), (-1.3, 0.6), aspect="equal")
    words = f"{programs * block} boxes in a row, {block} for each of {programs} programs. The last "
    words += f"{beyond} are hollow."
    title = f"The mask keeps program {programs - 1} from {beyond} elements that do not exist"
    draw.finish(figure, title, words)


def warps_and_lanes(warps: int, per_lane: int, element_bytes: int = 4) -> None:
    """One program: a row for each warp, a box for each lane, and the cache lines that it loads."""
    lanes, line = 32, 128 // (per_lane * element_bytes)  # lanes that share a cache line
    figure, ax = plt.subplots(figsize=(WIDTH, 2.8))
    for warp in range(warps):
        y = -0.5 - 2.6 * warp
        ax.text(-0.4, y, f"warp {warp}", ha="right", va="center")
        for lane in range(lanes):
            draw.box(ax, lane + 0.5, y, 0.9, 1, PROGRAM_COLORS[warp], str(lane))
        for start in range(0, lanes, line):
            first = (warp * lanes + start) * per_lane
            ax.plot([start + 0.1, start + line - 0.1], [y - 0.7] * 2, color=INK, linewidth=1.2)
            words = f"elements {first} to {first + line * per_lane - 1}"
            draw.write(ax, start + line / 2, y - 0.85, words, va="top", fontsize=9.5)
    draw.bare(ax, (-3.4, lanes + 0.3), (0.3 - 2.6 * warps, 0.2))
    words = f"{warps} rows of 32 boxes, one row for each warp and one box for each lane. Every "
    words += f"{line} lanes in a row share a cache line of {line * per_lane} elements."
    title = f"One load of a warp fetches {lanes // line} whole cache lines of 128 bytes"
    draw.finish(figure, title, words)


def every_eighth(sectors: int) -> None:
    """Sectors of eight elements in memory; a warp of the strided copy wants one in each."""
    figure, ax = plt.subplots(figsize=(WIDTH, 1.9))
    for sector in range(sectors):
        left, target = 9 * sector, 9 * (sectors - 1) / 2 + sector - 1.5
        draw.frame(ax, left + 3.5, 2.0, 8.24, 1.24, linewidth=1.2)
        draw.write(ax, left + 3.5, 3.15, "one sector, 32 bytes", fontsize=9.5)
        for i in range(8):
            color = BLUE if i == 0 else PALE
            draw.box(ax, left + i, 2.0, _CELL, _CELL, color, str(8 * sector + i))
        draw.arrow(ax, (left, 1.35), (target, -0.5), BLUE, mutation_scale=10)
        draw.box(ax, target, -1.0, _CELL, _CELL, BLUE, str(8 * sector))
    _name_the_rows(ax, -1.2, 2.0, -1.0)
    draw.bare(ax, (-3.0, 9 * sectors - 0.3), (-1.6, 3.4), aspect="equal")
    words = f"{sectors} sectors of eight elements. The strided copy takes the first element of "
    words += "each, which is blue, and leaves seven, which are pale."
    draw.finish(figure, "Of eight elements that memory sends, one is used", words)


def _name_the_rows(ax: Axes, right: float, x: float, out: float) -> None:
    ax.text(right, x, "x", ha="right", va="center")
    ax.text(right, out, "out", ha="right", va="center")


def host_and_device(host: float, small: float, large: float, calls: int) -> None:
    """A sketch of calls in a row, with short and with long kernels: who waits for whom."""
    figure, axes = plt.subplots(2, 1, figsize=(8.0, 3.8), sharex=True)
    _queue(axes[0], host, small, calls, "16 elements: the device waits for the host")
    _queue(axes[1], host, large, calls, "16 million elements: the host is ahead")
    axes[1].set_xlabel("microseconds (a sketch)")
    words = f"Two timelines of {calls} calls. Above, each short kernel starts when its call has "
    words += "been queued, and the device is idle in between. Below, the host has queued all calls "
    words += "while the device still runs, without a gap."
    draw.finish(figure, "", words)


def _queue(ax: Axes, host: float, device: float, calls: int, title: str) -> None:
    """When the host queues each call, and when the device runs it."""
    starts = [host]  # the first runs once it is queued; the next also waits for the one before
    for call in range(1, calls):
        starts.append(max((call + 1) * host, starts[-1] + device))
    numbers = [str(call) for call in range(calls)]
    queued = [call * host for call in range(calls)]
    draw.spans(ax, 1, queued, [host] * calls, PROGRAM_COLORS[:calls], numbers)
    draw.spans(ax, 0, starts, [device] * calls, PROGRAM_COLORS[:calls], numbers)
    ax.set(ylim=(-0.5, 1.5), title=title)
    ax.set_yticks([0, 1], ["device runs", "host queues"])


def curves(host, device, sizes: list[int]) -> None:
    """Host and device time against the number of elements; beside it the larger of the two."""
    figure, (parts, larger) = plt.subplots(1, 2, figsize=(WIDTH, 4.5), sharey=True)
    for who, color, marker in (("PyTorch", BLUE, "o"), ("ours", GREEN, "^")):
        cases, look = [f"{who}, {n} elements" for n in sizes], {"color": color, "marker": marker}
        us = np.array([[clock[case].median_us for case in cases] for clock in (host, device)])
        parts.semilogx(sizes, us[0], linestyle="--", label=f"{who}, host", **look)
        parts.semilogx(sizes, us[1], label=f"{who}, device", **look)
        larger.semilogx(sizes, us.max(axis=0), **look)
    parts.set(ylabel="microseconds", title="Host time is flat, device time grows")
    larger.set(title="A call costs the larger of the two")
    for ax in (parts, larger):
        draw.log_ticks(ax, "y", [2.5 * 2**e for e in range(12)])
        ax.set(xlabel="elements (fp32)")
        ax.grid(True)
    figure.legend(loc="outside lower center", ncols=4)
    words = f"Left, host and device times from {sizes[0]} to {sizes[-1]} elements, PyTorch's and "
    words += "ours. Right, the larger of the two for each: flat at first, then rising with the "
    words += "device time."
    draw.finish(figure, "", words, host.source)


def block_sweep(measurement, blocks: list[int]) -> None:
    """Per cent of copy bandwidth against BLOCK."""
    figure, ax = plt.subplots(figsize=(8.0, 3.7))
    cases = {block: f"block {block}" for block in blocks}
    share = _over_blocks(ax, measurement, "copy", cases, marker="o", color=GREEN)
    ax.set_ylabel("% of copy bandwidth")
    enough = next((block for block in blocks if share[block] >= 95), None)
    title = "No BLOCK reaches 95 % of copy bandwidth"
    if enough:
        title = f"From BLOCK = {enough} on, the kernel keeps pace with the copy"
    points = ", ".join(f"{block}: {per_cent:.0f} %" for block, per_cent in share.items())
    words = f"Per cent of copy bandwidth over BLOCK. {points}."
    draw.finish(figure, title, words, measurement.source)


def sweep_of_warps(measurement, sizes: list[int], blocks: list[int]) -> None:
    """Per cent of copy bandwidth over BLOCK: a panel for each size, a line for each num_warps."""
    figure, axes = plt.subplots(1, len(sizes), figsize=(WIDTH, 4.4), sharey=True)
    for ax, n in zip(axes, sizes, strict=True):
        for warps, (marker, size, color) in _MARKERS.items():
            cases = {block: f"{n} elements, block {block}, {warps} warps" for block in blocks}
            look = {"marker": marker, "markersize": size, "color": color}
            label = f"num_warps={warps}" if ax is axes[0] else None
            _over_blocks(ax, measurement, f"copy, {n} elements", cases, label=label, **look)
        ax.set_title(f"{n / 2**20:.0f} Mi elements in fp32")
    axes[0].set_ylabel("% of copy bandwidth")
    figure.legend(loc="outside lower center", ncols=4)
    words = "Per cent of copy bandwidth over BLOCK for 1, 2, 4 and 8 warps. The four curves lie "
    words += "almost on one line."
    title = "BLOCK decides; the number of warps hardly does"
    draw.finish(figure, title, words, measurement.source)


def _over_blocks(ax: Axes, measurement, copy: str, cases: dict[int, str], **look) -> dict:
    """Draw and return the per cent of copy bandwidth of the cases that were measured."""
    taken = {block: case for block, case in cases.items() if case in measurement.cases}
    fastest = measurement[copy].median_us
    share = {block: 100 * fastest / measurement[case].median_us for block, case in taken.items()}
    ax.plot(share.keys(), share.values(), **look)
    ax.axhline(100, color=INK, linewidth=1.0, linestyle=":")
    draw.log_ticks(ax, "x", list(cases)[::2])
    ax.set(xlabel="BLOCK, elements of a program", ylim=(0, None))
    ax.grid(True)
    return share
