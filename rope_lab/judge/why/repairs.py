"""Which one change makes every element right? It is looked for where a kernel sets a name.

A lane stores one element of the result, so it is known what an index, a mask, an address or a sine
should be there. If all is right as soon as one name has that value in all lanes, and nothing else
is changed, then it is wrong where this name is set, or in what the launch passes to that line.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np

from .changes import Changes, Index, Setting
from .experiments import Experiments
from .intended import (
    Lanes,
    Places,
    addresses,
    by_stores,
    elements_of,
    half_of,
    in_order,
    indices,
    letters_of,
    spread,
)

Values = Callable[[Lanes], np.ndarray]  # what something should be in these lanes
Blocks = dict[int, np.ndarray]  # of each program
Known = tuple[np.ndarray, np.ndarray]  # which lanes of all blocks are known, and their values
_OF_ANGLES = {"cos": np.cos, "sin": np.sin, "": lambda x: x}
_DIMENSIONS = {"s": "position", "b": "sequence", "h": "head", "d": "column", "n": "element"}


@dataclass(frozen=True, eq=False)
class Candidate:
    """What something may be in the lane of an element: in words, and in numbers."""

    words: str
    values: Values
    is_address: bool = False  # of the one element of an input that is loaded


@dataclass(frozen=True)
class Repair:
    """A change, and proof: with it, every element is right.

    Attributes:
        kind: "index", "pointer", "load", "store", "mask" or "function".
        name: of the kernel; '' for a load or a store.
        line: the one that sets it.
        words: what it should be.
        number: of a result.
        was, should: at the places of its elements, before and after.
    """

    kind: str
    name: str
    line: str
    words: str
    number: int
    was: dict[Index, float]
    should: dict[Index, float]

    @property
    def first(self) -> Index:
        """The first place where it changes."""
        return next(at for at in sorted(self.was) if self.differs(at))

    def differs(self, at: Index) -> bool:
        return abs(self.was[at] - self.should[at]) > 1e-5 * abs(self.should[at]) * (
            isinstance(self.should[at], float)
        )


@dataclass(frozen=True)
class _Place:
    """Where something is changed: a name and its line, or '' and the line of an access."""

    of: str  # the kinds of names, or what the access does
    setting: Setting

    def changes(self, put: Callable, e: Experiments) -> Changes:
        if self.setting[0]:
            return Changes(names={self.setting: put}, memories=e.record.memories)
        return Changes(addresses={self.setting[1]: put}, memories=e.record.memories)


class Search:
    """For one change that makes every element right."""

    def __init__(self, e: Experiments) -> None:
        self.e = e
        self.letters, self.half = letters_of(e), half_of(e)
        self.dimensions = [_DIMENSIONS.get(letter, "row") for letter in self.letters]
        self.inputs = dict(zip(e.wanted.names, e.given, strict=True))
        self.values, self.named = cache(self._values), cache(self._named)
        self.accesses, self.candidates = cache(self._accesses), cache(self._candidates)
        self.blocked = cache(self._blocked)

    @cached_property
    def lanes(self) -> list[list[Lanes]]:
        """For which elements lanes are, in one way or two."""
        ways = [by_stores(self.e)] if self.e.is_stored_once else []
        return [way for way in (*ways, in_order(self.e)) if way]

    def _named(self, kinds: str) -> dict[Setting, Blocks]:
        """The names that each program sets once, and their blocks; no arguments."""
        found: dict[Setting, Blocks] = {}
        often = set()
        for one in self.e.record.named:
            if one.kind in kinds and one.line:
                blocks = found.setdefault(one.setting, {})
                if one.program in blocks:
                    often.add(one.setting)
                blocks[one.program] = one.block
        return {setting: blocks for setting, blocks in found.items() if setting not in often}

    def _accesses(self, does: str) -> dict[str, Blocks]:
        """The addresses of lines that each program runs once."""
        found: dict[str, Blocks] = {}
        often = set()
        for one in self.e.record.noted:
            if one.access.does == does:
                blocks = found.setdefault(one.line, {})
                if one.program in blocks:
                    often.add(one.line)
                blocks[one.program] = one.access.addresses
        return {line: blocks for line, blocks in found.items() if line not in often}

    # what it may be

    def _candidates(self, kind: str) -> "list[Candidate]":
        return [*getattr(self, f"_{kind}")()]

    def _indices(self) -> Iterator[Candidate]:
        for words, index in indices(self.dimensions, self.half).items():
            yield Candidate(words, partial(self._index, index=index))

    def _index(self, lanes: Lanes, index: Callable[[Places, Index], np.ndarray]) -> np.ndarray:
        return index(lanes.places, tuple(self.e.outs[lanes.number].shape))

    def _masks(self) -> Iterator[Candidate]:
        yield Candidate("true in every lane", lambda lanes: np.ones(len(lanes.places[0])))
        if self.letters[-1:] == ["d"]:
            half = self.half
            yield Candidate("true in the first half", lambda lanes: lanes.places[-1] < half)
            yield Candidate("true in the second half", lambda lanes: lanes.places[-1] >= half)
            yield Candidate("true where it rotates", lambda lanes: lanes.places[-1] < 2 * half)

    def _elements(self) -> Iterator[Candidate]:
        """Addresses of elements of the inputs."""
        for name, words, at in elements_of(self.e, self.letters):
            x = self.inputs[name]

            def values(lanes: Lanes, x=x, at=at) -> np.ndarray:
                return addresses(x, at(lanes.places))

            yield Candidate(words, values, is_address=True)

    def _pointers(self) -> Iterator[Candidate]:
        yield from (replace(one, is_address=False) for one in self._elements())
        for name, words, at in elements_of(self.e, self.letters):
            if words == "column":
                x = self.inputs[name]

                def begin(lanes: Lanes, x=x, at=at) -> np.ndarray:
                    return addresses(x, (*at(lanes.places)[:-1], 0 * lanes.places[-1]))

                yield Candidate("", begin)
        yield from self._results()

    def _results(self) -> Iterator[Candidate]:
        """Addresses in the results: of an element, of its pair, and of its row."""
        for change in (lambda c: c, lambda c: c % self.half, np.zeros_like):

            def at(lanes: Lanes, change=change) -> np.ndarray:
                places = (*lanes.places[:-1], change(lanes.places[-1]))
                return addresses(self.e.outs[lanes.number], places)

            yield Candidate("", at)

    def _functions(self) -> Iterator[Candidate]:
        """Elements of the inputs, and functions of angles."""
        angles = {a.name for a in self.e.wanted.arguments if a.holds == "angles"}
        for name, words, at in elements_of(self.e, self.letters):
            x = self.inputs[name].double().numpy()
            for function, of in (_OF_ANGLES if name in angles else {"": lambda x: x}).items():

                def values(lanes: Lanes, x=x, at=at, of=of) -> np.ndarray:
                    return of(x[at(lanes.places)])

                inside = f"{name} at its {words}"
                yield Candidate(f"{function}({inside})" if function else inside, values)

    def _opposites(self) -> Iterator[Candidate]:
        for one in self._functions():
            if "(" in one.words:
                yield Candidate(f"-{one.words}", partial(_opposite, one))

    # the search

    # `among`: the names that are tried, or names with their lines; None stands for all

    def index(self, among: list[str] | None) -> Repair | None:
        return self._in_names("index", "i", "indices", among)

    def pointer(self, among: list[str] | None) -> Repair | None:
        return self._in_names("pointer", "p", "pointers", among)

    def mask(self, among: list[str] | None) -> Repair | None:
        return self._in_names("mask", "b", "masks", among)

    def function(self, candidates: str, among: list[str | Setting]) -> Repair | None:
        return self._in_names("function", "f", candidates, among)

    def load(self) -> Repair | None:
        return self._in_accesses("load", "loads", "elements")

    def together(self, kinds: str, candidates: list[Candidate]) -> list[Repair]:
        """Two names that one line sets, and what both should be."""
        named = self.named(kinds)
        for way in range(len(self.lanes)):
            for one, other in itertools.combinations(named, 2):
                if one[1] != other[1]:
                    continue
                blocked = [Blocked(self, way, named[x], x[0]) for x in (one, other)]
                each = [
                    [(x, known) for x in candidates if (known := of.known(x)) is not None]
                    for of in blocked
                ]
                for (a, first), (b, second) in itertools.product(*each):
                    puts = partial(blocked[0].put, first), partial(blocked[1].put, second)
                    names = dict(zip((one, other), puts, strict=True))
                    if self.e.is_cured_by(Changes(names=names)):
                        return [
                            blocked[0].repair("index", one[1], a, first),
                            blocked[1].repair("index", one[1], b, second),
                        ]
        return []

    def store(self) -> Repair | None:
        return self._in_accesses("store", "stores", "results")

    def _in_names(
        self, kind: str, kinds: str, candidates: str, among: list[str | Setting] | None
    ) -> Repair | None:
        for way in range(len(self.lanes)):
            for setting in self.named(kinds):
                if among is not None and setting not in among and setting[0] not in among:
                    continue
                if found := self._cured(kind, _Place(kinds, setting), candidates, way):
                    return found
        return None

    def _in_accesses(self, kind: str, does: str, candidates: str) -> Repair | None:
        for way in range(len(self.lanes)):
            for line in self.accesses(does):
                if found := self._cured(kind, _Place(does, ("", line)), candidates, way):
                    return found
        return None

    def _cured(self, kind: str, place: _Place, candidates: str, way: int) -> Repair | None:
        """The first candidate that makes this case and others right."""
        of = self.blocked(place, way)
        cures: dict[tuple[bytes, bytes], bool] = {}
        for number, candidate in enumerate(self.candidates(candidates)):
            known = of.known(candidate)
            if known is None or (candidate.is_address and not of.is_needed(known)):
                continue
            key = known[0].tobytes(), known[1].tobytes()
            if key not in cures:
                cures[key] = self.e.is_cured_by(place.changes(partial(of.put, known), self.e))
            if cures[key] and self._holds(place, candidates, number, way):
                return of.repair(kind, place.setting[1], candidate, known)
        return None

    def _holds(self, place: _Place, candidates: str, number: int, way: int) -> bool:
        """Whether it makes other cases right, too, whose sizes and strides differ."""
        for other in self.e.others:
            search = search_of(other)
            if way >= len(search.lanes) or place.setting not in search.settings(place):
                continue
            of = search.blocked(place, way)
            known = of.known(search.candidates(candidates)[number])
            if known is None and (other.first or other.record.leaves):
                return False
            if known and not other.is_cured_by(place.changes(partial(of.put, known), other)):
                return False
        return True

    def settings(self, place: _Place) -> list[Setting]:
        if place.setting[0]:
            return [*self.named(place.of)]
        return [("", line) for line in self.accesses(place.of)]

    def _blocked(self, place: _Place, way: int) -> "Blocked":
        name, line = place.setting
        blocks = self.named(place.of)[name, line] if name else self.accesses(place.of)[line]
        return Blocked(self, way, blocks, name)

    @cached_property
    def is_lane_by_lane(self) -> bool:
        """Whether no lane of the kernels takes anything from another one."""
        return not re.search(
            r"tl\.(sum|max|min|dot|gather|cumsum|sort|reduce|flip)\b", self.e.source
        )

    @cached_property
    def suspects(self) -> list[str] | None:
        """The names behind loads of elements that the wrong one does not need; None: any."""
        e = self.e
        needed = e.needs_of_lane(e.first) if e.first else set()
        lines = [
            one.line
            for element, one in (e.loads(e.first) if e.first else ())
            if element not in needed
        ]
        names = dict.fromkeys(name for line in lines for name in e.names_behind(line, deep=3))
        return [*names] or None

    def is_column(self, name: str) -> bool:
        """Whether lanes of a name are rows of a larger block."""
        return f"{name}[:, None]" in self.e.source or f"({name} < rows)[:, None]" in self.e.source

    def _values(self, candidate: Candidate, way: int) -> np.ndarray:
        """In all lanes of one way."""
        return np.concatenate([candidate.values(one) for one in self.lanes[way]])


def search_of(e: Experiments) -> Search:
    """One for all that search."""
    return e.kept.setdefault("search", Search(e))


class Blocked:
    """What a name is, or what a line accesses, in the lanes of each element."""

    def __init__(self, search: Search, way: int, blocks: Blocks, name: str) -> None:
        """`way`: the number of one in which lanes are for elements."""
        self.search, self.way, self.name = search, way, name
        self.lanes = lanes = search.lanes[way]
        self.begins: dict[int, int] = {}
        end = 0
        for program, block in blocks.items():
            self.begins[program] = end
            end += block.size
        self.all = np.concatenate([block.ravel() for block in blocks.values()])
        is_column, places = search.is_column(name), []
        for one in lanes:
            at, block = None, blocks.get(one.store.program)
            if block is not None:
                at = spread(block.shape, one.store.shape, is_column)
            none = np.full(int(one.which.sum()), -1)
            places.append(none if at is None else at[one.which] + self.begins[one.store.program])
        at = np.concatenate(places)
        self.known_lanes = at >= 0
        self.at = at[self.known_lanes]
        first = np.concatenate([_is_at(one, search.e) for one in lanes])
        self.mine = at[first & self.known_lanes]  # the lanes of the wrong element
        self.is_wrong = np.zeros(end, bool)
        wrong = search.e.all_wrong
        each = [wrong[one.number][one.places] | (not one.owns) for one in lanes]
        self.is_wrong[self.at[np.concatenate(each)[self.known_lanes]]] = True

    def known(self, candidate: Candidate) -> Known | None:
        """The right values, as far as they are known.

        None if two elements need different ones of the same lane, if nothing would change in the
        wrong element's lane, or if a lane would change that stores right elements alone.
        """
        if not self.at.size:
            return None
        new = self.search.values(candidate, self.way)[self.known_lanes]
        on, values = np.zeros(self.all.size, bool), np.zeros(self.all.size, new.dtype)
        values[self.at], on[self.at] = new, True
        if not _same(values[self.at], new).all():
            return None
        other = on & ~_same(self.all, values)
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

    def equals(self, candidate: Candidate) -> bool:
        """Whether it has these values in all lanes."""
        new = self.search.values(candidate, self.way)[self.known_lanes]
        return bool(_same(self.all[self.at], new).all())

    def put(self, known: Known, program: int, block: np.ndarray) -> np.ndarray:
        begin = self.begins.get(program)
        if begin is None or begin + block.size > self.all.size:
            return block
        on, values = (x[begin : begin + block.size] for x in known)
        changed = block.ravel().copy()
        changed[on] = values[on].astype(changed.dtype)
        return changed.reshape(block.shape)

    def repair(self, kind: str, line: str, candidate: Candidate, known: Known) -> Repair:
        number = self.search.e.number
        was: dict[Index, float] = {}
        should: dict[Index, float] = {}
        mine = [one for one in self.lanes]
        of_result = np.concatenate([np.full(one.which.sum(), one.number) for one in mine])
        places = [place for one in mine for place in zip(*one.places, strict=True)]
        here = [p for p, is_known in zip(places, self.known_lanes, strict=True) if is_known]
        for at, place, result in zip(self.at, here, of_result[self.known_lanes], strict=True):
            if result == number:
                key = tuple(map(int, place))
                was[key], should[key] = self.all[at].item(), known[1][at].item()
        return Repair(kind, self.name, line, candidate.words, number, was, should)


def _opposite(candidate: Candidate, lanes: Lanes) -> np.ndarray:
    return -candidate.values(lanes)


def _is_at(lanes: Lanes, e: Experiments) -> np.ndarray:
    """Which lanes are for the element that is explained."""
    if lanes.number != e.number or not e.first:
        return np.zeros(len(lanes.places[0]), bool)
    return np.all([i == k for i, k in zip(lanes.places, e.first, strict=True)], axis=0)


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if "f" in (a.dtype.kind, b.dtype.kind):
        return np.isclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
    return a.astype(np.int64) == b.astype(np.int64)
