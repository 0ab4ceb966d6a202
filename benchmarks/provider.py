"""Providers: a name, the fastest layout, and a function that rotates.

An adapter defines these, and this file makes the measured calls from them, in the same way for all.
The adapter's function imports its package, not the module. `FromSources` is for projects whose
package isn't installed: a few of their files are compiled or imported.
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
    """A call to measure. Only its first result is checked: later calls in place rotate the same
    tensors again, which moves the same bytes and keeps norms."""

    call: Callable[[], tuple[Tensor, ...]]
    layout: Layout | None = None  # of the results; None: there is nothing to check
    how: str = ""  # layout and memory, for the page


class Provider:
    """A way to rotate tensors. Adapters override attributes and the first methods."""

    name: str
    origin = ""  # package and version, or repository and revision; '': this repository
    rotates_partly = True
    packs = True  # supports packed sequences
    has_backward = True
    takes_a_pair = False  # q and k together
    is_ours_or_a_limit = False  # is also measured in cases that are for ours alone
    measures = "the whole call"  # the timed part of the call
    built_with = ""  # flags of nvcc that change code, if it is compiled from sources
    roundings = 3  # of a table, of products and of sums; ours rounds once
    dtypes: tuple[str, ...] = ()  # empty: all

    def layout(self, case: Case) -> Layout:
        """Its fastest layout, or the case's own."""
        raise NotImplementedError

    def function(self, workload: Workload) -> Function:
        """Tensors in the layout -> rotated tensors, with autograd. Imports the package."""
        raise NotImplementedError

    def gradient(self, workload: Workload) -> Function | None:
        """Gradients of the results -> gradients of the tensors; None: use autograd."""
        return None

    def overwrites(self, case: Case, direction: str) -> bool:
        """Whether it overwrites its tensors (forward) or gradients (backward)."""
        return False

    def allowed_error(self, case: Case) -> float:
        """The largest error against fp64 that is right."""
        return rounded_error(case, self.roundings)

    def error(
        self, workload: Workload, results: tuple[Tensor, ...], layout: Layout, direction: str
    ) -> float:
        """The error of results against fp64."""
        return workload.error(results, layout, direction)

    def absent(self) -> str:
        """Why it can't be measured here; '': it can."""
        return ""

    def about(self) -> dict:
        """Its origin and what is timed, for the record."""
        return {name: getattr(self, name) for name in ("origin", "measures", "built_with")}

    def cannot(self, case: Case, direction: str) -> str | None:
        """Why it doesn't support a case; None: it does."""
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
        """The call to measure. Everything that it needs is created here."""
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
        results = function(*(leaf.clone() for leaf in leaves))  # Some overwrite their arguments.

        def backward() -> tuple[Tensor, ...]:
            return torch.autograd.grad(results, leaves, grads, retain_graph=True)

        return backward


class FromSources(Provider):
    """A project's RoPE without its package. `prepare` compiles or imports it."""

    source: Source
    dtypes = ("float16", "bfloat16", "float32")

    @property
    def origin(self) -> str:
        return f"[{self.source.revision}]({self.source.repository})"

    def absent(self) -> str:
        """Why it can't be measured: files are missing, or can't be compiled or imported."""
        if missing := self.source.missing():
            return f"not unpacked: {', '.join(missing)}"
        try:
            self.code  # noqa: B018
        except Exception as failure:  # The other providers are measured anyway.
            return first_line(failure)
        return ""

    def cannot(self, case: Case, direction: str) -> str | None:
        """As others. Host time isn't measured, because users don't call it by our launcher."""
        if case.clock == "host":
            return "no host time: it is called by our launcher"
        if direction not in ("forward", "backward"):
            return "forward and backward apart, without autograd"
        return super().cannot(case, direction)

    @cached_property
    def code(self) -> ModuleType | CDLL:
        """Its functions. They are compiled or imported once."""
        return self.prepare()

    def prepare(self) -> ModuleType | CDLL:
        """Import its only file. Subclasses compile and load instead.

        Raises:
            Exception: of any type, if this fails.
        """
        (file,) = self.source.files
        name = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
        return import_file(self.source.folder() / file, name, self.stand_ins())

    def stand_ins(self) -> dict[str, dict]:
        """Modules of its package that the file imports, with the attributes that it needs."""
        return {}


class FromCuda(FromSources):
    """CUDA kernels, compiled with our launcher."""

    launcher: str  # a file in peers/launchers
    stubs = ""  # a folder in peers/stubs, with headers that replace the project's dependencies
    folders: tuple[str, ...]  # the project's folders with headers
    includes_torch = False  # whether it needs PyTorch's headers, too
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
    """The first line of an error, cut to 300 characters."""
    lines = str(failure).strip().splitlines() or [""]
    return f"{type(failure).__name__}: {lines[0][:300]}"
