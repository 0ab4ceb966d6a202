"""Draw a sheet: a cell for each element, with the number and the color of its program."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextPath

from ...figures import style as draw
from ...figures.style import GREY, INK, LIGHT, ON_COLOR, PROGRAM_COLORS, SMALL
from .sheet import Cell, Sheet

_SIDE = 0.34  # inches of a cell, where there is room
_WIDTH, _HEIGHT = draw.WIDTH, 8.0  # inches of a figure at most, and of all its cells
_BESIDE, _ABOVE = 0.35, 0.55  # inches around row names; for a panel's title and column numbers
_TITLE, _KEY = 0.75, 0.27  # inches for the figure's title, and for a row of the key
_KEYS_IN_A_ROW = 3  # of a key below the cells
_DIGIT = 0.09  # inches of the widest one, in small text
_MARK = 0.55  # inches of a mark in the key, with the space around it
_IN_WORDS = 8  # programs that a description lists
_SEVERAL = {"hatch": "////", "facecolor": LIGHT, "edgecolor": INK, "linewidth": 0.8}
_NOBODY = {"hatch": "...", "facecolor": "none", "edgecolor": GREY, "linewidth": 0.8}
_OFF = {"fill": False, "linestyle": (0, (2, 2)), "linewidth": 1.1}


@dataclass(frozen=True)
class Panel:
    """A sheet, and what its numbers mean.

    Attributes:
        name: of the kernel's argument.
        numbers: the programs' numbers: '3' or, in a grid with two dimensions, '3,1'.
    """

    sheet: Sheet
    name: str
    numbers: Sequence[str]

    @property
    def done(self) -> str:
        return {"loads": "loaded", "stores": "stored"}[self.sheet.does]

    @property
    def conclusion(self) -> str:
        """What the picture shows, for the title."""
        sheet = self.sheet
        elements = [cell for cell in sheet.elements if sheet.by[cell]]
        programs = {program for cell in elements for program in sheet.by[cell]}
        count, size = len(elements), len(sheet.elements)
        who = f"{len(programs)} program{'s' * (len(programs) != 1)}"
        does = sheet.does if len(programs) == 1 else sheet.does.removesuffix("s")
        how_many = f"all {size} elements" if count == size else f"{count} of {size} elements"
        words = f"{who} {does} {how_many} of {self.name}"
        if sheet.does == "stores" and sheet.several:
            words += f", {len(sheet.several)} of them more than once"
        if sheet.outside:
            words += f", and {sheet.outside} that are not its own"
        return words

    @property
    def in_words(self) -> str:
        """A description of the picture, for readers who can't see it."""
        sheet, own = self.sheet, defaultdict(list)
        for cell in sheet.elements:
            for program in {*sheet.by[cell]}:
                own[program].append(cell)
        said = []
        for program, cells in sorted(own.items())[:_IN_WORDS]:
            count = f"{len(cells)} element{'s' * (len(cells) != 1)}"
            ends = f"from {self._index(cells[0])} to {self._index(cells[-1])}"
            said.append(f"program {self.numbers[program]} {sheet.does} {count}, {ends}")
        if len(own) > _IN_WORDS:
            said.append(f"{len(own) - _IN_WORDS} programs more")
        if untouched := sheet.untouched:
            first = self._index(untouched[0])
            said.append(f"{len(untouched)} are {self.done} by no program, the first is {first}")
        if several := sheet.several:
            programs = " and ".join(self.numbers[program] for program in sheet.by[several[0]])
            first = f"the first is {self._index(several[0])}, by {programs}"
            how = "more than once" if sheet.does == "stores" else "by several programs"
            said.append(f"{len(several)} are {self.done} {how}, {first}")
        if masked := sum(map(len, sheet.masked.values())) + sheet.not_drawn:
            said.append(f"{masked} lanes are masked off")
        return f"{self.name}: {'; '.join(said)}"

    def _index(self, cell: Cell) -> str:
        return str(list(self.sheet.index(cell)))

    @property
    def title(self) -> str:
        tensor = self.sheet.tensor
        dense = [math.prod(tensor.shape[axis + 1 :]) for axis in range(len(tensor.shape))]
        strides = "" if list(tensor.stride()) == dense else f", strides {tensor.stride()}"
        does = {"loads": "Loads from", "stores": "Stores in"}[self.sheet.does]
        return f"{does} {self.name}, shape {tuple(tensor.shape)}{strides}"


def draw_panels(panels: Sequence[Panel], kernel: str) -> None:
    """One above the other, with a key; the last one's conclusion is the title."""
    # a reader's own notebook may use another style
    with plt.style.context("rope_lab.figures.on_white"):
        figure, axes, side = _figure_for(panels)
        for ax, panel in zip(axes, panels, strict=True):
            _draw_panel(ax, panel, side)
        conclusion = panels[-1].conclusion
        words = [f"{conclusion}, in a launch of {kernel}", *(panel.in_words for panel in panels)]
        draw.finish(figure, conclusion, alt=". ".join(words) + ".")


def _figure_for(panels: Sequence[Panel]) -> tuple[Figure, Sequence[Axes], float]:
    """A figure with its key, axes for each panel, and the inches of a cell's side.

    The key is to the right of the cells if there is room, so that no part of the figure is empty.
    """
    drawn = [_cells_drawn(panel.sheet) for panel in panels]
    columns = [column for cells in drawn for _, column in cells]
    rows = [[row for row, _ in cells] for cells in drawn]
    heights = [max(of_panel) + 1 - min(of_panel) for of_panel in rows]
    left, right = min(columns), max(columns) + 1
    beside = _BESIDE + _widest([name for panel in panels for name in _row_names(panel.sheet)])
    side = min(_SIDE, (_WIDTH - beside) / (right - left), _HEIGHT / sum(heights))
    key = _key(panels)
    tall = side * sum(heights) + _ABOVE * len(panels)
    wide = beside + side * (right - left) + _MARK + _widest(key)
    if wide <= _WIDTH:
        look = {"loc": "outside right center"}  # below the title
        tall = max(tall, _KEY * (len(key) + 1))
        title = _widest([panels[-1].conclusion], plt.rcParams["figure.titlesize"])
        wide = min(_WIDTH, max(wide, title + _BESIDE))
    else:
        look, wide = {"loc": "outside lower left", "ncols": _KEYS_IN_A_ROW}, _WIDTH
        tall += _KEY * -(-len(key) // _KEYS_IN_A_ROW)
    size = round(wide, 2), round(tall + _TITLE, 2)
    figure, axes = plt.subplots(len(panels), 1, figsize=size, height_ratios=heights, squeeze=False)
    for ax, of_panel in zip(axes[:, 0], rows, strict=True):
        ax.set(xlim=(left - 0.05, right + 0.05), ylim=(max(of_panel) + 1.05, min(of_panel) - 0.05))
        ax.set_aspect("equal", anchor="W")
    figure.legend(key.values(), key, fontsize=SMALL, **look)
    return figure, axes[:, 0], side


def _widest(texts: Iterable[str], points: float = SMALL) -> float:
    """The inches of the widest of the texts, as it is drawn."""
    paths = (TextPath((0, 0), text, size=points) for text in texts if text)
    return max((path.get_extents().width for path in paths), default=0) / 72


def _cells_drawn(sheet: Sheet) -> list[Cell]:
    return [*sheet.elements, *sheet.masked, *sheet.by]


def _draw_panel(ax: Axes, panel: Panel, side: float) -> None:
    """`side`: inches of a cell."""
    sheet = panel.sheet
    for cell in {**sheet.elements, **sheet.by}:
        programs = sheet.by[cell]
        if len(programs) == 1:
            color = PROGRAM_COLORS[programs[0] % len(PROGRAM_COLORS)]
            _draw_cell(ax, cell, facecolor=color, linewidth=0)
        elif programs:
            _draw_cell(ax, cell, **_SEVERAL)
            look = {"facecolor": LIGHT, "edgecolor": "none", "boxstyle": "square,pad=0.1"}
            _write(ax, cell, f"{len(programs)}x", bbox=look)
        elif cell in sheet.elements:
            _draw_cell(ax, cell, **_NOBODY)
        if programs and cell not in sheet.elements:
            _draw_cell(ax, cell, fill=False, edgecolor=draw.RED, linewidth=2.2)
    for (row, column), number in _numbers_in_place(panel, side):
        _write(ax, (row, column), number)
    for cell, programs in sheet.masked.items():
        if cell in sheet.elements:
            color = ON_COLOR if sheet.by[cell] else INK
            look = {"marker": "o", "fillstyle": "none", "color": color, "markersize": 3}
            ax.plot(cell[1] + 0.83, cell[0] + 0.2, markeredgewidth=1, **look)
        else:
            _draw_cell(ax, cell, edgecolor=INK, **_OFF)
            _write(ax, cell, panel.numbers[programs[0]], color=INK)
    ax.set_title(panel.title, fontsize=10)
    step = 1 if sheet.columns <= 16 else 4
    columns = range(0, sheet.columns, step)
    ax.set_xticks([column + 0.5 for column in columns], map(str, columns))
    ax.xaxis.tick_top()
    ax.set_yticks([row + 0.5 for row in range(sheet.rows)], _row_names(sheet))
    ax.tick_params(length=0, labelsize=SMALL, pad=2)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _numbers_in_place(panel: Panel, side: float) -> Iterator[tuple[tuple[int, float], str]]:
    """A number in each cell; if it is too wide, one in the middle of cells with the same number."""
    by = panel.sheet.by
    cells = sorted(cell for cell in by if len(by[cell]) == 1)

    def run_of(place_and_cell: tuple[int, Cell]) -> tuple[int, int, str]:
        """The same for neighbors that have the same number, unless there is room in each cell."""
        place, (row, column) = place_and_cell
        number = panel.numbers[by[row, column][0]]
        has_room = _DIGIT * len(number) <= side
        return row, column if has_room else column - place, number

    for (row, _, number), run in itertools.groupby(enumerate(cells), run_of):
        columns = [column for _, (_, column) in run]
        yield (row, sum(columns) / len(columns)), number


def _draw_cell(ax: Axes, cell: Cell, **look) -> None:
    ax.add_patch(Rectangle((cell[1] + 0.04, cell[0] + 0.04), 0.92, 0.92, **look))


def _write(ax: Axes, cell: tuple[int, float], words: str, **look) -> None:
    draw.write(ax, cell[1] + 0.5, cell[0] + 0.5, words, **{"color": ON_COLOR} | look)


def _row_names(sheet: Sheet) -> list[str]:
    if sheet.is_vector:
        return [str(row * sheet.columns) if sheet.rows > 1 else "" for row in range(sheet.rows)]
    indices = [sheet.index((row, 0))[:-1] for row in range(sheet.rows)]
    return [f"[{', '.join(map(str, index))}]" for index in indices]


def _key(panels: Sequence[Panel]) -> dict[str, Artist]:
    """What the marks in the picture mean."""
    programs = {program for panel in panels for by in panel.sheet.by.values() for program in by}
    repeats = " (colors repeat)" if max(programs, default=0) >= len(PROGRAM_COLORS) else ""
    mark = Rectangle((0, 0), 1, 1, color=PROGRAM_COLORS[0])
    key = {f"number, color: the program{repeats}": mark}
    several = {"loads": "loaded by several programs", "stores": "stored more than once"}
    for panel in panels:
        sheet = panel.sheet
        if sheet.several:
            key[several[sheet.does]] = Rectangle((0, 0), 1, 1, **_SEVERAL)
        if sheet.untouched:
            key[f"{panel.done} by no program"] = Rectangle((0, 0), 1, 1, **_NOBODY)
        if any(sheet.by[cell] for cell in {*sheet.by} - {*sheet.elements}):
            look = {"fill": False, "edgecolor": draw.RED, "linewidth": 2.2}
            key["outside of the tensor"] = Rectangle((0, 0), 1, 1, **look)
        if any(cell in sheet.elements for cell in sheet.masked):
            look = {"marker": "o", "fillstyle": "none", "color": INK, "linestyle": ""}
            key["a masked lane points here"] = Line2D([], [], **look)
        if sheet.not_drawn or any(cell not in sheet.elements for cell in sheet.masked):
            more = sum(panel.sheet.not_drawn for panel in panels)
            words = f"lane masked off ({more} more are farther out)" if more else "lane masked off"
            key[words] = Rectangle((0, 0), 1, 1, edgecolor=INK, **_OFF)
    return key
