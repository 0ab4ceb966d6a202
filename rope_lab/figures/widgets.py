"""Widgets to play with. Each works by value: moving a slider sets another widget's value.

So a notebook can ask in a cell what a widget says with a slider elsewhere, and nbval tests it.
"""

import base64
import html
import math
import re
from contextlib import ExitStack

import ipywidgets as widgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

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


class Explorer(widgets.VBox):
    """Sliders above, a line of text and a picture below; both follow the sliders.

    A page that shows no widgets, such as GitHub, shows the picture alone.

    A kind of explorer says what they show in `_said` and `_draw_on`.

    Attributes:
        sliders: in their order on the page.
        said: HTML; what the picture shows, in words and numbers.
        picture: PNG.
    """

    NAME, SIZE = "Explorer", (3.6, 3.4)  # the picture's size in inches, of 100 pixels

    def __init__(self, *sliders: widgets.Widget) -> None:
        self.sliders = sliders
        self.said = widgets.HTML()
        self.said.add_class("lab-said")
        width = widgets.Layout(width=f"{100 * self.SIZE[0]:.0f}px", max_width="100%")
        self.picture = widgets.Image(format="png", layout=width)
        rows = widgets.HBox(sliders, layout=widgets.Layout(flex_flow="row wrap"))
        super().__init__([rows, self.said, self.picture, names_for_screen_readers()])
        self.add_class("lab-explorer")
        self._is_asked = False
        draw.style()
        for slider in sliders:
            slider.observe(self._update, names="value")
        self._update()

    def __repr__(self) -> str:
        return f"{self.NAME}: {html.unescape(re.sub('<[^>]*>', ' ', self.said.value))}"

    def _repr_mimebundle_(self, **options) -> tuple[dict, dict]:
        """The widget, and its picture for pages that show no widgets."""
        data = super()._repr_mimebundle_(**options)
        width, height = (round(100 * inches) for inches in self.SIZE)
        about = {"width": width, "height": height, "alt": repr(self)}
        picture = base64.b64encode(self.picture.value).decode()
        more = {"text/plain": repr(self), "image/png": picture}
        return data | more, {"image/png": about}

    def says(self, **values: int | float) -> str:
        """What it would say with these sliders elsewhere; on the page nothing moves."""
        before = [slider.value for slider in self.sliders]
        with ExitStack() as stack:
            for slider in self.sliders:
                stack.enter_context(slider.hold_sync())
            self._is_asked = True
            try:
                for name, value in values.items():
                    getattr(self, name).value = value
                return self._said()
            finally:
                # from the last one: how far a slider goes may depend on those after it
                for slider, value in reversed(list(zip(self.sliders, before, strict=True))):
                    slider.value = value
                self._is_asked = False

    def _update(self, _change=None) -> None:
        if self._is_asked:
            return
        self.said.value = self._said()
        figure = Figure(figsize=self.SIZE, layout="constrained")
        FigureCanvasAgg(figure)
        self._draw_on(figure.subplots())
        self.picture.value = draw.png(figure)

    def _said(self) -> str:
        raise NotImplementedError

    def _draw_on(self, ax: Axes) -> None:
        raise NotImplementedError


class RotationExplorer(Explorer):
    """A query at position m and a key at position n, each turned by its position times theta.

    Attributes:
        m, n: sliders for the two positions.
        theta: slider for the turn a position, in degrees.
        score: `said`; the dot product of the rotated vectors, to three decimals.
        picture: the two vectors before (dashed) and after (solid).
    """

    NAME = "Rotation explorer"
    QUERY_ANGLE, KEY_ANGLE = math.radians(70.0), math.radians(20.0)

    def __init__(self, m: int = 4, n: int = 1, theta: int = 15) -> None:
        self.m = widgets.IntSlider(value=m, min=0, max=24, description="m (query)")
        self.n = widgets.IntSlider(value=n, min=0, max=24, description="n (key)")
        self.theta = widgets.IntSlider(value=theta, min=1, max=45, description="θ (degrees)")
        super().__init__(self.m, self.n, self.theta)

    @property
    def score(self) -> widgets.HTML:
        return self.said

    def _angles(self) -> tuple[float, float]:
        theta = math.radians(self.theta.value)
        query = self.QUERY_ANGLE + self.m.value * theta
        return query, self.KEY_ANGLE + self.n.value * theta

    def _said(self) -> str:
        query, key = self._angles()
        return (
            f"m - n = {self.m.value - self.n.value}, "
            f"rotated query · rotated key = {math.cos(query - key):.3f}"
        )

    def _draw_on(self, ax: Axes) -> None:
        query, key = self._angles()
        draw.plane(ax, title=f"m \u2212 n = {self.m.value - self.n.value} decides the score")
        for before, after, color, name in (
            (self.QUERY_ANGLE, query, draw.BLUE, "q"),
            (self.KEY_ANGLE, key, draw.ORANGE, "k"),
        ):
            draw.arrow(ax, (math.cos(before), math.sin(before)), color, dashed=True)
            draw.arrow(ax, (math.cos(after), math.sin(after)), color, name)


class PermutationExplorer(Explorer):
    """The permutation from half-split to interleaved order, once or several times in a row.

    Attributes:
        d2: slider for the number of elements.
        pair: slider for the pair whose two members are in colour.
        times: slider for how often the permutation is applied.
        said: where the pair was and is, and how many elements are where they were.
        picture: the elements before, arrows, the elements after.
    """

    NAME, SIZE = "Permutation explorer", (7.0, 2.4)

    def __init__(self, d2: int = 8, pair: int = 1, times: int = 1) -> None:
        self.d2 = widgets.IntSlider(value=d2, min=4, max=16, step=2, description="d2")
        self.pair = widgets.IntSlider(value=pair, min=0, max=7, description="pair i")
        self.times = widgets.IntSlider(value=times, min=0, max=12, description="times")
        super().__init__(self.d2, self.pair, self.times)

    def places(self) -> np.ndarray:
        """Where each element stands afterwards."""
        d2 = self.d2.value
        place = np.arange(d2)
        for _ in range(self.times.value):
            # the first half goes to the even places, the second to the odd ones
            place = np.where(place < d2 // 2, 2 * place, 2 * place - d2 + 1)
        return place

    def _members(self) -> tuple[int, int]:
        half = self.d2.value // 2
        i = min(self.pair.value, half - 1)
        return i, i + half

    def _said(self) -> str:
        place, (first, second) = self.places(), self._members()
        stay = int((place == np.arange(self.d2.value)).sum())
        return (
            f"pair {first}: elements {first} and {second} go to {place[first]} and "
            f"{place[second]}; {stay} of {self.d2.value} elements are where they were"
        )

    def _draw_on(self, ax: Axes) -> None:
        members = self._members()
        for element, place in enumerate(self.places()):
            chosen = element in members
            color = (draw.BLUE, draw.ORANGE)[members.index(element)] if chosen else draw.INK
            weight = {"color": color, "linewidth": 2.5 if chosen else 1.0}
            ax.annotate(
                "",
                (place, 0.16),
                (element, 0.84),
                arrowprops={"arrowstyle": "->", **weight},
                zorder=3 if chosen else 2,
            )
            for x, y in ((element, 0.92), (place, 0.08)):
                ax.text(x, y, str(element), ha="center", va="center", color=draw.inked(color))
        stay = int((self.places() == np.arange(self.d2.value)).sum())
        ax.set(title=f"{stay} of {self.d2.value} elements are where they were")
        ax.set(xlim=(-0.6, self.d2.value - 0.4), ylim=(0, 1), yticks=[0.92, 0.08])
        ax.set(yticklabels=["before", "after"], xticks=range(self.d2.value), xlabel="place")
        ax.tick_params(length=0)


class WhoLoadsWhat(Explorer):
    """Which elements of a tensor a program, a warp and a lane load, and what that costs.

    Elements are `stride` apart in memory. A block's elements are dealt out as Triton deals them
    out: up to 16 bytes of neighbours to a lane, then the next lane, then the next warp. Memory
    answers in sectors of 32 bytes, whole.

    Attributes:
        program, warp, lane, stride: sliders.
        said: what the warp asks for, what memory sends, and how many lanes are masked off.
        picture: the memory, a row a kilobyte; the program, the warp and the lane in colour.
    """

    NAME, SIZE = "Who loads what", (7.0, 3.6)
    SECTOR, ROW = 32, 1024  # bytes

    def __init__(
        self, n: int = 2000, block: int = 512, num_warps: int = 4, element_bytes: int = 4
    ) -> None:
        self.n, self.block, self.num_warps, self.element_bytes = n, block, num_warps, element_bytes
        last = -(-n // block) - 1
        self.program = widgets.IntSlider(value=0, min=0, max=last, description="program")
        self.warp = widgets.IntSlider(value=0, min=0, max=num_warps - 1, description="warp")
        self.lane = widgets.IntSlider(value=0, min=0, max=31, description="lane")
        self.stride = widgets.IntSlider(value=1, min=1, max=8, description="stride")
        super().__init__(self.program, self.warp, self.lane, self.stride)

    def elements(self) -> np.ndarray:
        """(rounds, warps, lanes, neighbours): the program's elements, masked ones too."""
        at_once = max(1, min(16 // self.element_bytes, self.block // (32 * self.num_warps)))
        if self.stride.value > 1:
            at_once = 1  # no neighbours
        shape = (-1, self.num_warps, 32, at_once)
        return (self.program.value * self.block + np.arange(self.block)).reshape(shape)

    def _bytes_of(self, elements: np.ndarray) -> np.ndarray:
        """Addresses of those that exist."""
        return elements[elements < self.n] * self.stride.value * self.element_bytes

    def _asked_and_sent(self) -> tuple[int, int]:
        """Bytes that the warp wants, and those of the sectors that they are in."""
        asked = self._bytes_of(self.elements()[:, self.warp.value])
        sectors = len(np.unique(asked // self.SECTOR))
        return len(asked) * self.element_bytes, sectors * self.SECTOR

    def _said(self) -> str:
        mine = self.elements()[:, self.warp.value]
        asked, sent = self._asked_and_sent()
        masked = int((mine[:, :, 0] >= self.n).all(axis=0).sum())
        return (
            f"program {self.program.value}, warp {self.warp.value}: asks for "
            f"{asked} bytes, memory sends {sent}; "
            f"lanes masked off: {masked} of 32"
        )

    def _draw_on(self, ax: Axes) -> None:
        everything, columns = self.elements(), self.ROW // self.element_bytes
        rows = -(-self.n * self.stride.value * self.element_bytes // self.ROW)
        memory = np.full(rows * columns, 0)
        memory[np.arange(self.n) * self.stride.value] = 1
        chosen = everything[:, self.warp.value]
        for shade, elements in ((2, everything), (3, chosen), (4, chosen[:, self.lane.value])):
            memory[self._bytes_of(elements) // self.element_bytes] = shade
        _shade(ax, memory.reshape(rows, columns))
        asked, sent = self._asked_and_sent()
        ax.set(xlabel="place within a row of 1 KiB, in elements", ylabel="row of memory")
        ax.set(title=f"The warp uses {asked} of the {sent} bytes that memory sends")


class TileExplorer(Explorer):
    """Which elements of a tile a program, a warp and a lane hold; a tile has both halves of rows.

    Each half is a block of its own. Its elements are dealt out as Triton deals them out: up to 16
    bytes of neighbours to a lane, then the next lane and the next warp along the row, then those
    of the next row.

    Attributes:
        program, warp, lane, num_warps: sliders.
        said: how many pairs the lane holds, of which rows, and how many single members.
        picture: the rows of one position; the program, the warp and the lane in colour.
    """

    NAME, SIZE = "Tile explorer", (7.0, 3.0)
    GAP = 6  # between the halves, in the picture

    def __init__(
        self, rows: int = 20, half: int = 128, block_r: int = 8, element_bytes: int = 2
    ) -> None:
        self.rows, self.half, self.block_r = rows, half, block_r
        self.element_bytes = element_bytes
        last = -(-rows // block_r) - 1
        self.program = widgets.IntSlider(value=0, min=0, max=last, description="program")
        self.warp = widgets.IntSlider(value=0, min=0, max=3, description="warp")
        self.lane = widgets.IntSlider(value=0, min=0, max=31, description="lane")
        self.num_warps = widgets.SelectionSlider(
            value=4, options=(1, 2, 4), description="num_warps"
        )
        self.num_warps.observe(self._keep_warp, "value")
        super().__init__(self.program, self.warp, self.lane, self.num_warps)

    def _keep_warp(self, _change) -> None:
        """The slider ends at the last warp that there is."""
        self.warp.max = self.num_warps.value - 1

    def holders(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Program, warp and lane of each element (rows, 2, half)."""
        row, _, pair = np.indices((self.rows, 2, self.half))
        program, row = np.divmod(row, self.block_r)
        at_once = self.block_r * self.half // (32 * self.num_warps.value)
        at_once = max(1, min(16 // self.element_bytes, at_once))
        pieces = self.half // at_once  # of a row
        lanes = min(32, pieces)  # beside one another
        warps = max(1, min(self.num_warps.value, pieces // lanes))
        row, lane = np.divmod(row, 32 // lanes)
        piece, in_row = np.divmod(pair // at_once, lanes)
        warp = piece % warps + warps * (row % (self.num_warps.value // warps))
        return program, warp, in_row + lanes * lane

    def _chosen(self) -> tuple[int, int, int]:
        return self.program.value, self.warp.value, self.lane.value

    def _held(self) -> np.ndarray:
        """(4, rows, 2, half): everything, then the program's, of these the warp's, the lane's."""
        equal = [
            mine == chosen for mine, chosen in zip(self.holders(), self._chosen(), strict=True)
        ]
        return np.logical_and.accumulate([np.ones_like(equal[0]), *equal])

    def _said(self) -> str:
        first, second = self._held()[-1].swapaxes(0, 1)
        program, warp, lane = self._chosen()
        rows = ", ".join(str(row) for row in np.flatnonzero((first | second).any(axis=1)))
        return (
            f"program {program}, warp {warp} of {self.num_warps.value}, lane {lane}: "
            f"{(first & second).sum()} pairs (rows: {rows or 'none'}), "
            f"{(first != second).sum()} members without their partner"
        )

    def _draw_on(self, ax: Axes) -> None:
        shades = self._held().sum(axis=0)
        gap = np.zeros((self.rows, self.GAP), dtype=int)
        _shade(ax, np.hstack([shades[:, 0], gap, shades[:, 1]]))
        first, second = self._held()[-1].swapaxes(0, 1)
        whole = int((first & second).sum())
        ax.set(title=f"Lane {self.lane.value} holds {whole} whole pairs")
        columns = np.arange(0, self.half, self.half // 4)
        ax.set_xticks([*columns, *columns + self.half + self.GAP], [*columns, *columns])
        ax.set(xlabel="pair: its first member in x1 (left), its second in x2", ylabel="row")
        ax.set_yticks(range(0, self.rows, self.block_r))


def _shade(ax: Axes, chosen: np.ndarray) -> None:
    """An element a cell: 0 nothing, 1 an element, 2 the program's, 3 the warp's, 4 the lane's."""
    colors = ("none", "#d4d4d4", "#a9cdec", draw.BLUE, draw.ORANGE)
    names = ("no element", "other programs", "the program", "its warp", "its lane")
    cmap = draw.plt.matplotlib.colors.ListedColormap(colors)
    ax.imshow(chosen, cmap=cmap, vmin=0, vmax=4, aspect="auto", interpolation="none")
    patches = [
        draw.Rectangle((0, 0), 1, 1, facecolor=color, edgecolor=draw.INK, linewidth=0.8)
        for color in colors
    ]
    ax.figure.legend(
        patches,
        names,
        loc="outside lower center",
        ncols=5,
        handlelength=1.2,
        fontsize=10,
        columnspacing=1.4,
    )
