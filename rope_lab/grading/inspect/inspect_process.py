"""The child process of `inspect.py`: runs a function at small sizes in Triton's interpreter.

It is the judge's kind of child: a kernel may end it, or not come back.
"""

import inspect
import itertools
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ..check import clone, compare
from ..judge_process import HOW_TO_BEGIN, in_words, load, said, same_bits, start
from ..verdict import raised
from .watch import Watch

__all__ = ["answer", "start"]  # what `worker.py` calls
_NUMBERS = itertools.count()  # of jobs: each has files of its own
_STOPPED = {
    "wrong": "",
    "refused": "",
    "unwritten": False,
    "owner": "",
    "counts": [],
    "atomics": {},
}


def answer(job: dict, folder: Path, tell: Callable[[dict], None]) -> dict:
    """What a function does at each of the sizes; after a wrong one nothing follows.

    Of a job: `function`, `reference` and `make` as shipped, `sizes`, `tolerance`.
    """
    number = next(_NUMBERS)
    function, reference, make = (
        load(job[name], folder / f"candidate_{number}_{name}.py")
        for name in ("function", "reference", "make")
    )
    tolerance = tuple(job["tolerance"]) if job["tolerance"] else None
    runs = []
    for size in job["sizes"]:
        tell({"begins": f"size {size}"})
        try:
            run = _Run(function, reference, _made(make, size), tolerance)
        except Exception as error:  # whatever they may raise
            words = f"at size {size} the reference or make {raised(error)}"
            return {"runs": [], "refused": words}
        runs.append(run.found() | {"size": size})
        if runs[-1]["wrong"] or runs[-1]["refused"]:
            break
    return {"runs": runs, "refused": ""}


def _made(make: Callable, size: int) -> list:
    torch.manual_seed(0)
    inputs = make(size, "cpu")
    if not isinstance(inputs, tuple | list):
        raise TypeError(f"make returns a {type(inputs).__name__}; accepted: a tuple or a list")
    nested = [x for x in inputs if isinstance(x, tuple | list | dict)]
    if any(isinstance(x, Tensor) for x in tree_leaves(nested)):
        raise TypeError("make returns tensors within a tuple, list or dict; accepted: one by one")
    return list(inputs)


class _Run:
    """One call of a function beside its reference."""

    def __init__(
        self,
        function: Callable,
        reference: Callable,
        inputs: list,
        tolerance: tuple[float, float] | None,
    ) -> None:
        self.function, self.tolerance = function, tolerance
        self.inputs, self.given = inputs, [clone(x) for x in inputs]
        self.names = _names_of(reference, len(inputs))
        self.wanted, self.changed_by_reference = self._results(reference, inputs)
        if not self.wanted:
            raise TypeError("the reference returns no tensor and overwrites none")
        doubles = [x.double() if _is_float(x) else x for x in inputs]
        own = self.own
        try:
            self.exact, _ = self._results(reference, doubles)
        except (RuntimeError, TypeError, ValueError):  # it asks for a dtype
            self.exact = self.wanted
        if len(self.exact) != len(self.wanted):
            self.exact = self.wanted
        self.own = own

    def found(self) -> dict:
        """What is wrong, '' if nothing is; and what was counted."""
        watch = Watch()
        torch.manual_seed(1)
        try:
            with watch:
                returned = self.function(*self.given)
        except NotImplementedError as error:
            return _STOPPED | {"refused": str(error) or HOW_TO_BEGIN, "unwritten": True}
        except Exception as error:  # whatever a function may raise
            reason, owner = in_words(error)
            left = reason.startswith("out of bounds")
            return _STOPPED | {"wrong" if left else "refused": reason, "owner": owner}
        wrong, owner = self._wrong(returned, watch)
        return _STOPPED | {
            "wrong": wrong,
            "owner": owner,
            "counts": [counts.shipped() for counts in watch.counts],
            "atomics": watch.added,
        }

    def _wrong(self, returned: object, watch: Watch) -> tuple[str, str]:
        """The first thing that is wrong, and which program stored it."""
        results = _tensors_in(returned)
        changed = _changed(self.inputs, self.given)
        labels = [f"result {k}" for k in range(len(results))]
        if not results:  # it works in place
            results, labels = [self.given[k] for k in changed], [self.names[k] for k in changed]
            missed = [self.names[k] for k in self.changed_by_reference if k not in changed]
            if missed and self.in_place and len(changed) == len(self.wanted):
                return f"an input is not overwritten: {missed[0]}", ""
        elif not self.in_place:  # the reference does both, so must it
            for k in self.changed_by_reference:
                verdict = compare(self.given[k], self.own[k], self.tolerance)
                if not verdict:
                    return f"{self.names[k]}: {verdict.reason}", ""
        if len(results) != len(self.wanted):
            return f"{len(results)} results came back, {len(self.wanted)} are expected", ""
        for label, got, want, exact in zip(labels, results, self.wanted, self.exact, strict=True):
            rounded = exact.to(want.dtype) if exact.shape == want.shape else want
            verdict = compare(got, rounded, self.tolerance)
            if not verdict:
                at = verdict.first_wrong_index
                owner = watch.owner_of(got, at) if at is not None and watch.knows(got) else None
                found = f"{label}: {verdict.reason}" + _also(watch)
                return found, said(owner) if at is not None else ""
        if beyond := [k for k in changed if k not in self.changed_by_reference]:
            return f"an input is overwritten: {self.names[beyond[0]]}", ""
        return next(iter(watch.races + watch.collisions), ""), ""

    def _results(self, reference: Callable, inputs: list) -> tuple[list[Tensor], list[int]]:
        """Its results, or else the inputs that it overwrites; and which inputs those are."""
        self.own = own = [clone(x) for x in inputs]
        torch.manual_seed(1)
        results = _tensors_in(reference(*own))
        changed = _changed(inputs, own)
        self.in_place = not results
        return results or [own[k] for k in changed], changed


def _also(watch: Watch) -> str:
    """Of a wrong result: what the programs did to each other."""
    return "".join(f"; {words}" for words in (watch.races + watch.collisions)[:1])


def _tensors_in(returned: object) -> list[Tensor]:
    return [x for x in tree_leaves(returned) if isinstance(x, Tensor)]


def _changed(before: list, after: list) -> list[int]:
    pairs = enumerate(zip(before, after, strict=True))
    return [k for k, (x, y) in pairs if isinstance(x, Tensor) and not _same(x, y)]


def _same(x: Tensor, y: Tensor) -> bool:
    return same_bits(x.reshape(-1), y.reshape(-1))


def _names_of(function: Callable, count: int) -> list[str]:
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:
        names = []
    return names if len(names) == count else [f"input {k}" for k in range(count)]


def _is_float(x: object) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()
