"""Do two lanes of one program meet at an element, with no barrier between them?

A lane is a position in a block. Lanes with the same number in blocks of the same shape are one
thread, and a thread executes in order. Other lanes may be in other warps, which don't wait for each
other: one lane may store an element before another lane has loaded it. Blocks of another shape may
have another layout, so their lanes aren't compared. But all threads load a scalar.

An operation that moves elements between lanes (a reduction, `tl.trans`, `tl.split`, ...) counts as
a barrier. The compiled kernel has one if the lanes are in several warps and the result is used.
"""

import numpy as np

_LANES = 1 << 32  # more than a block has; a lane's code is its number plus this for each shape
_NUMBER = _LANES  # the code of a scalar, whose shape is the first
_SEVERAL = -1


HOW_LANES_WAIT = (
    "The warps of a program don't wait for each other: let the lane that stores an element be the "
    "one that loads it, or write tl.debug_barrier() between the two"
)


class Lanes:
    """Which lanes of the running program have loaded what of a memory, or stored it.

    Blocks are processed only when needed: most kernels don't store where they load.
    """

    def __init__(self, size: int) -> None:
        """`size`: of the memory, in bytes."""
        # of each element's first byte: 0 for no lane, the code of one, or several
        self._codes = np.zeros(size, dtype=np.int64)
        self._codes_of: dict[tuple[int, ...], np.ndarray] = {(1,): np.array([_NUMBER])}
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._entered: list[tuple[np.ndarray, np.ndarray]] = []
        self._has_several = False

    def add(self, at: np.ndarray, which: np.ndarray) -> None:
        """`at`: the places of those lanes of a block for which `which` is true."""
        self._waiting.append((at, which))

    def forget(self) -> None:
        """At a barrier, and at the beginning of a program."""
        for at, _ in self._entered:
            self._codes[at] = 0
        self._entered.clear()
        self._waiting.clear()
        self._has_several = False

    def has(self, at: np.ndarray) -> np.ndarray:
        """At which of these places any lane was."""
        self._enter_all()
        return self._codes[at] != 0

    def meet(self, at: np.ndarray, which: np.ndarray) -> tuple[int, str, str] | None:
        """Where the first lane of a block meets another one: the place, its name, the other's."""
        if not (self._waiting or self._entered):
            return None
        self._enter_all()
        meets = self._are_others(self._codes[at], self._lanes(which))
        if not meets.any():
            return None
        first = meets.argmax()
        mine = int(np.flatnonzero(which)[first])
        return int(at[first]), _name(mine, which.shape), self._another(at[first], mine)

    def _enter_all(self) -> None:
        for at, which in self._waiting:
            codes = self._lanes(which)
            before = self._codes[at]
            self._codes[at] = codes
            others = self._codes[at] != codes  # another lane of this block is there
            if self._entered:
                others |= self._are_others(before, codes)
            if others.any():
                self._codes[at[others]] = _SEVERAL
            self._has_several |= which.size == 1 or bool(others.any())
            self._entered.append((at, which))
        self._waiting.clear()

    def _lanes(self, which: np.ndarray) -> np.ndarray:
        """The codes of the lanes for which `which` is true."""
        if which.shape not in self._codes_of:
            first = _LANES * (len(self._codes_of) + 1)
            self._codes_of[which.shape] = first + np.arange(which.size).reshape(which.shape)
        return self._codes_of[which.shape][which]

    def _are_others(self, before: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """For each earlier code, whether it is another lane's, if the two can be compared."""
        differ = before ^ codes  # of lanes of one shape, less than _LANES
        others = (differ > 0) & (differ < _LANES)
        if self._has_several:
            others |= (before == _SEVERAL) | ((before == _NUMBER) & (codes != _NUMBER))
        return others

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
