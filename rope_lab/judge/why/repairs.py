"""Which one change makes every element right? It is looked for where a kernel sets a name.

A lane stores one element of the result, so it is known what an index, a mask or an address should
be there. If all is right as soon as one name has that value in all lanes, and nothing else is
changed, then it is wrong where this name is set, or in what the launch passes to that line.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import NamedTuple

import numpy as np

from .changes import Blocks, Index, Setting
from .experiments import Experiments
from .intended import (
    Lanes,
    by_stores,
    columns_of,
    dimensions,
    half_of,
    in_inputs,
    in_order,
    in_results,
    indices,
    letters_of,
    spread,
)

Known = tuple[np.ndarray, np.ndarray]  # which lanes of all blocks are known, and their values


class Candidate(NamedTuple):
    """What something may be in the lane of an element: in words, and in numbers."""

    words: str
    values: Callable[[Lanes], np.ndarray]


@dataclass(frozen=True)
class Repair:
    """A change, and proof: with it, every element is right.

    Attributes:
        kind: "index", "pointer", "load", "store" or "mask".
        setting: what is changed.
        words: what an index should be.
        number: of a result.
        was, should: at the places of its elements, before and after.
        at: the place of the wrong element.
    """

    kind: str
    setting: Setting
    words: str
    number: int
    was: dict[Index, int]
    should: dict[Index, int]
    at: Index

    @property
    def first(self) -> Index:
        """The first place where it changes: that of the wrong element, if it does there."""
        places = (self.at, *sorted(self.was))
        return next(at for at in places if self.was.get(at) != self.should.get(at))


class Search:
    """For one change that makes every element right."""

    def __init__(self, e: Experiments) -> None:
        self.e = e
        self.letters, self.half = letters_of(e), half_of(e)
        self.candidates, self.values = cache(self._candidates), cache(self._values)
        self.blocked = cache(self._blocked)

    @cached_property
    def lanes(self) -> list[list[Lanes]]:
        """For which elements lanes are, in one way or two."""
        ways = [by_stores(self.e)] if self.e.is_stored_once else []
        return [way for way in (*ways, in_order(self.e)) if way]

    def found(self, kind: str, among: list[str] | None = None) -> Repair | None:
        """The first change of this kind; `among`: the names that are tried; None stands for all."""
        for way in range(len(self.lanes)):
            for setting in self.e.record.blocks[kind]:
                if among is not None and setting[0] not in among:
                    continue
                if repair := self._cured(kind, setting, way):
                    return repair
        return None

    def _cured(self, kind: str, setting: Setting, way: int) -> Repair | None:
        """The first candidate that makes this case and others right."""
        of = self.blocked(kind, setting, way)
        cures: dict[tuple[bytes, bytes], bool] = {}
        for number, candidate in enumerate(self.candidates(kind)):
            known = of.known(candidate)
            if known is None or (kind == "load" and not of.is_needed(known)):
                continue
            key = known[0].tobytes(), known[1].tobytes()
            if key not in cures:
                cures[key] = self.e.is_cured_by_blocks(setting, partial(of.put, known))
            if cures[key] and self._holds(kind, setting, number, way):
                return of.repair(kind, setting, candidate, known)
        return None

    def _holds(self, kind: str, setting: Setting, number: int, way: int) -> bool:
        """Whether it makes other cases right, too, whose sizes and strides differ."""
        for other in self.e.others:
            search = search_of(other)
            if way >= len(search.lanes) or setting not in other.record.blocks[kind]:
                continue
            of = search.blocked(kind, setting, way)
            known = of.known(search.candidates(kind)[number])
            if known is None and (other.first or other.record.leaves):
                return False
            if known and not other.is_cured_by_blocks(setting, partial(of.put, known)):
                return False
        return True

    def _blocked(self, kind: str, setting: Setting, way: int) -> "Blocked":
        return Blocked(self, way, self.e.record.blocks[kind][setting], setting[0])

    def _candidates(self, kind: str) -> list[Candidate]:
        if kind == "index":
            named = indices(dimensions(self.letters), self.half)
            return [Candidate(words, partial(self._index, of=of)) for words, of in named.items()]
        if kind == "mask":
            return self._masks()
        row = [np.zeros_like]  # its beginning
        inputs = in_inputs(self.e, self.letters, [*columns_of(self.half).values()])
        results = in_results(self.e, [lambda c: c, lambda c: c % self.half, *row])
        if kind == "pointer":
            found = [*inputs, *in_inputs(self.e, self.letters, row), *results]
        else:
            found = [*(inputs if kind == "load" else results)]
        return [Candidate("", values) for values in found]

    def _index(self, lanes: Lanes, of: Callable) -> np.ndarray:
        return of(lanes.places, tuple(self.e.outs[lanes.number].shape))

    def _masks(self) -> list[Candidate]:
        half, found = self.half, [lambda lanes: np.ones(len(lanes.places[0]))]
        if self.letters[-1:] == ["d"]:
            found += [
                lambda lanes: lanes.places[-1] < half,
                lambda lanes: lanes.places[-1] >= half,
                lambda lanes: lanes.places[-1] < 2 * half,  # where it rotates
            ]
        return [Candidate("", values) for values in found]

    def _values(self, candidate: Candidate, way: int) -> np.ndarray:
        """In all lanes of one way."""
        return np.concatenate([candidate.values(one) for one in self.lanes[way]])

    @cached_property
    def is_lane_by_lane(self) -> bool:
        """Whether no lane of the kernels takes anything from another one."""
        moves = r"tl\.(sum|max|min|dot|gather|cumsum|sort|reduce|flip)\b"
        return not re.search(moves, self.e.source)


def search_of(e: Experiments) -> Search:
    """One for all that search."""
    return e.kept.setdefault("search", Search(e))


class Blocked:
    """What a name is, or what a line accesses, in the lanes of each element."""

    def __init__(self, search: Search, way: int, blocks: Blocks, name: str) -> None:
        """`way`: the number of one in which lanes are for elements."""
        self.search, self.way, self.lanes = search, way, search.lanes[way]
        self.begins: dict[int, int] = {}
        end = 0
        for program, block in blocks.items():
            self.begins[program] = end
            end += block.size
        self.all = np.concatenate([block.ravel() for block in blocks.values()])
        places = []
        for one in self.lanes:
            at, block = None, blocks.get(one.store.program)
            if block is not None:
                at = spread(block.shape, one.store.shape, search.e.is_column(name))
            none = np.full(int(one.which.sum()), -1)
            places.append(none if at is None else at[one.which] + self.begins[one.store.program])
        at = np.concatenate(places)
        self.known_lanes = at >= 0
        self.at = at[self.known_lanes]
        first = np.concatenate([_is_at(one, search.e) for one in self.lanes])
        self.mine = at[first & self.known_lanes]  # the lanes of the wrong element
        self.is_wrong = np.zeros(end, bool)
        wrong = search.e.all_wrong
        each = [wrong[one.number][one.places] | (not one.owns) for one in self.lanes]
        self.is_wrong[self.at[np.concatenate(each)[self.known_lanes]]] = True

    def known(self, candidate: Candidate) -> Known | None:
        """The right values, as far as they are known.

        None if two elements need different ones of the same lane, if nothing would change in the
        wrong element's lane, or if a lane would change that stores right elements alone.
        """
        if not self.at.size:
            return None
        new = self.search.values(candidate, self.way)[self.known_lanes].astype(np.int64)
        on, values = np.zeros(self.all.size, bool), np.zeros(self.all.size, np.int64)
        values[self.at], on[self.at] = new, True
        if not np.array_equal(values[self.at], new):
            return None
        other = on & (self.all.astype(np.int64) != values)
        if not other.any() or (other & ~self.is_wrong).any():
            return None
        is_by_itself = self.search.is_lane_by_lane and self.lanes[0].owns and self.mine.size
        if is_by_itself and not other[self.mine].any():
            return None
        return on, values

    def is_needed(self, known: Known) -> bool:
        """Whether the wrong element's lane would load what it, or its pair, needs."""
        e = self.search.e
        if not self.mine.size:
            return True
        needed = {e.input_address(element) for element in e.needs_of_lane(e.first)}
        return bool(np.isin(known[1][self.mine], list(needed)).any())

    def put(self, known: Known, program: int, block: np.ndarray) -> np.ndarray:
        begin = self.begins.get(program)
        if begin is None or begin + block.size > self.all.size:
            return block
        on, values = (x[begin : begin + block.size] for x in known)
        changed = block.ravel().copy()
        changed[on] = values[on].astype(changed.dtype)
        return changed.reshape(block.shape)

    def repair(self, kind: str, setting: Setting, candidate: Candidate, known: Known) -> Repair:
        number = self.search.e.number
        was: dict[Index, int] = {}
        should: dict[Index, int] = {}
        results = np.concatenate([np.full(one.which.sum(), one.number) for one in self.lanes])
        places = [place for one in self.lanes for place in zip(*one.places, strict=True)]
        here = [p for p, is_known in zip(places, self.known_lanes, strict=True) if is_known]
        for at, place, result in zip(self.at, here, results[self.known_lanes], strict=True):
            if result == number:
                key = tuple(map(int, place))
                was[key], should[key] = int(self.all[at]), int(known[1][at])
        return Repair(kind, setting, candidate.words, number, was, should, self.search.e.first)


def _is_at(lanes: Lanes, e: Experiments) -> np.ndarray:
    """Which lanes are for the element that is explained."""
    if lanes.number != e.number or not e.first:
        return np.zeros(len(lanes.places[0]), bool)
    return np.all([i == k for i, k in zip(lanes.places, e.first, strict=True)], axis=0)
