"""Watch interpreted launches of any kernels: what each loads and stores, line by line.

A `Trace` says who stored what, and which programs race. This one also counts each launch by
itself, because the time law is about launches.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from triton.runtime.interpreter import InterpreterBuilder

from ..trace import Memory, Trace, tensors_in, wrap
from .limits import SECTOR

# Bytes that the programs of a launch load from a tensor and store in it: each time, or once; and
# those of the whole sectors that one load or store at a time touches.
ACCESSES = ("loaded", "loaded_once", "stored", "stored_once", "sectors")


@dataclass
class Counts:
    """What one launch did."""

    kernel: str  # its name
    programs: int = 0  # how many ran
    # argument -> its `ACCESSES`
    tensors: dict[str, Counter] = field(default_factory=lambda: defaultdict(Counter))
    functions: Counter = field(default_factory=Counter)  # evaluations of sine, ..., by element
    flops: int = 0  # of `tl.dot`
    adds: bool = False  # whether there are atomics


class Watch(Trace):
    """A `Trace` with the counts of every launch."""

    functions = (
        "sin",
        "cos",
        "tanh",
        "exp",
        "exp2",
        "log",
        "log2",
        "sqrt",
        "precise_sqrt",
        "rsqrt",
        "erf",
    )

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[Counts] = []
        self.added: dict[str, bool] = {}  # tensors of atomics; are there sums of floats?
        self._names: dict[int, str] = {}  # of the arguments of this launch, by their memory

    def __enter__(self) -> "Watch":
        super().__enter__()
        self._undo.append(wrap(InterpreterBuilder, "create_dot", self._at_dot))
        return self

    def _at_launch(self, original: Callable, executor, *args, **kwargs):
        self.counts.append(Counts(executor.fn.__name__))
        named = dict(zip(executor.arg_names, args, strict=False)) | kwargs
        self._names = {x.untyped_storage().data_ptr(): name for name, x in tensors_in(named)}
        return super()._at_launch(original, executor, *args, **kwargs)

    def _at_program(self, original: Callable, builder, x, y, z):
        self.counts[-1].programs += 1
        return super()._at_program(original, builder, x, y, z)

    def _count(self, kind: str, memory: Memory, at: np.ndarray, size: int, by: np.ndarray) -> None:
        super()._count(kind, memory, at, size, by)
        name = self._names.get(memory.begin, memory.name)
        counts = self.counts[-1].tensors[name]
        counts[kind] += at.size * size
        counts[f"{kind}_once"] += int((by[np.unique(at)] < self._first_of_launch).sum()) * size
        counts["sectors"] += SECTOR * np.unique(at // SECTOR).size
        if by is memory.adder:
            self.counts[-1].adds = True
            self.added[name] = memory.tensor.is_floating_point()

    def _at_function(self, name: str, original: Callable, builder, x):
        self.counts[-1].functions[name.removeprefix("precise_")] += x.data.size
        return super()._at_function(name, original, builder, x)

    def _at_dot(self, original: Callable, builder, a, b, *rest):
        self.counts[-1].flops += 2 * a.data.size * b.data.shape[-1]
        return original(builder, a, b, *rest)
