"""Widgets to play with. Each works by value: moving a slider sets another widget's value.

So a notebook can ask in a cell what a widget says with a slider elsewhere, and nbval tests it.
"""

import html
import math

import ipywidgets as widgets
import numpy as np
from IPython.core.pylabtools import print_figure
from ipywidgets import IntSlider, SelectionSlider
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from . import audit
from . import style as draw

# ipywidgets does not tell a screen reader what the handle of a slider is called. This does, where
# the page runs scripts. The sliders appear one by one, so it looks several times.
_NAME_THE_SLIDERS = """
const nameThem = () => {
  for (const slider of document.querySelectorAll(".widget-slider"))
    for (const handle of slider.querySelectorAll("[role=slider]"))
      handle.ariaLabel = slider.querySelector(".widget-label").textContent;
};
for (const seconds of [0, 0.3, 1, 3, 10]) setTimeout(nameThem, 1000 * seconds);
"""


class Explorer(widgets.VBox):
    """Sliders above, a line of text and a picture below; both follow the sliders.

    A page that shows no widgets, such as GitHub, shows the picture alone.

    A kind of explorer has `words(**values)` and `draw_on(ax, **values)`: what they show with these
    values of the sliders, by name.

    Attributes:
        sliders: by name, in their order on the page; each is an attribute, too.
        said: HTML; what the picture shows, in words and numbers.
        shown: HTML; the picture.
        picture: PNG in base64, with two pixels for each pixel of the page.
    """

    NAME, SIZE = "Explorer", (3.6, 3.4)  # the picture's size in inches, of 100 pixels

    def __init__(self, **sliders: widgets.Widget) -> None:
        draw.style()
        self.sliders, self.said, self.shown = sliders, widgets.HTML(), widgets.HTML()
        script = {"application/javascript": _NAME_THE_SLIDERS}
        script = {"output_type": "display_data", "data": script, "metadata": {}}
        hidden = {"height": "0", "margin": "0", "overflow": "hidden"}
        unseen = widgets.Output(outputs=(script,), layout=hidden)
        row = widgets.HBox(list(sliders.values()), layout={"flex_flow": "row wrap"})
        super().__init__([row, self.said, self.shown, unseen])
        for name, one in sliders.items():
            setattr(self, name, one)
            one.observe(self._update, "value")
        self._update()

    def values(self) -> dict[str, int | float]:
        return {name: one.value for name, one in self.sliders.items()}

    def says(self, **values: int | float) -> str:
        """What it would say with these sliders elsewhere; on the page nothing moves."""
        return self.words(**self.values() | values)

    def __repr__(self) -> str:
        return f"{self.NAME}: {self.says()}"

    def _repr_mimebundle_(self, **options) -> tuple[dict, dict]:
        """The widget, and its picture for pages that show no widgets."""
        data = super()._repr_mimebundle_(**options)
        data |= {"text/plain": repr(self), "image/png": self.picture}
        return data, {"image/png": self._about_the_picture()}

    def _about_the_picture(self) -> dict[str, int | str]:
        width, height = (round(100 * inches) for inches in self.SIZE)
        return {"width": width, "height": height, "alt": repr(self)}

    def _update(self, _change=None) -> None:
        figure = Figure(figsize=self.SIZE)
        self.draw_on(figure.subplots(), **self.values())
        audit.audit_if_asked(figure)
        self.picture = print_figure(figure, "retina", bbox_inches=None, base64=True)
        about = self._about_the_picture() | {"src": f"data:image/png;base64,{self.picture}"}
        image = " ".join(f'{name}="{html.escape(str(value))}"' for name, value in about.items())
        # decoded at once, a picture takes the place of the last without a flicker
        self.shown.value = f'<img decoding="sync" {image}>'
        self.said.value = self.says()


class RotationExplorer(Explorer):
    """A query at position m and a key at position n, each turned by its position times theta.

    It says the dot product of the rotated vectors; dashed arrows are those before. `theta` is in
    degrees a position.
    """

    NAME = "Rotation explorer"
    QUERY, KEY = 70, 20  # degrees at position 0

    def __init__(self, m: int = 4, n: int = 1, theta: int = 15) -> None:
        super().__init__(
            m=IntSlider(m, 0, 24, description="m (query)"),
            n=IntSlider(n, 0, 24, description="n (key)"),
            theta=IntSlider(theta, 1, 45, description="θ (degrees)"),
        )

    def words(self, m: int, n: int, theta: int) -> str:
        score = math.cos(math.radians(self.QUERY - self.KEY + (m - n) * theta))
        return f"m - n = {m - n}, rotated query · rotated key = {score:.3f}"

    def draw_on(self, ax: Axes, m: int, n: int, theta: int) -> None:
        draw.plane(ax, title=f"m \u2212 n = {m - n} decides the score")
        for name, degrees, position, color in (
            ("q", self.QUERY, m, draw.BLUE),
            ("k", self.KEY, n, draw.ORANGE),
        ):
            for turn, dashed in ((0, True), (position * theta, False)):
                angle = math.radians(degrees + turn)
                tip = math.cos(angle), math.sin(angle)
                draw.vector(ax, tip, color, "" if dashed else name, dashed)


class PermutationExplorer(Explorer):
    """The permutation from half-split to interleaved order, once or several times in a row.

    `d2` is the number of elements. The two members of `pair` are in color.
    """

    NAME, SIZE = "Permutation explorer", (7.0, 2.4)

    def __init__(self, d2: int = 8, pair: int = 1, times: int = 1) -> None:
        super().__init__(
            d2=IntSlider(d2, 4, 16, 2, description="d2"),
            pair=IntSlider(pair, 0, 7, description="pair i"),
            times=IntSlider(times, 0, 12, description="times"),
        )

    def places(self, d2: int, times: int) -> np.ndarray:
        """Where each element is afterwards."""
        place = np.arange(d2)
        for _ in range(times):
            # the first half goes to the even places, the second to the odd ones
            place = np.where(place < d2 // 2, 2 * place, 2 * place - d2 + 1)
        return place

    def _who_stays(self, d2: int, times: int) -> str:
        stay = (self.places(d2, times) == np.arange(d2)).sum()
        return f"{stay} of {d2} elements are where they were"

    def words(self, d2: int, pair: int, times: int) -> str:
        first = min(pair, d2 // 2 - 1)
        second, place = first + d2 // 2, self.places(d2, times)
        return (
            f"pair {first}: elements {first} and {second} go to {place[first]} and "
            f"{place[second]}; {self._who_stays(d2, times)}"
        )

    def draw_on(self, ax: Axes, d2: int, pair: int, times: int) -> None:
        first = min(pair, d2 // 2 - 1)
        colors = {first: draw.BLUE, first + d2 // 2: draw.ORANGE}
        for element, place in enumerate(self.places(d2, times)):
            color, width = colors.get(element, draw.INK), 2.5 if element in colors else 1
            draw.arrow(ax, (element, 0.84), (place, 0.16), color, arrowstyle="->", linewidth=width)
            for x, y in ((element, 0.92), (place, 0.08)):
                draw.write(ax, x, y, str(element), color=draw.inked(color), fontsize=11)
        ax.set(title=self._who_stays(d2, times))
        ax.set(xlim=(-0.6, d2 - 0.4), ylim=(0, 1), yticks=[0.92, 0.08])
        ax.set(yticklabels=["before", "after"], xticks=range(d2), xlabel="place")
        ax.tick_params(length=0)


# who holds which element

Holders = tuple[np.ndarray, np.ndarray, np.ndarray]  # program, warp and lane of each element


def dealt_out(rows: int, columns: int, block_r: int, num_warps: int, neighbors: int) -> Holders:
    """Who holds each element (rows, columns), where a program has `block_r` rows.

    As Triton deals them out: up to `neighbors` to a lane, then the next lane and the next warp
    along the row, then those of the next row; and when all have some, it goes on with the first.
    """
    row, column = np.indices((rows, columns))
    program, row = np.divmod(row, block_r)
    neighbors = max(1, min(neighbors, block_r * columns // (32 * num_warps)))
    pieces = columns // neighbors  # of a row
    lanes = min(32, pieces)  # beside one another
    warps = max(1, min(num_warps, pieces // lanes))
    row, lane = np.divmod(row, 32 // lanes)
    piece, in_row = np.divmod(column // neighbors, lanes)
    warp = piece % warps + warps * (row % (num_warps // warps))
    return program, warp, in_row + lanes * lane


def _held(holders: Holders, chosen: tuple[int, int, int]) -> np.ndarray:
    """(4, ...): everything, then the program's, of these the warp's, of these the lane's."""
    equal = [mine == number for mine, number in zip(holders, chosen, strict=True)]
    return np.logical_and.accumulate([np.ones_like(equal[0]), *equal])


class WhoLoadsWhat(Explorer):
    """Which elements of a tensor a program, a warp and a lane load, and what that costs.

    Elements are `stride` apart in memory. Memory answers in sectors of 32 bytes, whole.
    """

    NAME, SIZE = "Who loads what", (7.0, 3.6)
    SECTOR, ROW = 32, 1024  # bytes

    def __init__(
        self, n: int = 2000, block: int = 512, num_warps: int = 4, element_bytes: int = 4
    ) -> None:
        self.n, self.block, self.num_warps, self.element_bytes = n, block, num_warps, element_bytes
        super().__init__(
            program=IntSlider(0, 0, -(-n // block) - 1, description="program"),
            warp=IntSlider(0, 0, num_warps - 1, description="warp"),
            lane=IntSlider(0, 0, 31, description="lane"),
            stride=IntSlider(1, 1, 8, description="stride"),
        )

    def holders(self, stride: int) -> Holders:
        """Program, warp and lane of each of the n elements."""
        neighbors = 16 // self.element_bytes if stride == 1 else 1
        programs = -(-self.n // self.block)
        dealt = dealt_out(programs, self.block, 1, self.num_warps, neighbors)
        return tuple(holder.flat[: self.n] for holder in dealt)

    def _asked_and_sent(self, mine: np.ndarray, stride: int) -> tuple[int, int]:
        """Bytes of the chosen elements, and of all of their sectors."""
        sectors = np.unique(np.flatnonzero(mine) * stride * self.element_bytes // self.SECTOR)
        return mine.sum() * self.element_bytes, len(sectors) * self.SECTOR

    def words(self, program: int, warp: int, lane: int, stride: int) -> str:
        holders = self.holders(stride)
        mine = _held(holders, (program, warp, lane))[2]
        asked, sent = self._asked_and_sent(mine, stride)
        return (
            f"program {program}, warp {warp}: asks for {asked} bytes, memory sends {sent}; "
            f"lanes masked off: {32 - len(np.unique(holders[2][mine]))} of 32"
        )

    def draw_on(self, ax: Axes, program: int, warp: int, lane: int, stride: int) -> None:
        held = _held(self.holders(stride), (program, warp, lane))
        columns = self.ROW // self.element_bytes
        memory = np.zeros((-(-self.n * stride // columns), columns), dtype=int)
        memory.flat[np.arange(self.n) * stride] = held.sum(axis=0)
        _shade(ax, memory)
        asked, sent = self._asked_and_sent(held[2], stride)
        ax.set(xlabel="place within a row of 1 KiB, in elements", ylabel="row of memory")
        ax.set(title=f"The warp uses {asked} of the {sent} bytes that memory sends")


class TileExplorer(Explorer):
    """Which elements of a tile a program, a warp and a lane hold; a tile has both halves of rows.

    Each half is a block of its own.
    """

    NAME, SIZE = "Tile explorer", (7.0, 3.0)
    GAP = 6  # between the halves, in the picture

    def __init__(
        self, rows: int = 20, half: int = 128, block_r: int = 8, element_bytes: int = 2
    ) -> None:
        self.rows, self.half, self.block_r = rows, half, block_r
        self.element_bytes = element_bytes
        super().__init__(
            program=IntSlider(0, 0, -(-rows // block_r) - 1, description="program"),
            warp=IntSlider(0, 0, 3, description="warp"),
            lane=IntSlider(0, 0, 31, description="lane"),
            num_warps=SelectionSlider(value=4, options=(1, 2, 4), description="num_warps"),
        )

    def _update(self, _change=None) -> None:
        self.warp.max = self.num_warps.value - 1  # the last warp that there is
        super()._update()

    def holders(self, num_warps: int | None = None) -> Holders:
        """Program, warp and lane of each element (rows, 2, half)."""
        num_warps = num_warps or self.num_warps.value
        dealt = dealt_out(self.rows, self.half, self.block_r, num_warps, 16 // self.element_bytes)
        return tuple(np.stack([holder, holder], axis=1) for holder in dealt)

    def words(self, program: int, warp: int, lane: int, num_warps: int) -> str:
        warp = min(warp, num_warps - 1)
        held = _held(self.holders(num_warps), (program, warp, lane))[-1]
        first, second = held.swapaxes(0, 1)
        rows = ", ".join(str(row) for row in np.flatnonzero(held.any(axis=(1, 2))))
        return (
            f"program {program}, warp {warp} of {num_warps}, lane {lane}: "
            f"{(first & second).sum()} pairs (rows: {rows or 'none'}), "
            f"{(first != second).sum()} members without their partner"
        )

    def draw_on(self, ax: Axes, program: int, warp: int, lane: int, num_warps: int) -> None:
        held = _held(self.holders(num_warps), (program, warp, lane))
        shades, gap = held.sum(axis=0), np.zeros((self.rows, self.GAP), dtype=int)
        _shade(ax, np.hstack([shades[:, 0], gap, shades[:, 1]]))
        ax.set(title=f"Lane {lane} holds {held[-1].all(axis=1).sum()} whole pairs")
        columns = np.arange(0, self.half, self.half // 4)
        ax.set_xticks([*columns, *columns + self.half + self.GAP], [*columns, *columns])
        ax.set(xlabel="pair: its first member in x1 (left), its second in x2", ylabel="row")
        ax.set_yticks(range(0, self.rows, self.block_r))


def _shade(ax: Axes, chosen: np.ndarray) -> None:
    """An element a cell: 0 nothing, 1 an element, 2 the program's, 3 the warp's, 4 the lane's."""
    names = {
        "no element": "none",
        "other programs": "#d4d4d4",
        "the program": "#a9cdec",
        "its warp": draw.BLUE,
        "its lane": draw.ORANGE,
    }
    cmap = ListedColormap(list(names.values()))
    ax.imshow(chosen, cmap=cmap, vmin=0, vmax=4, aspect="auto", interpolation="none")
    edge = {"edgecolor": draw.INK, "linewidth": 0.8}
    patches = [Rectangle((0, 0), 1, 1, facecolor=color, **edge) for color in names.values()]
    look = {"handlelength": 1.2, "fontsize": 10, "columnspacing": 1.4}
    ax.figure.legend(patches, names, loc="outside lower center", ncols=5, **look)
