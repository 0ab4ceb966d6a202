"""Watch interpreted launches of any kernels: what each loads and stores, line by line.

A `Trace` says who stored what, and which programs race. This one also counts each launch by
itself, because the time law is about launches.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from triton.runtime.interpreter import InterpreterBuilder

from ..trace import Memory, Trace, tensors_in, wrap
from .limits import SECTOR

FUNCTIONS = (
    *("sin", "cos", "tanh", "exp", "exp2", "log", "log2"),
    *("sqrt", "precise_sqrt", "rsqrt", "erf"),
)


@dataclass
class Access:
    """What the programs of a launch load from a tensor and store in it, in bytes."""

    loaded: int = 0  # a byte counts each time
    loaded_once: int = 0  # a byte counts once
    stored: int = 0
    stored_once: int = 0
    sectors: int = 0  # whole sectors that one load or store at a time touches


@dataclass
class Counts:
    """What one launch did."""

    kernel: str  # its name
    programs: int = 0  # how many ran
    tensors: dict[str, Access] = field(default_factory=dict)  # by the argument's name
    functions: Counter = field(default_factory=Counter)  # evaluations of sine, ..., by element
    flops: int = 0  # of `tl.dot`

    def shipped(self) -> dict:
        """What JSON can write."""
        return {
            **vars(self),
            "tensors": {name: vars(access) for name, access in self.tensors.items()},
        }


class Watch(Trace):
    """A `Trace` with the counts of every launch."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[Counts] = []
        self.added: dict[str, bool] = {}  # tensors of atomics; are there sums of floats?
        self._names: dict[int, str] = {}  # of the arguments of this launch, by their memory
        self._seen: dict[tuple[int, str], np.ndarray] = {}  # bytes of this launch, by memory

    def __enter__(self) -> "Watch":
        super().__enter__()
        self._undo.append(wrap(InterpreterBuilder, "create_dot", self._at_dot))
        for name in (name for name in FUNCTIONS if hasattr(InterpreterBuilder, f"create_{name}")):
            around = self._counting(name)
            self._undo.append(wrap(InterpreterBuilder, f"create_{name}", around))
        return self

    def __exit__(self, *_) -> None:
        for undo in reversed(self._undo):  # two of its wraps are around the same function
            undo()

    def _at_launch(self, original: Callable, executor, args, kwargs):
        self.counts.append(Counts(executor.fn.__name__))
        self._seen.clear()
        named = dict(zip(executor.arg_names, args, strict=False)) | kwargs
        self._names = {x.untyped_storage().data_ptr(): name for name, x in tensors_in(named)}
        return super()._at_launch(original, executor, args, kwargs)

    def _at_program(self, original: Callable, builder, x, y, z):
        self.counts[-1].programs += 1
        return super()._at_program(original, builder, x, y, z)

    def _count_load(self, memory: Memory, at: np.ndarray, size: int) -> None:
        super()._count_load(memory, at, size)
        access = self._access(memory)
        access.loaded += at.size * size
        access.loaded_once += self._new_bytes(memory, "loaded", at, size)
        access.sectors += SECTOR * np.unique(at // SECTOR).size

    def _count_store(self, memory: Memory, at: np.ndarray, size: int) -> None:
        super()._count_store(memory, at, size)
        access = self._access(memory)
        access.stored += at.size * size
        access.stored_once += self._new_bytes(memory, "stored", at, size)
        access.sectors += SECTOR * np.unique(at // SECTOR).size

    def _count_atomic(self, memory: Memory, at: np.ndarray, size: int, sums_floats: bool) -> None:
        self._count_store(memory, at, size)
        name = self._name(memory)
        self.added[name] = self.added.get(name, False) or sums_floats

    def _access(self, memory: Memory) -> Access:
        return self.counts[-1].tensors.setdefault(self._name(memory), Access())

    def _new_bytes(self, memory: Memory, kind: str, at: np.ndarray, size: int) -> int:
        """How many of these bytes the launch has not loaded, or stored, before."""
        key = memory.begin, kind
        if key not in self._seen:
            self._seen[key] = np.zeros(memory.end - memory.begin, dtype=bool)
        seen, places = self._seen[key], np.unique(at)
        new = int((~seen[places]).sum())
        for byte in range(size):
            seen[places + byte] = True
        return new * size

    def _name(self, memory: Memory) -> str:
        return self._names.get(memory.begin, memory.name)

    def _counting(self, name: str) -> Callable:
        def around(original: Callable, builder, x):
            self.counts[-1].functions[name.removeprefix("precise_")] += x.data.size
            return original(builder, x)

        return around

    def _at_dot(self, original: Callable, builder, a, b, *rest):
        self.counts[-1].flops += 2 * a.data.size * b.data.shape[-1]
        return original(builder, a, b, *rest)
