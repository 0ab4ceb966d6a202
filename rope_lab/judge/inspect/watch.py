"""Watch interpreted launches of any kernels: what each loads and stores, line by line.

A `Trace` shows which program stored what, and which programs race. This one also counts each
launch separately, because the time model is about launches.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from ...interpreter.functions import EVALUATED
from ...run import tensors_in
from ..hooks import Access, Part
from ..trace import Trace
from .limits import SECTOR

# Bytes that the programs of a launch load from a tensor and store in it: in total, and each byte
# counted once; and the bytes of the whole sectors, counted for each load or store.
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

    functions = (*EVALUATED, "precise_sqrt")

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[Counts] = []
        self.added: dict[str, bool] = {}  # tensors of atomics; are there sums of floats?
        self._names: dict[int, str] = {}  # of the arguments of this launch, by their memory

    def at_launch(self, kernel, named) -> None:
        super().at_launch(kernel, named)
        self.counts.append(Counts(kernel.__name__))
        self._names = {x.untyped_storage().data_ptr(): name for name, x in tensors_in(named)}

    def at_program(self) -> None:
        super().at_program()
        self.counts[-1].programs += 1

    def at_part(self, access: Access, part: Part) -> None:
        memory, at, size = part.memory, part.at, part.size
        kind = "loaded" if access.does == "loads" else "stored"
        # for each byte, the last program that did the same
        by = {"loads": memory.reader, "stores": memory.writer, "updates": memory.adder}[access.does]
        name = self._names.get(memory.begin, memory.name)
        counts = self.counts[-1].tensors[name]
        counts[kind] += at.size * size
        counts[f"{kind}_once"] += int((by[np.unique(at)] < self._first_of_launch).sum()) * size
        counts["sectors"] += SECTOR * np.unique(at // SECTOR).size
        if access.does == "updates":
            self.counts[-1].adds = True
            self.added[name] = memory.tensor.is_floating_point()
        super().at_part(access, part)

    def at_function(self, name: str, block: np.ndarray) -> None:
        super().at_function(name, block)
        self.counts[-1].functions[name.removeprefix("precise_")] += block.size

    def at_dot(self, flops: int, takes_tf32: bool) -> None:
        super().at_dot(flops, takes_tf32)
        self.counts[-1].flops += flops
