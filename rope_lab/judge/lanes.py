"""Do two lanes of one program meet at an element, with no barrier between them?

A lane is a position in a block. Lanes of one number in blocks of one shape are one thread, and a
thread does one thing after the other. Other lanes may be in other warps, which don't wait for each
other: what one lane stores, another one may have yet to load. Blocks of other shapes may be laid
out otherwise, so their lanes aren't compared; but a number by itself is loaded by all threads.

What moves numbers between lanes (a reduction, `tl.trans`, `tl.split`, ...) ends the search as a
barrier does: it is one where the lanes are in several warps, and that only the compiler knows.
"""

import numpy as np

_LANES = 1 << 32  # more than a block has
_SEVERAL = -1
_NUMBER = 1  # the code of a number by itself


class Lanes:
    """Which lanes of the running program have loaded what of a memory, or stored it.

    Blocks wait until somebody asks: most kernels don't store where they load.
    """

    def __init__(self, size: int) -> None:
        """`size`: of the memory, in bytes."""
        # of each element's first byte: 0 for no lane, a lane of a shape, or several of them
        self._codes = np.zeros(size, dtype=np.int64)
        self._shapes: dict[tuple[int, ...], int] = {}
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._entered: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, at: np.ndarray, which: np.ndarray) -> None:
        """`at`: the places of those lanes of a block for which `which` is true."""
        self._waiting.append((at, which))

    def forget(self) -> None:
        """At a barrier, and where a program begins."""
        for at, _ in self._entered:
            self._codes[at] = 0
        self._entered.clear()
        self._waiting.clear()

    def has(self, at: np.ndarray) -> np.ndarray:
        """At which of these places any lane was."""
        self._enter_all()
        return self._codes[at] != 0

    def meet(self, at: np.ndarray, which: np.ndarray) -> tuple[int, str, str] | None:
        """Where the first lane of a block meets another one: the place, its name, the other's."""
        self._enter_all()
        if not self._entered:
            return None
        meets = self._are_others(self._codes[at], self._codes_of(which), which.size)
        if not meets.any():
            return None
        first = meets.argmax()
        mine = int(np.flatnonzero(which)[first])
        return int(at[first]), _name(mine, which.shape), self._another(at[first], mine)

    def _enter_all(self) -> None:
        for at, which in self._waiting:
            codes = self._codes_of(which)
            others = self._are_others(self._codes[at], codes, which.size)
            self._codes[at] = codes
            others |= self._codes[at] != codes  # another lane of this block is there
            self._codes[at[others]] = _SEVERAL
        self._entered += self._waiting
        self._waiting.clear()

    def _codes_of(self, which: np.ndarray) -> np.ndarray:
        lanes = np.flatnonzero(which) + _NUMBER
        if which.size == 1:
            return lanes
        return lanes + _LANES * self._shapes.setdefault(which.shape, len(self._shapes) + 1)

    def _are_others(self, before: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
        """Of each code before: is it of another lane, as far as the two can be compared?"""
        of_one_shape = (before != codes) & (before // _LANES == codes // _LANES) & (before > 0)
        return of_one_shape | (before == _SEVERAL) | ((before == _NUMBER) & (size > 1))

    def _another(self, place: int, mine: int) -> str:
        for at, which in self._entered:
            for lane in np.flatnonzero(which)[at == place].tolist():
                if which.size == 1:
                    return "every lane"
                if lane != mine:
                    return _name(lane, which.shape)
        return "another lane"


def _name(lane: int, shape: tuple[int, ...]) -> str:
    """'lane 5', or 'lane (1, 1)' of a block with more dimensions."""
    place = tuple(map(int, np.unravel_index(lane, shape)))
    return f"lane {place[0] if len(place) == 1 else place}"
