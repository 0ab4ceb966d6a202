"""Specifications of exercises: PyTorch functions with shapes in their signatures, and their cases.

    @spec
    def rotate_half(x: "(s, b, h, d2)"):
        first, second = x.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)

The letters say which sizes must agree: `s` positions, `b` sequences, `h` heads (`g` of another
tensor), `d` elements of a head, `d2` of them rotated (even), `p` pairs of these, `s2` positions in
a table, `n` anything. They determine the cases that a candidate is tried on. The tensor contains
random numbers in the case's dtype; "angles (s2, 1, 1, d2)" contains angles.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

PLAIN = "small and plain"  # the first case, whose angles are within 3, as in strided cases

# Names of unusual cases; an exercise may leave some out.
STRIDED = ("batch and positions swapped in memory", "a slice of wider rows", "every other element")
TAIL_AND_STRIDE = "part of a strided head"
# Tables for which no result is right.
TOO_SHORT, TOO_WIDE, ODD = "a table that is too short", "a table that is too wide", "an odd width"
OF_EACH = "a table for each sequence"
STRIDED_TABLE = "every other column of a wider table"
ZEROS_AND_SMALL = "a row of zeros, and small elements"  # where a norm's epsilon decides
LARGE = "large elements"  # their squares overflow in fp16
# If the first is left out, the second is too.
HALF_PRECISION = "half precision", "bfloat16"
CHANGED = "a table that has changed since the last call"  # in the same memory
MANY = "a large tensor"  # more than 1024 programs, and offsets beyond 16 bits
MILLION = "more than a million elements"  # where a kernel has few enough programs
OTHER_BLOCK = "another block size"
_ANNOTATION = re.compile(r"(?:(\w+) )?\((.*)\)")


@dataclass(frozen=True)
class Argument:
    """A tensor that a specification takes."""

    name: str
    holds: str  # 'floats' or 'angles'
    letters: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One set of inputs to try a candidate on."""

    name: str
    sizes: dict[str, int]
    dtype: torch.dtype = torch.float32
    layout: str = "contiguous"
    options: dict[str, int] = field(default_factory=dict)  # for a candidate that accepts them
    has_no_result: bool = False  # a candidate has to raise ValueError

    @property
    def is_large(self) -> bool:
        """Whether it tells nothing that smaller ones don't, but for a limited size."""
        return self.name in (MANY, MILLION)


@dataclass(frozen=True)
class Spec:
    """A function that is known to be right, and what a candidate has to do."""

    function: Callable
    arguments: tuple[Argument, ...]
    overwrites: tuple[str, ...] = ()  # arguments that the candidate overwrites with the results
    leave_out: tuple[str, ...] = ()
    may_refuse: tuple[str, ...] = ()  # cases in which it is right, or raises ValueError
    launches: int | None = None  # of kernels, at most; None: as many as it takes
    kernel: bool = False  # kernels have to do all work: PyTorch only allocates
    contiguous: bool = False  # results have to be
    half_the_table: bool = False  # a candidate may load only half of its angles
    tolerance: tuple[float, float] | None = None  # of fp32: relative, absolute; None: one rounding
    blocks: bool = False  # one per program; a remark mentions more, or none
    extra: tuple[Case, ...] = ()

    def __post_init__(self) -> None:
        """As `functools.wraps` does, so that the source of its function is found."""
        object.__setattr__(self, "__wrapped__", self.function)

    def __call__(self, *inputs):
        return self.function(*inputs)

    @property
    def names(self) -> list[str]:
        return [argument.name for argument in self.arguments]

    @property
    def cases(self) -> list[Case]:
        """From the plainest to the strangest."""
        letters = {letter for argument in self.arguments for letter in argument.letters}
        plain = {"s": 4, "b": 1, "h": 2, "g": 1, "d": 8, "n": 64}
        odd = {"s": 7, "b": 3, "h": 5, "g": 2, "d": 24, "n": 1000}
        few = odd | {"s": 5, "b": 2, "h": 3}  # few rows, in cases about something else
        cases = [
            Case(PLAIN, plain),
            Case(CHANGED, plain),
            Case("several sequences", plain | {"b": 3}),
            Case("sizes that no block divides", odd),
            Case(
                "more elements than a block", plain | {"s": 3, "b": 2, "h": 3, "d": 1032, "n": 3001}
            ),
            Case("one head", few | {"h": 1}),
            Case("part of the head rotated", few | {"d": 20, "d2": 12}),
            Case("a table longer than the sequence", plain | {"s2": 9}),
            Case(HALF_PRECISION[0], few, torch.float16),
            Case(HALF_PRECISION[1], few, torch.bfloat16),
            *(Case(name, few, layout=name) for name in STRIDED),
            Case(TAIL_AND_STRIDE, few | {"d": 20, "d2": 12}, layout=STRIDED[-1]),
            *self.extra,
            Case(MILLION, plain | {"n": 2**20 + 1}),
            Case(MANY, plain | {"s": 1025, "h": 1, "d": 64, "n": 1025 * 64}, options={"block": 64}),
        ]
        without = set(self.leave_out)
        if HALF_PRECISION[0] in without:
            without.add(HALF_PRECISION[1])
        if {"part of the head rotated", STRIDED[-1]} & without:
            without.add(TAIL_AND_STRIDE)
        if len(letters & {"s", "b", "h"}) < 3:
            without |= {"several sequences", "one head", STRIDED[0]}
        if not {"d", "d2"} <= letters:
            without |= {"part of the head rotated", TAIL_AND_STRIDE}
        if "s2" not in letters:
            without.add("a table longer than the sequence")
        if all(argument.holds != "angles" for argument in self.arguments):
            without.add(CHANGED)
        if letters != {"n"} or MANY in without:  # of rows, each may fit into a block
            without.add(MILLION)
        return [case for case in cases if case.name not in without]

    def shapes(self, case: Case) -> list[list[int]]:
        """Those of the tensors of a case."""
        sizes = {"s2": case.sizes["s"], "d2": case.sizes["d"]} | case.sizes
        sizes["p"] = sizes["d2"] // 2
        return [
            [sizes[letter] if letter in sizes else int(letter) for letter in argument.letters]
            for argument in self.arguments
        ]

    def without_memory(self, case: Case, device: str) -> list[Tensor]:
        """Tensors of a case's shapes and dtypes, on a device where they have no elements."""
        return [
            torch.empty(shape, dtype=None if one.holds == "angles" else case.dtype, device=device)
            for one, shape in zip(self.arguments, self.shapes(case), strict=True)
        ]

    def inputs(self, case: Case, device: str = "cpu") -> list[Tensor]:
        """The tensors of a case, the same every time."""
        generator = torch.Generator().manual_seed(20261120)
        made = []
        for argument, shape in zip(self.arguments, self.shapes(case), strict=True):
            if argument.holds == "angles":
                made.append(_angles(shape, case, generator))
            else:
                made.append(_lay_out(shape, case, argument.name, generator))
                if argument.letters[-1:] == ("d",) and "d2" in case.sizes:
                    # of the tail all but the first: a kernel that multiplies it by zero gets NaN
                    made[-1][(0,) * (len(shape) - 1)][case.sizes["d2"] + 1 :] = math.inf
        return made if device == "cpu" else [laid_out_alike(x, device) for x in made]


def spec(function: Callable | None = None, **asked) -> Spec:
    """Make a specification from a function whose arguments are annotated with shapes.

    Args:
        function: the function; None if `spec` is used as a decorator with options.
        asked: options of `Spec`: its attributes from `overwrites` on.

    Raises:
        ValueError: an argument has no shape, or not in the form of this module's docstring.
    """
    if function is None:
        return lambda function: spec(function, **asked)
    if isinstance(function, Spec):
        return function
    arguments = []
    code = function.__code__
    for name in code.co_varnames[: code.co_argcount]:
        found = _ANNOTATION.fullmatch(str(function.__annotations__.get(name, "")))
        if not found:
            raise ValueError(
                f'{function.__name__}: {name} has no shape; accepted: {name}: "(s, d)"'
            )
        letters = tuple(letter.strip() for letter in found[2].split(",") if letter.strip())
        arguments.append(Argument(name, found[1] or "floats", letters))
    return Spec(function, tuple(arguments), **asked)


def _angles(shape: list[int], case: Case, generator: torch.Generator) -> Tensor:
    """Within 3 in the first row; if not plain, then within 30, 300, 3000, 3, and so on."""
    if case.layout == OF_EACH:
        shape = [shape[0], case.sizes["b"], *shape[2:]]
    columns = 2 * shape[-1] if case.layout == STRIDED_TABLE else shape[-1]
    angles = torch.rand((*shape[:-1], columns), generator=generator) * 6 - 3
    is_plain = case.name in (PLAIN, CHANGED) or case.layout != "contiguous"
    steps = torch.tensor((1,) if is_plain else (1, 10, 100, 1000))
    row = torch.arange(shape[0]).view(-1, *(1 for _ in shape[1:]))
    angles *= steps[row % len(steps)]
    return angles[..., :: columns // shape[-1]]


def _lay_out(shape: list[int], case: Case, name: str, generator: torch.Generator) -> Tensor:
    """Random numbers; memory around and between them must stay unchanged."""
    if case.layout == "batch and positions swapped in memory":
        memory = torch.randn(shape[1], shape[0], *shape[2:], generator=generator).to(case.dtype)
        return memory.transpose(0, 1)
    if case.layout in ("a slice of wider rows", f"only {name} is a slice of wider rows"):
        memory = torch.randn(*shape[:-1], shape[-1] + 5, generator=generator).to(case.dtype)
        return memory[..., 2:-3]
    if case.layout == "every other element":
        memory = torch.randn(*shape[:-1], 2 * shape[-1], generator=generator).to(case.dtype)
        return memory[..., ::2]
    if case.layout == ZEROS_AND_SMALL and len(shape) > 1 and not name.startswith("grad"):
        small = 1e-3 * torch.randn(shape, generator=generator)
        small.view(-1, shape[-1])[0] = 0
        return small.to(case.dtype)
    if case.layout == LARGE and len(shape) > 1:
        large = 1000 * torch.randn(shape, generator=generator)
        large[0] -= 20_000  # all elements of this row are far below zero
        return large.to(case.dtype)
    # such elements overflow in fp16, so a kernel that converts to it is wrong
    scale = 2**20 if case.dtype == torch.bfloat16 else 1
    return (scale * torch.randn(shape, generator=generator)).to(case.dtype)


def laid_out_alike(tensor: Tensor, to: str | torch.dtype) -> Tensor:
    """On another device, or in another dtype, with the same strides and memory around it."""
    whole = memory_of(tensor).to(to)
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def memory_of(x: Tensor) -> Tensor:
    """All of a tensor's storage, from its beginning to its end."""
    return torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())
