"""What a provider is: a name, a layout that it likes, and a function that rotates.

An adapter says these and no more; the runs that are measured are made from them here, the same way
for everybody. A package is imported by the adapter's function, never when the module is loaded. A
project without its package (`FromSources`) is a few of its files, compiled or imported alone.
"""

import importlib.metadata
import importlib.util
from collections.abc import Callable
from ctypes import CDLL
from dataclasses import dataclass
from functools import cached_property, partial
from types import ModuleType

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.sources import Source
from benchmarks.workload import Layout, Workload, rounded_error

BY_ITS_HOST_CODE = "its kernel, launched by its own host code"

Function = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class Run:
    """A call to measure. Its first result is right or wrong; later ones of calls in place rotate
    what is rotated already, over and over, which moves the same bytes and keeps every norm."""

    call: Callable[[], tuple[Tensor, ...]]
    layout: Layout | None = None  # of the results; None: there is nothing to check
    overwrites: tuple[Tensor, ...] = ()
    how: str = ""  # layout and memory, in words


class Provider:
    """A way to rotate tensors. Adapters for packages override the first lines."""

    name: str
    package: str = ""  # what has to be installed: the name it is imported by ...
    distribution: str = ""  # ... and the name that knows its version
    interleaves = True
    rotates_partly = True
    rotates_any_slice = False  # from any first element
    packs = True  # takes packed sequences
    starts = True  # takes start positions, itself or through its tables
    ids = True  # takes position ids, likewise
    has_backward = True
    takes_a_pair = False  # q and k at once
    built_with = ""  # flags of nvcc that change code, if it is compiled from sources
    roundings = 3  # of a table, of products and of sums; ours rounds once
    dtypes: tuple[str, ...] = ()  # none named: all

    def layout(self, case: Case) -> Layout:
        """In which layout it is at its best, or the case's own."""
        raise NotImplementedError

    def function(self, workload: Workload) -> Function:
        """Tensors in the layout -> rotated tensors, known to autograd. Imports the package."""
        raise NotImplementedError

    def gradient(self, workload: Workload) -> Function | None:
        """Gradients of the results -> gradients of the tensors, if that is a function of its own;
        else autograd's."""
        return None

    def overwrites(self, case: Case, direction: str) -> bool:
        """Does it write into the tensors (forward) or gradients (backward) that it is given?"""
        return False

    def allowed_error(self, case: Case) -> float:
        """How far from fp64 results may be and still be right."""
        return rounded_error(case, self.roundings)

    def error(
        self, workload: Workload, results: tuple[Tensor, ...], layout: Layout, direction: str
    ) -> float:
        """How far results are from fp64."""
        return workload.error(results, layout, direction)

    def version(self) -> str | None:
        """Of the package; None: it is not installed."""
        if not self.package:
            return ""
        try:
            if importlib.util.find_spec(self.package) is None:
                return None
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return "unknown"

    def absent(self) -> str:
        """Why it cannot take part; '': it can."""
        return "not installed" if self.version() is None else ""

    def origin(self) -> str:
        """In words: installed, or part of this run."""
        if not self.package:
            return "part of this run"
        version = self.version()
        return "not installed" if version is None else f"installed, {version}"

    def about(self) -> dict:
        """Where it comes from and what is timed, for a record."""
        return {"measures": "the whole call", "version": self.version() or ""}

    def cannot(self, case: Case, direction: str) -> str | None:
        """Why it has no such call; None: it has."""
        reasons = {
            f"no {case.dtype}": self.dtypes and case.dtype not in self.dtypes,
            "no interleaved pairs": case.interleaved and not self.interleaves,
            "no partial rotary": case.d2 != case.d and not self.rotates_partly,
            "no slice but the first": case.rotary_start > 0 and not self.rotates_any_slice,
            "no packed sequences": case.tensor_format == "thd" and not self.packs,
            "no start positions": case.positions == "starts" and not self.starts,
            "no position ids": case.positions == "ids" and not self.ids,
            "no backward": direction != "forward" and not self.has_backward,
            "takes q and k, and there is one head": self.takes_a_pair and case.heads < 2,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def run(self, workload: Workload, function: Function, direction: str) -> Run:
        """What is measured: the call, with all that it needs made beforehand."""
        layout = self.layout(workload.case)
        writes_x = self.overwrites(workload.case, "forward")
        gradient = self.gradient(workload)
        takes_x = direction != "backward" or gradient is None
        takes_grads = direction in ("backward", "both")
        tensors = workload.take(workload.x, layout) if takes_x else ()
        grads = workload.take(workload.grad, layout) if takes_grads else ()
        if direction == "forward":
            call = partial(function, *tensors)
        elif direction == "backward" and gradient is not None:
            call = partial(gradient, *grads)
        else:
            call = self._with_autograd(function, direction, tensors, grads)
        overwritten = tensors if direction != "backward" and writes_x else ()
        overwritten += grads if self.overwrites(workload.case, "backward") else ()
        return Run(call, layout, overwritten, f"{layout}, in place" if overwritten else str(layout))

    @staticmethod
    def _with_autograd(
        function: Function, direction: str, tensors: tuple[Tensor, ...], grads: tuple[Tensor, ...]
    ) -> Callable[[], tuple[Tensor, ...]]:
        leaves = [t.requires_grad_() for t in tensors]

        def both() -> tuple[Tensor, ...]:
            return torch.autograd.grad(function(*leaves), leaves, grads)

        if direction != "backward":
            return both if direction == "both" else partial(function, *leaves)
        results = function(*(leaf.clone() for leaf in leaves))  # some overwrite what they get

        def backward() -> tuple[Tensor, ...]:
            return torch.autograd.grad(results, leaves, grads, retain_graph=True)

        return backward


class FromSources(Provider):
    """A project's RoPE without its package: subclasses compile or import it in `prepare`."""

    source: Source
    measures: str  # what is inside the call that is timed

    def version(self) -> str | None:
        """The revision; None: its files are not unpacked."""
        return None if self.source.missing() else self.source.revision

    def absent(self) -> str:
        """Why it cannot take part; '': it is compiled or imported now."""
        missing = self.source.missing()
        if missing:
            return f"not unpacked: {', '.join(missing)}"
        try:
            self.code  # noqa: B018
        except Exception as failure:  # of whatever kind: the others are measured all the same
            return first_line(failure)
        return ""

    def origin(self) -> str:
        """In words: built or imported, and at which commit or release."""
        how = "built" if self.built_with else "imported"
        here = "" if self.version() else " (not unpacked)"
        return f"{how} from sources, {self.source.revision}{here}"

    def about(self) -> dict:
        """Where it comes from and what is timed, for a record."""
        about = {"measures": self.measures, "repository": self.source.repository}
        return about | {"revision": self.source.revision, "built_with": self.built_with}

    def cannot(self, case: Case, direction: str) -> str | None:
        """As others; and it is not called as its users call it, so its host time says nothing."""
        if case.clock == "host":
            return "no host time: it is called by a launcher of ours"
        if direction not in ("forward", "backward"):
            return "forward and backward apart, without autograd"
        return super().cannot(case, direction)

    @cached_property
    def code(self) -> ModuleType | CDLL:
        """Its functions, compiled or imported once."""
        return self.prepare()

    def prepare(self) -> ModuleType | CDLL:
        """Import, or compile and load.

        Raises:
            Exception: of any kind, if that fails; the message says why.
        """
        raise NotImplementedError


def first_line(failure: Exception) -> str:
    """What a failure says, in one line of at most some 300 characters."""
    lines = str(failure).strip().splitlines() or [""]
    return f"{type(failure).__name__}: {lines[0][:300]}"
