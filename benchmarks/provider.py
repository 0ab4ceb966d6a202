"""What a provider is: a name, a layout that it likes, and a function that rotates.

An adapter says these and no more; the runs that are measured are made from them here, the same way
for everybody. A package is imported by the adapter's function, never when the module is loaded. A
project without its package (`FromSources`) is a few of its files, compiled or imported alone.
"""

from collections.abc import Callable
from ctypes import CDLL
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.code import HERE, build, import_file
from benchmarks.peers.sources import Source
from benchmarks.workload import Layout, Workload, rounded_error

Function = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class Run:
    """A call to measure. Its first result is right or wrong; later ones of calls in place rotate
    what is rotated already, over and over, which moves the same bytes and keeps every norm."""

    call: Callable[[], tuple[Tensor, ...]]
    layout: Layout | None = None  # of the results; None: there is nothing to check
    how: str = ""  # layout and memory, in words


class Provider:
    """A way to rotate tensors. Adapters for packages override the first lines."""

    name: str
    origin = ""  # package and version, or repository and revision; '': this repository
    rotates_partly = True
    packs = True  # takes packed sequences
    has_backward = True
    takes_a_pair = False  # q and k at once
    is_ours_or_a_limit = False  # takes part where others don't
    measures = "the whole call"  # what is inside the call that is timed
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

    def absent(self) -> str:
        """Why it cannot take part; '': it can."""
        return ""

    def about(self) -> dict:
        """Where it comes from and what is timed, for a record."""
        return {name: getattr(self, name) for name in ("origin", "measures", "built_with")}

    def cannot(self, case: Case, direction: str) -> str | None:
        """Why it has no such call; None: it has."""
        others = not self.is_ours_or_a_limit
        reasons = {
            f"no {case.dtype}": self.dtypes and case.dtype not in self.dtypes,
            "no partial rotary": case.d2 != case.d and not self.rotates_partly,
            "no packed sequences": case.tensor_format == "thd" and not self.packs,
            "measured of ours alone": others and (case.interleaved or case.positions != "index"),
            "no backward": direction != "forward" and not self.has_backward,
            "takes q and k, and there is one head": self.takes_a_pair and case.heads < 2,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def run(self, workload: Workload, function: Function, direction: str) -> Run:
        """What is measured: the call, with all that it needs made beforehand."""
        layout = self.layout(workload.case)
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
        overwrites = direction != "backward" and self.overwrites(workload.case, "forward")
        overwrites |= takes_grads and self.overwrites(workload.case, "backward")
        return Run(call, layout, f"{layout}, in place" if overwrites else str(layout))

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
    dtypes = ("float16", "bfloat16", "float32")

    @property
    def origin(self) -> str:
        return f"[{self.source.revision}]({self.source.repository})"

    def absent(self) -> str:
        """As others: files are missing, or are neither compiled nor imported now."""
        if missing := self.source.missing():
            return f"not unpacked: {', '.join(missing)}"
        try:
            self.code  # noqa: B018
        except Exception as failure:  # of whatever kind: the others are measured all the same
            return first_line(failure)
        return ""

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
        """Import its only file; others compile and load.

        Raises:
            Exception: of any kind, if that fails; the message says why.
        """
        (file,) = self.source.files
        name = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
        return import_file(self.source.folder() / file, name, self.stand_ins())

    def stand_ins(self) -> dict[str, dict]:
        """Modules that the file imports of its package, and what it needs of each."""
        return {}


class FromCuda(FromSources):
    """CUDA kernels, compiled with a launcher of ours."""

    launcher: str  # a file in peers/launchers
    stubs = ""  # a folder in peers/stubs: what the project's files need from outside
    folders: tuple[str, ...]  # of the project, with headers
    includes_torch = False  # PyTorch's headers, too
    flags: tuple[str, ...] = ()  # those of its own build that change code
    measures = "its kernel, launched by its own host code"

    @property
    def built_with(self) -> str:
        return " ".join(("-O3", *self.flags))

    def prepare(self, *more_flags: str) -> CDLL:
        include = [HERE / "stubs" / self.stubs] if self.stubs else []
        include += [self.source.folder() / folder for folder in self.folders]
        if self.includes_torch:
            include.append(Path(torch.__file__).parent / "include")
        return build(self.launcher, include, (*self.flags, *more_flags))


def first_line(failure: Exception) -> str:
    """What a failure says, in one line of at most some 300 characters."""
    lines = str(failure).strip().splitlines() or [""]
    return f"{type(failure).__name__}: {lines[0][:300]}"
