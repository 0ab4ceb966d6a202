"""What `triton` and `tl` are in a mistaken solution: PyTorch, in fp64.

The judge computes the results of dozens of mistakes to find the reader's. So all programs of a
launch run at once, with `torch.vmap`; a kernel that branches runs its programs one by one. A load
outside its tensor returns NaN, as it does for a lane that is masked off, and a store there does
nothing. The judge runs a reader's kernel in the same way to find the cause of a wrong address. If
two stores write one element, the later program wins, and within a program the later store.
"""

import dis
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import torch
from torch import Tensor

from rope_kernels.norms.arguments import SumTensors

from .spec import memory_of

_OPTIONS_OF_A_LAUNCH = ("num_warps", "num_stages")


@dataclass(frozen=True)
class Pointer:
    """Addresses in the memory of a tensor."""

    memory: Tensor  # all of it, in one dimension
    place: Tensor

    def __add__(self, elements: object) -> "Pointer":
        return Pointer(self.memory, self.place + elements)

    __radd__ = __add__

    def __sub__(self, elements: object) -> "Pointer":
        return Pointer(self.memory, self.place - elements)


def _pointer(tensor: Tensor) -> Pointer:
    return Pointer(memory_of(tensor), torch.tensor(tensor.storage_offset()))


@dataclass
class Program:
    """The running program, or all programs of a launch."""

    grid: tuple[int, ...]
    number: Tensor
    stored: list[tuple[Pointer, Tensor]]  # in this order; the place -1 means none


_running: list[Program] = []  # one, while a kernel runs


class Kernel:
    """A `@triton.jit` function, launched as `kernel[grid](...)`."""

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.branches = any(
            instruction.opname.startswith(("POP_JUMP", "FOR_ITER"))
            for instruction in dis.get_instructions(function)
        )

    def __getitem__(self, grid: tuple[int, ...]) -> Callable:
        return partial(self._launch, grid)

    def _launch(self, grid: tuple[int, ...], *given: object, **options: object) -> None:
        arguments = [_pointer(x) if isinstance(x, Tensor) else x for x in given]
        constants = {name: x for name, x in options.items() if name not in _OPTIONS_OF_A_LAUNCH}
        memories: list[Tensor] = []

        def run(number: Tensor) -> list[tuple[Tensor, Tensor]]:
            """Places and values that are stored, as tensors for `vmap`."""
            _running[:] = [Program(grid, number, [])]
            self.function(*arguments, **constants)
            stored = _running.pop().stored
            memories[:] = [pointer.memory for pointer, _ in stored]
            return [(pointer.place, value) for pointer, value in stored]

        numbers = torch.tensor(list(itertools.product(*map(range, grid))))
        if self.branches:
            for number in numbers:
                _write(memories, [(p[None], v[None]) for p, v in run(number)])
        else:
            _write(memories, torch.vmap(run)(numbers))


class SumOfShares:
    """The package's kernel that adds partial sums of a gradient, which notebook 11 launches."""

    def __getitem__(self, grid: tuple[int, ...]) -> Callable:
        return self._launch

    def _launch(self, tensors: SumTensors, *sizes: int, **options: int) -> None:
        shares, out, _ = tensors
        out.copy_(shares.sum(0))


def _write(memories: list[Tensor], stored: list[tuple[Tensor, Tensor]]) -> None:
    """Write what was stored to each memory, in the order of the programs."""
    by_memory: dict[int, tuple[Tensor, list, list]] = {}
    for memory, (place, value) in zip(memories, stored, strict=True):
        _, places, values = by_memory.setdefault(memory.data_ptr(), (memory, [], []))
        places.append(place.reshape(len(place), -1))
        values.append(value.reshape(len(value), -1).to(memory.dtype))
    for memory, places, values in by_memory.values():
        place, value = torch.cat(places, 1).flatten(), torch.cat(values, 1).flatten()
        memory[place[place >= 0]] = value[place >= 0]


def _is_inside(pointer: Pointer) -> Tensor:
    return (pointer.place >= 0) & (pointer.place < len(pointer.memory))


def _load(pointer: Pointer, mask: object = True, other: float = math.nan) -> Tensor:
    place = pointer.place.long().clamp(0, len(pointer.memory) - 1)
    loaded = torch.where(_is_inside(pointer), pointer.memory[place], math.nan)
    return torch.where(torch.as_tensor(mask), loaded, other)


def _store(pointer: Pointer, value: object, mask: object = True) -> None:
    kept = _is_inside(pointer) & torch.as_tensor(mask)
    place, value = torch.broadcast_tensors(
        torch.where(kept, pointer.place.long(), -1), torch.as_tensor(value)
    )
    _running[-1].stored.append((Pointer(pointer.memory, place), value))


def _exp(x: object) -> Tensor:
    """In fp64, but 0 or infinite where fp32 is."""
    power = torch.as_tensor(x, dtype=torch.float64).exp()
    return torch.where(power < 2.0**-150, 0.0, torch.where(power >= 2.0**128, math.inf, power))


norm_kernel = SimpleNamespace(sum_partials_kernel=SumOfShares())
triton = SimpleNamespace(
    jit=Kernel,
    cdiv=lambda numerator, denominator: -(-numerator // denominator),
    next_power_of_2=lambda number: 1 << (number - 1).bit_length(),
)
tl = SimpleNamespace(
    constexpr=int,
    float16=torch.float16,
    float32=torch.float64,  # so that nothing is rounded
    int32=torch.int32,
    int64=torch.int64,
    program_id=lambda axis: _running[-1].number[axis],
    num_programs=lambda axis: _running[-1].grid[axis],
    arange=torch.arange,
    zeros=lambda shape, dtype: torch.zeros(shape, dtype=dtype),
    load=_load,
    store=_store,
    where=torch.where,
    cdiv=triton.cdiv,
    cos=torch.cos,
    sin=torch.sin,
    sqrt=torch.sqrt,
    rsqrt=torch.rsqrt,
    abs=torch.abs,
    exp=_exp,
    log=lambda x: torch.log(torch.as_tensor(x)),
    log2=lambda x: torch.log2(torch.as_tensor(x)),
    maximum=lambda x, y: torch.maximum(torch.as_tensor(x), torch.as_tensor(y)),
    sum=lambda x, axis=None: x.sum() if axis is None else x.sum(axis),
    max=lambda x, axis=None: x.max() if axis is None else x.amax(axis),
)
