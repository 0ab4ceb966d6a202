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
from ..judge_process import HOW_TO_BEGIN, in_words, load, same_bits, start
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
        self.wanted, self.after = _called(reference, inputs)
        if not self.wanted and all(map(_same, inputs, self.after)):
            raise TypeError("the reference returns no tensor and overwrites none")
        is_float = [isinstance(x, Tensor) and x.is_floating_point() for x in inputs]
        doubles = [x.double() if yes else x for x, yes in zip(inputs, is_float, strict=True)]
        try:
            self.exact = _called(reference, doubles)
        except (RuntimeError, TypeError, ValueError):  # it asks for a dtype
            self.exact = self.wanted, self.after
        if len(self.exact[0]) != len(self.wanted):
            self.exact = self.wanted, self.after

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
            "counts": [vars(counts) for counts in watch.counts],
            "atomics": watch.added,
        }

    def _wrong(self, returned: object, watch: Watch) -> tuple[str, str]:
        """The first thing that is wrong, and which program stored it."""
        got, own = _tensors_in(returned) if self.wanted else [], []
        labels = [f"result {k}" for k in range(len(got))]
        if self.wanted and not got:  # it overwrites what the reference returns
            own = [k for k, x in enumerate(self.given) if not _same(x, self.inputs[k])]
            got, labels = [self.given[k] for k in own], [self.names[k] for k in own]
        if len(got) != len(self.wanted):
            return f"{len(got)} results came back, {len(self.wanted)} are expected", ""
        results, after = self.exact
        for label, x, want, exact in zip(labels, got, self.wanted, results, strict=True):
            if found := self._unlike(label, x, want, exact, watch):
                return found
        for k, name in enumerate(self.names):
            if k in own or _same(self.given[k], self.after[k]):
                continue
            if _same(self.inputs[k], self.after[k]):
                return f"an input is overwritten: {name}", ""
            if found := self._unlike(name, self.given[k], self.after[k], after[k], watch):
                return found
        return next(iter(watch.races + watch.collisions), ""), ""

    def _unlike(
        self, label: str, got: Tensor, want: Tensor, exact: Tensor, watch: Watch
    ) -> tuple[str, str] | None:
        """What is wrong with a tensor, and which program stored it."""
        rounded = exact.to(want.dtype) if exact.shape == want.shape else want
        verdict = compare(got, rounded, self.tolerance)
        if verdict:
            return None
        at = verdict.first_wrong_index
        owner = (watch.owner_of(got, at) or "no program") if at is not None else ""
        also = "".join(f"; {words}" for words in (watch.races + watch.collisions)[:1])
        return f"{label}: {verdict.reason}{also}", owner


def _called(reference: Callable, inputs: list) -> tuple[list[Tensor], list]:
    """Its results, and its inputs after the call."""
    own = [clone(x) for x in inputs]
    torch.manual_seed(1)
    return _tensors_in(reference(*own)), own


def _tensors_in(returned: object) -> list[Tensor]:
    return [x for x in tree_leaves(returned) if isinstance(x, Tensor)]


def _same(x: object, y: object) -> bool:
    """Also of what is no tensor."""
    return not isinstance(x, Tensor) or same_bits(x.reshape(-1), y.reshape(-1))


def _names_of(function: Callable, count: int) -> list[str]:
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:
        names = []
    return names if len(names) == count else [f"input {k}" for k in range(count)]
