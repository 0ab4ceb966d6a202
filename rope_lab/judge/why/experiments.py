"""Experiments with a reader's function: what a wrong element needs, what it has, and where from.

The function runs again and again on one case. The gradients of the specification say which elements
of the inputs a wrong element needs. Which ones it has shows in runs with changed inputs. A record
of all loads and stores says at which of the reader's lines they are.
"""

import inspect
import math
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rope_kernels.paths import triton_is_installed

from ...standalone import function_of
from ..attempt import Attempt, as_tuple, called, results
from ..check import is_right
from ..spec import STRIDED, laid_out_alike
from .changes import (
    A_RUN,
    NOTHING,
    Budget,
    Changes,
    Index,
    Launched,
    NoRecord,
    Noted,
    OutOfBudget,
    Program,
    Put,
    Setting,
    address_of,
)

if TYPE_CHECKING:
    from .record import Record

Element = tuple[str, Index]  # of an input: 't' and an index; of other memory: its words and ()

MOST = 3  # elements that a sentence lists
TESTED = 24  # needed elements that are changed one by one
# Accesses of a run: with more, a lane's loads are taken for what its element has.
_MANY_ACCESSES = 150
_LESS_BY_CHANCE = STRIDED[:2]  # or these, where a specification leaves them out
_OR = ("sizes that no block divides",)
_FEW = {"s": 2, "b": 2, "h": 9, "g": 1, "d": 10, "n": 300}  # no product of some is another


class Experiments:
    """A candidate on one case.

    Attributes:
        first: the element of the result that is explained; () if all are right.
        kept: what others have computed from these.
        given, outs: the tensors of the first run, which `record` has noted.
    """

    def __init__(
        self,
        attempt: Attempt,
        number: int = 0,
        *,
        budget: Budget,
        collides: bool = False,
        wide: bool = False,
    ) -> None:
        """
        Args:
            attempt: a wrong one.
            number: of the result.
            budget: that of the whole verdict.
            collides: whether it is wrong because an element is stored twice.
            wide: with the case's inputs converted to fp32.
        """
        self.attempt, self.wanted, self.wide = attempt, attempt.wanted, wide
        self.number, self.budget, self.collides = number, budget, collides
        self.kept: dict[str, object] = {}
        self.needs, self.stores = cache(self._needs), cache(self._stores)
        self.given, self.outs, self.record = self._run(NOTHING, self._files)
        self.got = self.outs[number].detach().clone()
        self.all_expected = self.all_right()
        self.expected = self.all_expected[number]
        self.wrong = ~self.is_right(self.got)
        far = ~torch.isclose(
            self.got.double(), self.expected.double(), rtol=1e-2, atol=1e-3, equal_nan=True
        )
        self.wrong = far if far.any() else self.wrong
        self.first: Index = tuple(self.wrong.nonzero()[0].tolist()) if self.wrong.any() else ()

    @cached_property
    def all_wrong(self) -> list[np.ndarray]:
        """Of each result, which elements are wrong."""
        return [
            ~is_right(got, want, self.attempt.tolerance(want)).numpy()
            for got, want in zip(self.outs, self.all_expected, strict=True)
        ]

    @cached_property
    def others(self) -> list["Experiments"]:
        """The candidate on other cases, whose sizes and strides leave less to chance."""
        found, cases = [], {case.name: case for case in self.wanted.cases}
        less_by_chance = {*_LESS_BY_CHANCE} & {*cases} - {*self.wanted.may_refuse}
        for name, case in cases.items():
            if name in (less_by_chance or _OR):
                few = {letter: _FEW.get(letter, size) for letter, size in case.sizes.items()}
                attempt = Attempt(self.attempt.candidate, self.wanted, replace(case, sizes=few), [])
                try:
                    found.append(Experiments(attempt, budget=self.budget, collides=self.collides))
                except OutOfBudget:
                    raise
                except Exception:  # whatever a candidate may raise there
                    continue
        return found

    # runs

    def inputs(self) -> list[Tensor]:
        given = self.wanted.inputs(self.attempt.case)
        if not self.wide:
            return given
        return [laid_out_alike(x, torch.float32) if x.is_floating_point() else x for x in given]

    def _run(
        self, changes: Changes, files: frozenset[str] | None = None
    ) -> tuple[list[Tensor], list[Tensor], "Record"]:
        """The inputs, the results, and a record, with the names of kernels in these files."""
        self.budget.spend(A_RUN)
        given, names = self.inputs(), self.wanted.names
        changes.inputs(given)
        if files is None:
            files = self._files if any(name for name, _ in changes.blocks) else frozenset()
        try:
            with self._recording(changes, files) as record:
                returned = called(self.attempt.candidate, self.attempt.case, given)
        except Exception:
            if self.budget.is_spent:  # the record has stopped it, in Triton's words
                raise OutOfBudget from None
            raise
        overwritten = [given[names.index(name)] for name in self.wanted.overwrites]
        return given, overwritten or list(as_tuple(returned)), record

    def _recording(
        self, changes: Changes, files: frozenset[str]
    ) -> "AbstractContextManager[Record]":
        if not triton_is_installed():
            return nullcontext(NoRecord())
        from .record import Record

        return Record(changes, files, self.budget)

    def out(self, changes: Changes = NOTHING) -> Tensor:
        """The candidate's result."""
        return self._run(changes)[1][self.number]

    def value(self, changes: Changes) -> float:
        """The wrong element."""
        return float(self.out(replace(changes, only=self._only))[self.first])

    def followed(self, changes: Changes) -> "Record":
        """A record with the names of kernels."""
        return self._run(changes, self._files)[2]

    @cached_property
    def _only(self) -> Program | None:
        """The one program that stores the wrong element."""
        stores = self.stores(self.first) if self.first else []
        programs = {one.program for one, _ in stores}
        if len(programs) != 1 or len(self.record.launched) != 1:
            return None
        number = programs.pop()
        return Program(number, self.record.programs[number], self.record.grid)

    @property
    def _is_long(self) -> bool:
        """Whether a run for the wrong element makes many accesses."""
        only = self._only
        mine = [one for one in self.record.noted if only is None or one.program == only.number]
        return len(mine) > _MANY_ACCESSES

    def is_cured_by_blocks(self, setting: Setting, put: Put) -> bool:
        """Whether every element is right with these blocks of one name, or at one line."""
        return self.is_cured_by(Changes(blocks={setting: put}, memories=self.record.memories))

    def is_cured_by(self, changes: Changes) -> bool:
        """Whether every element of every result is right with these changes."""
        if self.budget.hurries:
            return False
        one = replace(changes, only=self._only)  # which is faster, and mostly enough to say no
        if self._only and not changes.grid and not self._are_right(one):
            return False
        return self._are_right(changes)

    def _are_right(self, changes: Changes) -> bool:
        """Whether every element is right, or those that the only program stores."""
        try:
            _, outs, record = self._run(changes)
        except OutOfBudget:
            raise
        except Exception:  # whatever a kernel may raise with a name or an argument changed
            return False
        if record.leaves or [x.shape for x in outs] != [x.shape for x in self.all_expected]:
            return False
        for out, want in zip(outs, self.all_expected, strict=True):
            right = is_right(out, want, self.attempt.tolerance(want))
            if changes.only:
                right |= ~record.stored_in(out)
            if not right.all():
                return False
        if changes.only or not self.collides:
            return True
        return all(_is_stored_once(record, out) for out in outs)

    def all_right(self, changes: Changes = NOTHING) -> list[Tensor]:
        """The specification's results."""
        given = self.inputs()
        changes.inputs(given)
        return results(self.wanted, given)

    def right(self, changes: Changes = NOTHING) -> Tensor:
        return self.all_right(changes)[self.number]

    def is_right(self, got: Tensor) -> Tensor:
        return is_right(got, self.expected, self.attempt.tolerance(self.expected))

    def changing(self, elements: list[Element], by: float = 1.0) -> Changes:
        """A change of these elements alone."""
        places = defaultdict(list)
        for name, index in elements:
            places[self.wanted.names.index(name)].append(index)

        def change(given: list[Tensor]) -> None:
            for number, indices in places.items():
                at = tuple(torch.tensor(indices).T)
                given[number][at] = given[number][at] * 1.5 + by

        return Changes(inputs=change)

    # what an element needs, and what it has

    def _needs(self, at: Index, number: int | None = None) -> frozenset[Element]:
        """The inputs' elements on which the right one depends."""
        own = [x.double() if x.is_floating_point() else x for x in self.inputs()]
        named = list(zip(self.wanted.names, own, strict=True))
        floats = [(name, x.requires_grad_()) for name, x in named if x.is_floating_point()]
        with torch.enable_grad():
            out = as_tuple(self.wanted(*own))[self.number if number is None else number]
            if not out.requires_grad:
                return frozenset()
            grads = torch.autograd.grad(out[at], [x for _, x in floats], allow_unused=True)
        pairs = zip(floats, grads, strict=True)
        every = ((name, g.nonzero().tolist()) for (name, _), g in pairs if g is not None)
        return frozenset((name, tuple(i)) for name, indices in every for i in indices)

    def moves(self, elements: list[Element], by: float = 1.0) -> bool:
        """Whether the wrong element changes with these."""
        now, before = self.value(self.changing(elements, by)), float(self.got[self.first])
        return now != before and not (math.isnan(now) and math.isnan(before))

    @cached_property
    def has(self) -> tuple[set[Element], set[Element]]:
        """Needed elements that the wrong one lacks, and those that it has and doesn't need."""
        needs = sorted(self.needs(self.first))
        if self._is_long or self.budget.hurries or math.isnan(float(self.got[self.first])):
            loaded = {element for element, _ in self.loads(self.first)}
            return set(needs) - loaded, loaded - self.needs_of_lane(self.first)
        tested = needs[:: max(1, len(needs) // TESTED)] + needs[-1:]
        # a small change of one in a long sum may be rounded away
        lacks = {e for e in tested if not (self.moves([e]) or self.moves([e], by=1000.0))}
        named = zip(self.wanted.names, self.given, strict=True)
        every = ((n, i) for n, x in named if x.is_floating_point() for i in np.ndindex(*x.shape))
        known, extra = set(needs), set()
        self._search([element for element in every if element not in known], extra)
        return lacks, extra

    def _search(self, pool: list[Element], found: set[Element]) -> None:
        if len(found) > MOST or not pool or not self.moves(pool):
            return
        if len(pool) == 1:
            if self.right(self.changing(pool))[self.first] == self.expected[self.first]:
                found.add(pool[0])  # otherwise it is needed, times a factor that is zero by chance
            return
        for part in (pool[: len(pool) // 2], pool[len(pool) // 2 :]):
            self._search(part, found)

    # who loads and stores what

    def input_address(self, element: Element) -> int:
        name, index = element
        return address_of(self.given[self.wanted.names.index(name)], index)

    def _stores(self, at: Index) -> list[tuple[Noted, Index]]:
        """The stores of an element, and the lane of each."""
        address = address_of(self.outs[self.number], at)
        lanes = (
            (one, (one.access.addresses == address) & one.access.wanted)
            for one in self.record.stores()
        )
        return [(one, tuple(map(int, lane))) for one, on in lanes for lane in np.argwhere(on)]

    def element_at(self, address: int) -> Element:
        """The element of an input or a result at an address, or words on what is there."""
        results = [f"result {k}" if len(self.outs) > 1 else "result" for k in range(len(self.outs))]
        named = zip((*self.wanted.names, *results), (*self.given, *self.outs), strict=True)
        for name, x in named:
            begin = x.untyped_storage().data_ptr()
            if begin <= address < begin + x.untyped_storage().nbytes():
                rest = (address - begin) // x.element_size() - x.storage_offset()
                index = [0] * x.dim()
                for k in sorted(range(x.dim()), key=lambda k: -x.stride(k)):
                    if x.stride(k):
                        index[k], rest = divmod(rest, x.stride(k))
                if rest == 0 and all(0 <= i < n for i, n in zip(index, x.shape, strict=True)):
                    return name, tuple(map(int, index))
                return f"memory between the elements of {name}", ()
        place = self.record.place_of(address, self.given[0].element_size(), None)
        return place.partition(", whose")[0], ()

    def size_at(self, address: int) -> int:
        """Bytes of an element of the tensor at an address."""
        for x in (*self.given, *self.outs):
            begin = x.untyped_storage().data_ptr()
            if begin <= address < begin + x.untyped_storage().nbytes():
                return x.element_size()
        return self.got.element_size()

    def loads_of(self, program: int) -> list[Noted]:
        return [one for one in self.record.noted if one.is_load and one.program == program]

    def loads(self, at: Index) -> list[tuple[Element, Noted]]:
        """What the lane that stored an element had loaded, and where."""
        stores = self.stores(at)
        return self.loads_of_lane(*stores[-1]) if stores else []

    def loads_of_lane(self, store: Noted, lane: Index) -> list[tuple[Element, Noted]]:
        loads = ((one, one.address(lane, store.shape)) for one in self.loads_of(store.program))
        return [(self.element_at(at), one) for one, at in loads if at is not None]

    def needs_of_lane(self, at: Index) -> set[Element]:
        """What an element needs, and others that its lane stores, too."""
        found = set(self.needs(at))
        for store, lane in self.stores(at)[-1:]:
            for one in self.record.stores():
                if one.program == store.program and (address := one.address(lane, store.shape)):
                    for number, x in enumerate(self.outs):
                        found.update(*(self.needs(o, number) for o in _index_in(x, address)))
        return found

    @cached_property
    def is_stored_once(self) -> bool:
        """Whether every element of every result is."""
        return all(_is_stored_once(self.record, out) for out in self.outs)

    # the reader's source

    @cached_property
    def function(self) -> Callable:
        """The reader's function, without what is around it."""
        function = getattr(self.attempt.candidate, "func", self.attempt.candidate)
        while closure := getattr(function, "__closure__", None):  # of `in_place`
            inner = [cell.cell_contents for cell in closure if callable(cell.cell_contents)]
            if not inner:
                break
            function = getattr(inner[0], "func", inner[0])
        return function

    @cached_property
    def kernels(self) -> list[Callable]:
        """The kernels that the candidate's own lines name, and functions that these name."""
        found, left = [], [self.function]
        while left:
            function = left.pop()
            names = getattr(function, "__globals__", {})
            own = getattr(getattr(function, "__code__", None), "co_names", ())
            new = [function_of(names[name]) for name in own if hasattr(names.get(name), "fn")]
            new = [kernel for kernel in new if kernel not in found]
            found += new
            left += new
        return found

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(kernel.__code__.co_filename for kernel in self.kernels)

    @cached_property
    def source(self) -> str:
        return "".join(inspect.getsource(kernel) for kernel in self.kernels)

    def is_column(self, name: str) -> bool:
        """Whether lanes of a name are rows of a larger block."""
        return bool(name) and bool(re.search(rf"\b{name}\b[^\[\]\n]*\[:, None\]", self.source))

    @cached_property
    def suspects(self) -> list[str] | None:
        """The names behind loads of elements that the wrong one does not need; None: any."""
        if not self.first:
            return None
        needed = self.needs_of_lane(self.first)
        lines = [one.line for element, one in self.loads(self.first) if element not in needed]
        names = dict.fromkeys(name for line in lines for name in self.names_behind(line, deep=3))
        return [*names] or None

    def line_that_sets(self, name: str) -> str:
        """The last one."""
        setting = rf"^\s*([\w, ]*\b{name}\b[\w, ]* [-+*/]?= .*)$"
        return next(iter(re.findall(setting, self.source, re.MULTILINE)[-1:]), "")

    def names_behind(self, line: str, deep: int = 1) -> list[str]:
        """The names in a line, and those in the lines that set them, so many times."""
        found = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", line.partition(" = ")[2] or line))
        for _ in range(deep):
            for name in list(found):
                setting = self.line_that_sets(name).partition(" = ")[2]
                found |= dict.fromkeys(re.findall(r"[A-Za-z_]\w*", setting))
        return list(found)

    @property
    def launch(self) -> Launched | None:
        return self.record.launched[0] if self.record.launched else None

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The launch's arguments that are integers, but for sizes of blocks: these are free."""
        if self.launch is None:
            return {}
        blocks = re.findall(r"tl\.(?:arange|zeros|full)\((.*?)\)", self.source)
        free = set(re.findall(r"\w+", " ".join(blocks)))
        arguments = self.launch.arguments.items()
        return {name: x for name, x in arguments if isinstance(x, int) and name not in free}


def _is_stored_once(record: "Record", out: Tensor) -> bool:
    begin, end = out.untyped_storage().data_ptr(), out.untyped_storage().nbytes()
    mine = record.stored[(record.stored >= begin) & (record.stored < begin + end)]
    return len(np.unique(mine)) == len(mine) == out.numel()


def _index_in(x: Tensor, address: int) -> list[Index]:
    """The index of an element of a contiguous tensor at an address, if there is one."""
    place, rest = divmod(address - x.data_ptr(), x.element_size())
    if rest or not 0 <= place < x.numel() or not x.is_contiguous():
        return []
    return [tuple(int(i) for i in np.unravel_index(place, tuple(x.shape)))]
