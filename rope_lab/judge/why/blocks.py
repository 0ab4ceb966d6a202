"""Is a mask wrong, or the place where a program's block begins?

No element of the result need be known for a lane: a mask should be false where an access leaves the
tensors or stores on another one's element, and true where nothing is stored. A block should begin
where the programs before it end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .changes import Blocks, Noted, Setting
from .experiments import Experiments
from .intended import spread


@dataclass(frozen=True)
class Cured:
    """A name, and its block in the first program where it changes, before and after."""

    setting: Setting
    program: int
    was: np.ndarray
    should: np.ndarray


class BlockSearch:
    """For one mask, or one beginning, with which every element is right."""

    def __init__(self, e: Experiments) -> None:
        self.e = e

    def mask(self) -> Cured | None:
        for setting, blocks in self._larger("mask"):
            off, on = (self._bad, False), (self._missing, True)
            for changes in ((off,), (on,), (off, on)):
                new = {program: block.copy() for program, block in blocks.items()}
                for one in self.e.record.noted:
                    for lanes, value in changes:
                        self._set(new.get(one.program), one, lanes(one), value, setting[0])
                if found := self._tried(setting, blocks, new):
                    return found
        return None

    def beginning(self) -> Cured | None:
        """Of a block of numbers, each one more than the one before."""
        for setting, blocks in self._larger("index"):
            first = next(iter(blocks.values()))
            if first.ndim != 1 or not (np.diff(first) == 1).all():
                continue
            for begin in self._beginnings(first.size):
                new = {p: block - block[0] + begin(p, block) for p, block in blocks.items()}
                if found := self._tried(setting, blocks, new):
                    return found
        return None

    def _larger(self, kind: str) -> list[tuple[Setting, Blocks]]:
        """Names that are no scalars."""
        named = self.e.record.blocks[kind].items()
        return [
            (setting, blocks)
            for setting, blocks in named
            if all(x.size > 1 for x in blocks.values())
        ]

    def _beginnings(self, size: int) -> Iterator[Callable[[int, np.ndarray], int]]:
        programs = self.e.record.programs
        yield lambda p, block: int(block[0]) * size
        steps = {size, *(int(k) for x in self.e.given for k in (*x.shape, *x.stride()))}
        for step in sorted(steps):
            yield lambda p, block, step=step: programs[p][0] * step

    def _tried(self, setting: Setting, blocks: Blocks, new: Blocks) -> Cured | None:
        changed = [p for p in sorted(blocks) if not np.array_equal(new[p], blocks[p])]
        if not changed:
            return None

        def put(program: int, block: np.ndarray) -> np.ndarray:
            return new.get(program, block)

        if not self.e.is_cured_by_blocks(setting, put):
            return None
        p = changed[0]
        return Cured(setting, p, blocks[p], new[p])

    def _set(
        self, block: np.ndarray | None, one: Noted, lanes: np.ndarray, value: bool, name: str
    ) -> None:
        """Set a mask's lanes that are some of an access's."""
        if block is None or not lanes.any():
            return
        at = spread(block.shape, one.shape, self.e.is_column(name))
        if at is not None:
            block.ravel()[at[lanes]] = value

    def _bad(self, one: Noted) -> np.ndarray:
        """Lanes that leave the tensors, or store a wrong value on another one's element."""
        outside = one.access.wanted.copy()
        for memory in self.e.record.memories:
            outside &= ~one.access.inside(memory)
        if one.is_load:
            return outside
        return outside | self._twice.get(id(one), np.zeros(one.shape, bool))

    @cached_property
    def _twice(self) -> dict[int, np.ndarray]:
        """For each store, its lanes with a wrong value for an element that is stored again."""
        found = {}
        out, want = self.e.outs[self.e.number], self.e.expected
        begin = out.data_ptr()
        expected = want.double().numpy().ravel() if out.is_contiguous() else np.empty(0)
        count = np.zeros(expected.size, int)
        places = {}
        for one in self.e.record.stores():
            at = (one.access.addresses - begin) // out.element_size()
            on = one.access.wanted & (at >= 0) & (at < expected.size)
            places[id(one)] = at, on
            np.add.at(count, at[on], 1)
        for one in self.e.record.stores():
            at, on = places[id(one)]
            safe = np.where(on, at, 0)
            if not expected.size or one.access.values is None:
                continue
            values = np.broadcast_to(one.access.values, one.shape)
            if values.dtype.kind != "f":
                continue
            is_wrong = ~np.isclose(values, expected[safe], rtol=1e-2, atol=1e-3, equal_nan=True)
            found[id(one)] = on & (count[safe] > 1) & is_wrong
        return found

    def _missing(self, one: Noted) -> np.ndarray:
        """Lanes of stores, masked off, for elements that nothing is stored in."""
        missing = np.zeros(one.shape, bool)
        for out in () if one.is_load else self.e.outs:
            begin = out.untyped_storage().data_ptr()
            end = begin + out.untyped_storage().nbytes()
            missing |= (one.access.addresses >= begin) & (one.access.addresses < end)
        missing &= ~one.access.wanted
        if missing.any():
            missing[missing] = ~np.isin(one.access.addresses[missing], self.e.record.stored)
        return missing
