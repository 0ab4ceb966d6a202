"""Widgets to play with. Each works by value: moving a slider sets another widget's value.

So a notebook can ask in a cell what a widget says with a slider elsewhere, and nbval tests it.
"""

import base64
import math

import ipywidgets as widgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from . import style as draw

# ipywidgets gives names neither to the handles of sliders nor to pictures, and does not say which
# button of a row is pressed. This does, in JupyterLab; elsewhere it is not run.
_NAMES_FOR_SCREEN_READERS = """
(() => {
  const tell = (explorer) => {
    for (const slider of explorer.querySelectorAll(".widget-slider, .widget-hslider")) {
      const name = slider.querySelector(".widget-label")?.textContent.trim() ?? "";
      for (const handle of slider.querySelectorAll("[role=slider]"))
        handle.setAttribute("aria-label", name);
      slider.querySelector(".widget-readout")?.setAttribute("aria-label", `value of ${name}`);
    }
    for (const button of explorer.querySelectorAll(".widget-toggle-button"))
      button.setAttribute("aria-pressed", button.classList.contains("mod-active"));
    const said = explorer.querySelector(".lab-said")?.textContent.trim() ?? "";
    for (const picture of explorer.querySelectorAll("img")) picture.alt = said;
  };
  const begin = (tries) => {
    const explorer = element.closest(".lab-explorer");
    if (!explorer) return tries && setTimeout(() => begin(tries - 1), 100);
    const changes = { subtree: true, childList: true, attributeFilter: ["class", "src"] };
    new MutationObserver(() => tell(explorer)).observe(explorer, changes);
    tell(explorer);
  };
  begin(100);
})();
"""


def names_for_screen_readers() -> widgets.Output:
    """An invisible part of a box of class `lab-explorer`: it names the sliders and the picture."""
    data = {"application/javascript": _NAMES_FOR_SCREEN_READERS}
    script = {"output_type": "display_data", "data": data, "metadata": {}}
    return widgets.Output(outputs=(script,), layout=widgets.Layout(height="0", margin="0"))


def slider(name: str, value: int, least: int, most: int, step: int = 1) -> widgets.IntSlider:
    return widgets.IntSlider(value, min=least, max=most, step=step, description=name)


class Explorer(widgets.VBox):
    """Sliders above, a line of text and a picture below; both follow the sliders.

    A page that shows no widgets, such as GitHub, shows the picture alone.

    A kind of explorer says what they show in `words` and `draw_on`, which take the sliders' values
    by name.

    Attributes:
        sliders: by name, in their order on the page; each is an attribute, too.
        said: HTML; what the picture shows, in words and numbers.
        picture: PNG.
    """

    NAME, SIZE = "Explorer", (3.6, 3.4)  # the picture's size in inches, of 100 pixels

    def __init__(self, **sliders: widgets.Widget) -> None:
        draw.style()
        self.sliders = sliders
        self.said = widgets.HTML().add_class("lab-said")
        width = {"width": f"{100 * self.SIZE[0]:.0f}px", "max_width": "100%"}
        self.picture = widgets.Image(format="png", layout=width)
        rows = widgets.HBox(list(sliders.values()), layout={"flex_flow": "row wrap"})
        super().__init__([rows, self.said, self.picture, names_for_screen_readers()])
        self.add_class("lab-explorer")
        for name, one in sliders.items():
            setattr(self, name, one)
            one.observe(self._update, "value")
        self._update()

    def words(self, **values: int | float) -> str:
        raise NotImplementedError

    def draw_on(self, ax: Axes, **values: int | float) -> None:
        raise NotImplementedError

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
        width, height = (round(100 * inches) for inches in self.SIZE)
        about = {"width": width, "height": height, "alt": repr(self)}
        picture = base64.b64encode(self.picture.value).decode()
        more = {"text/plain": repr(self), "image/png": picture}
        return data | more, {"image/png": about}

    def _update(self, _change=None) -> None:
        self.said.value = self.says()
        figure = Figure(figsize=self.SIZE)
        FigureCanvasAgg(figure)
        self.draw_on(figure.subplots(), **self.values())
        self.picture.value = draw.png(figure)


class RotationExplorer(Explorer):
    """A query at position m and a key at position n, each turned by its position times theta.

    It says the dot product of the rotated vectors; dashed arrows are those before. `theta` is in
    degrees a position.
    """

    NAME = "Rotation explorer"
    QUERY, KEY = 70, 20  # degrees at position 0

    def __init__(self, m: int = 4, n: int = 1, theta: int = 15) -> None:
        super().__init__(
            m=slider("m (query)", m, 0, 24),
            n=slider("n (key)", n, 0, 24),
            theta=slider("θ (degrees)", theta, 1, 45),
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
            d2=slider("d2", d2, 4, 16, step=2),
            pair=slider("pair i", pair, 0, 7),
            times=slider("times", times, 0, 12),
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
            color, chosen = colors.get(element, draw.INK), element in colors
            look = {"linewidth": 2.5, "zorder": 3} if chosen else {"linewidth": 1, "zorder": 2}
            draw.arrow(ax, (element, 0.84), (place, 0.16), color, arrowstyle="->", **look)
            for x, y in ((element, 0.92), (place, 0.08)):
                draw.write(ax, x, y, str(element), color=draw.inked(color), fontsize=11)
        ax.set(title=self._who_stays(d2, times))
        ax.set(xlim=(-0.6, d2 - 0.4), ylim=(0, 1), yticks=[0.92, 0.08])
        ax.set(yticklabels=["before", "after"], xticks=range(d2), xlabel="place")
        ax.tick_params(length=0)


class WhoLoadsWhat(Explorer):
    """Which elements of a tensor a program, a warp and a lane load, and what that costs.

    Elements are `stride` apart in memory. A block's elements are dealt out as Triton deals them
    out: up to 16 bytes of neighbors to a lane, then the next lane, then the next warp. Memory
    answers in sectors of 32 bytes, whole.
    """

    NAME, SIZE = "Who loads what", (7.0, 3.6)
    SECTOR, ROW = 32, 1024  # bytes

    def __init__(
        self, n: int = 2000, block: int = 512, num_warps: int = 4, element_bytes: int = 4
    ) -> None:
        self.n, self.block, self.num_warps, self.element_bytes = n, block, num_warps, element_bytes
        super().__init__(
            program=slider("program", 0, 0, -(-n // block) - 1),
            warp=slider("warp", 0, 0, num_warps - 1),
            lane=slider("lane", 0, 0, 31),
            stride=slider("stride", 1, 1, 8),
        )

    def elements(self, program: int, stride: int) -> np.ndarray:
        """(rounds, warps, lanes, neighbors): the program's elements, masked ones too."""
        at_once = max(1, min(16 // self.element_bytes, self.block // (32 * self.num_warps)))
        if stride > 1:
            at_once = 1  # no neighbors
        shape = (-1, self.num_warps, 32, at_once)
        return (program * self.block + np.arange(self.block)).reshape(shape)

    def _asked_and_sent(self, elements: np.ndarray, stride: int) -> tuple[int, int]:
        """Bytes that those of the elements have that exist, and those of their sectors."""
        asked = elements[elements < self.n] * stride * self.element_bytes
        sectors = np.unique(asked // self.SECTOR)
        return len(asked) * self.element_bytes, len(sectors) * self.SECTOR

    def words(self, program: int, warp: int, lane: int, stride: int) -> str:
        mine = self.elements(program, stride)[:, warp]
        asked, sent = self._asked_and_sent(mine, stride)
        masked = int((mine[:, :, 0] >= self.n).all(axis=0).sum())
        return (
            f"program {program}, warp {warp}: asks for {asked} bytes, memory sends {sent}; "
            f"lanes masked off: {masked} of 32"
        )

    def draw_on(self, ax: Axes, program: int, warp: int, lane: int, stride: int) -> None:
        everything = self.elements(program, stride)
        mine, columns = everything[:, warp], self.ROW // self.element_bytes
        memory = np.zeros((-(-self.n * stride // columns), columns), dtype=int)
        for shade, some in enumerate((np.arange(self.n), everything, mine, mine[:, lane]), 1):
            memory.flat[some[some < self.n] * stride] = shade
        _shade(ax, memory)
        asked, sent = self._asked_and_sent(mine, stride)
        ax.set(xlabel="place within a row of 1 KiB, in elements", ylabel="row of memory")
        ax.set(title=f"The warp uses {asked} of the {sent} bytes that memory sends")


class TileExplorer(Explorer):
    """Which elements of a tile a program, a warp and a lane hold; a tile has both halves of rows.

    Each half is a block of its own. Its elements are dealt out as Triton deals them out: up to 16
    bytes of neighbors to a lane, then the next lane and the next warp along the row, then those
    of the next row.
    """

    NAME, SIZE = "Tile explorer", (7.0, 3.0)
    GAP = 6  # between the halves, in the picture

    def __init__(
        self, rows: int = 20, half: int = 128, block_r: int = 8, element_bytes: int = 2
    ) -> None:
        self.rows, self.half, self.block_r = rows, half, block_r
        self.element_bytes = element_bytes
        choice = {"value": 4, "options": (1, 2, 4), "description": "num_warps"}
        super().__init__(
            program=slider("program", 0, 0, -(-rows // block_r) - 1),
            warp=slider("warp", 0, 0, 3),
            lane=slider("lane", 0, 0, 31),
            num_warps=widgets.SelectionSlider(**choice),
        )

    def _update(self, _change=None) -> None:
        self.warp.max = self.num_warps.value - 1  # the last warp that there is
        super()._update()

    def holders(self, num_warps: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Program, warp and lane of each element (rows, 2, half)."""
        num_warps = num_warps or self.num_warps.value
        row, _, pair = np.indices((self.rows, 2, self.half))
        program, row = np.divmod(row, self.block_r)
        at_once = self.block_r * self.half // (32 * num_warps)
        at_once = max(1, min(16 // self.element_bytes, at_once))
        pieces = self.half // at_once  # of a row
        lanes = min(32, pieces)  # beside one another
        warps = max(1, min(num_warps, pieces // lanes))
        row, lane = np.divmod(row, 32 // lanes)
        piece, in_row = np.divmod(pair // at_once, lanes)
        warp = piece % warps + warps * (row % (num_warps // warps))
        return program, warp, in_row + lanes * lane

    def _held(self, num_warps: int, *chosen: int) -> np.ndarray:
        """(4, rows, 2, half): everything, then the program's, of these the warp's, the lane's."""
        holders = self.holders(num_warps)
        equal = [mine == number for mine, number in zip(holders, chosen, strict=True)]
        return np.logical_and.accumulate([np.ones_like(equal[0]), *equal])

    def words(self, program: int, warp: int, lane: int, num_warps: int) -> str:
        warp = min(warp, num_warps - 1)
        first, second = self._held(num_warps, program, warp, lane)[-1].swapaxes(0, 1)
        rows = ", ".join(str(row) for row in np.flatnonzero((first | second).any(axis=1)))
        return (
            f"program {program}, warp {warp} of {num_warps}, lane {lane}: "
            f"{(first & second).sum()} pairs (rows: {rows or 'none'}), "
            f"{(first != second).sum()} members without their partner"
        )

    def draw_on(self, ax: Axes, program: int, warp: int, lane: int, num_warps: int) -> None:
        held = self._held(num_warps, program, warp, lane)
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
