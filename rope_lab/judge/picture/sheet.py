"""Where the elements of a tensor are drawn, and which programs access them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from .accesses import LanesOfAnAccess

WIDEST, HIGHEST = 32, 32  # cells of a picture
_BESIDE, _BELOW = 8, 4  # columns at the sides of the elements, and rows above and below

Cell = tuple[int, int]  # a row and a column


def offsets_of(tensor: Tensor) -> np.ndarray:
    """For each element, its index in the storage; in the tensor's shape."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    place = tensor.shape, tensor.stride(), tensor.storage_offset()
    return torch.arange(count).as_strided(*place).numpy()


@dataclass(frozen=True)
class _Own:
    """An access to a sheet's tensor, or near it.

    Attributes:
        offsets: one for each lane, in elements from the beginning of the storage.
        here: for each lane, whether it is in that storage.
    """

    program: int
    offsets: np.ndarray
    here: np.ndarray
    wanted: np.ndarray


@dataclass
class Sheet:
    """A tensor as a grid of cells: its last dimension across, the others down.

    A long vector continues in the next row. Around the elements there may be cells for memory that
    isn't the tensor's, if lanes point there.

    Attributes:
        storage: the number of the tensor's storage.
        does: "stores" or "loads", the accesses that are noted.
        by: cell -> the program of each store, in order; or the programs that load it, each once.
        masked: cells to which lanes that are masked off point -> the programs of these lanes.
        not_drawn: how many lanes that are masked off point elsewhere.
        outside: how many elements outside of the tensor are accessed, drawn or not.
    """

    tensor: Tensor
    storage: int
    does: str
    by: dict[Cell, list[int]] = field(default_factory=lambda: defaultdict(list))
    masked: dict[Cell, list[int]] = field(default_factory=lambda: defaultdict(list))
    not_drawn: int = 0
    outside: int = 0

    def __post_init__(self) -> None:
        offsets = offsets_of(self.tensor)
        self.is_vector = offsets.ndim < 2
        self.columns = min(offsets.size, WIDEST) if self.is_vector else offsets.shape[-1]
        self.rows = -(-offsets.size // self.columns) if self.columns else 0
        self.elements = {
            divmod(number, self.columns): int(offset)
            for number, offset in enumerate(offsets.reshape(-1))
        }
        self._cells: dict[int, list[Cell]] = defaultdict(list)  # of an offset
        for cell, offset in self.elements.items():
            self._cells[offset].append(cell)
        self._row_step, self._column_step = self._steps(offsets)

    def _steps(self, offsets: np.ndarray) -> tuple[int, int]:
        """Steps from a row and a column to the next; 0 if rows are not equally far apart."""
        column_step = self.tensor.stride(-1) if self.tensor.dim() else 1
        if self.is_vector:
            return self.columns * column_step if self.rows > 1 else 0, column_step
        starts = offsets.reshape(self.rows, self.columns)[:, 0] if self.columns else np.zeros(0)
        steps = set(np.diff(starts).tolist()) or {self.columns * column_step}
        return steps.pop() if len(steps) == 1 else 0, column_step

    def index(self, cell: Cell) -> tuple[int, ...]:
        """The index of an element."""
        number = cell[0] * self.columns + cell[1]
        return tuple(map(int, np.unravel_index(number, tuple(self.tensor.shape) or (1,))))

    @property
    def untouched(self) -> list[Cell]:
        """Elements that no program accesses."""
        return [cell for cell in self.elements if not self.by[cell]]

    @property
    def several(self) -> list[Cell]:
        """Elements that are stored more than once, or loaded by several programs."""
        return [cell for cell in self.elements if len(self.by[cell]) > 1]

    def add(self, accesses: Iterable[LanesOfAnAccess]) -> None:
        """Note the accesses to this tensor."""
        own = [
            _Own(access.program, access.offset // self.tensor.element_size(), here, access.wanted)
            for access in accesses
            if access.does == self.does and (here := access.storage == self.storage).any()
        ]
        for one in own:
            self._note(one)
        lanes = [self._cells_of_lanes(one) for one in own]
        go_along_rows = all(
            cells is not None or not (one.here & one.wanted).any()
            for one, cells in zip(own, lanes, strict=True)
        )
        for one, cells in zip(own, lanes, strict=True):
            self._note_masked(one, cells if go_along_rows else None)

    def _note(self, access: "_Own") -> None:
        """Note the lanes that aren't masked off."""
        for offset in access.offsets[access.here & access.wanted].tolist():
            cells = self._cells.get(offset)
            if cells is None:
                self.outside += 1
                cells = self._beside(offset)
            for cell in cells:
                if self.does == "stores" or access.program not in self.by[cell]:
                    self.by[cell].append(access.program)

    def _note_masked(self, access: "_Own", lanes: dict | None) -> None:
        """Note the other lanes: at their cells or, if these are unknown, at their addresses."""
        for lane in zip(*np.nonzero(access.here & ~access.wanted), strict=True):
            cells = self._at(int(access.offsets[lane])) if lanes is None else [lanes[lane]]
            drawn = [cell for cell in cells if self._is_near(cell)]
            self.not_drawn += not drawn
            for cell in drawn:
                self.masked[cell].append(access.program)

    def _at(self, offset: int) -> list[Cell]:
        return self._cells.get(offset) or self._beside(offset)

    def _beside(self, offset: int) -> list[Cell]:
        """The cell of memory that isn't the tensor's, if there is one."""
        row_step, column_step = self._row_step, self._column_step
        far = offset - self.tensor.storage_offset()
        is_one_row = self.is_vector and self.rows == 1
        are_rows_apart = is_one_row or row_step >= self.columns * column_step
        if column_step <= 0 or not are_rows_apart or far % column_step:
            return []
        row, rest = (0, far) if is_one_row else divmod(far, row_step)
        cell = row, rest // column_step
        return [cell] if self._is_near(cell) else []

    def _is_near(self, cell: Cell) -> bool:
        """Whether a cell that isn't an element's is drawn."""
        row, column = cell
        is_row = -_BELOW <= row < self.rows + _BELOW
        return is_row and -_BESIDE <= column < self.columns + _BESIDE

    def _cells_of_lanes(self, access: "_Own") -> dict | None:
        """The cell of each lane if lanes go along rows and columns, also past the tensor's ends.

        By its address alone, a lane past the end of a row would be in the next row. None if lanes
        are arranged otherwise, as the lanes that are not masked off show.
        """
        offsets, wanted = access.offsets, access.here & access.wanted
        origin = (0,) * offsets.ndim
        start = self._at(int(offsets[origin]))
        if len(start) != 1:
            return None
        lanes, cell_steps = np.indices(offsets.shape), []
        steps = [
            int(np.take(offsets, 1, axis)[origin[1:]] - offsets[origin]) if size > 1 else 0
            for axis, size in enumerate(offsets.shape)
        ]
        reached = sum((step * lanes[axis] for axis, step in enumerate(steps)), offsets[origin])
        if (reached != offsets).any():
            return None
        for step in steps:
            cell_step = self._cell_step(step)
            if cell_step is None:
                return None
            cell_steps.append(cell_step)
        found = {}
        for lane in np.ndindex(offsets.shape):
            row = start[0][0] + sum(n * down for n, (down, _) in zip(lane, cell_steps, strict=True))
            column = start[0][1] + sum(n * on for n, (_, on) in zip(lane, cell_steps, strict=True))
            found[lane] = row, column
            if wanted[lane] and found[lane] not in self._at(int(offsets[lane])):
                return None
        return found

    def _cell_step(self, step: int) -> Cell | None:
        """The rows and columns that a step in memory moves by."""
        by_size = [(self._row_step, (1, 0)), (self._column_step, (0, 1))]
        for size, (down, on) in sorted(by_size, key=lambda item: -abs(item[0])):
            if size and step % size == 0:
                return step // size * down, step // size * on
        return None
