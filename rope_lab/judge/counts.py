"""Does a candidate with right results do what the exercise asks, without unnecessary work?

While it ran, its `Trace` counted bytes, sin/cos evaluations, stores and programs. What the
exercise doesn't forbid is a remark in the verdict.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor
from torch.utils._pytree import tree_leaves

from ..profiling.traffic import Traffic
from .spec import Spec

if TYPE_CHECKING:  # it imports Triton, which a reader may not have
    from .trace import Event, Trace

_MOVES = ("cat", "copy_", "flip", "index", "index_select", "repeat", "roll")
# PyTorch's copies: its name -> what a reader writes.
COPIES = {"clone": "clone or contiguous", "_to_copy": "to or float"} | {x: x for x in _MOVES}


@dataclass(frozen=True)
class Counted:
    """What a kernel did in one case.

    Attributes:
        elements, element_bytes: of its first input.
        loaded: bytes of each tensor, by its name in the specification.
        stored: bytes.
        evaluations: of sin and cos, element by element.
        events: of the first program.
    """

    elements: int
    element_bytes: int
    loaded: dict[str, int]
    stored: int
    evaluations: int
    events: "list[Event]"


class BesideKernels(Traffic):
    """What PyTorch does in addition to a kernel.

    Attributes:
        computed: tensors that operations computed from tensors, with the name of the first
            operation, and copies of them. An assertion makes some too. Whether a result uses them
            isn't known here.
    """

    def __init__(self, copies: bool = False) -> None:
        """`copies`: whether PyTorch may copy."""
        super().__init__()
        self.copies = copies
        self.computed: list[tuple[str, Tensor]] = []  # kept alive: an address is not used twice

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        count = len(self.kernels)
        before = next(filter(None, map(self.maker_of, tree_leaves((args, kwargs)))), "")
        out = self.counted(func, args, kwargs)
        if len(self.kernels) > count and self.kernels[-1].bytes_read:
            name = self.kernels[-1].name
            name = before or ("" if self.copies and name in COPIES else name)
            made = (x for x in tree_leaves(out) if isinstance(x, Tensor))
            self.computed += [(name, x) for x in made if name]
        return out

    def maker_of(self, x: object) -> str:
        """The operation that computed what is in a tensor's memory; '' if none did."""
        begin = x.untyped_storage().data_ptr() if isinstance(x, Tensor) else 0
        made = (name for name, y in self.computed if y.untyped_storage().data_ptr() == begin)
        return next(made, "") if begin else ""


def more_than_half_the_table(trace: "Trace", t: Tensor, freqs: Tensor) -> str:
    """Whether a row of t loads more than half a row of angles, or evaluates an angle twice.

    The answer is a sentence with the count; empty if neither is true.
    """
    pairs, begin = t.numel() // 2, freqs.untyped_storage().data_ptr()
    asked = pairs * freqs.element_size()
    memory = next((memory for memory in trace.memories if memory.begin == begin), None)
    if memory and memory.moved["loaded"] > asked:
        words = f"expected {asked}: half a row of the table for each row of t"
        return f"it loads {memory.moved['loaded']} bytes of {memory.name}, {words}"
    sines, cosines = trace.evaluations["sin"], trace.evaluations["cos"]
    if max(sines, cosines) > pairs:
        words = f"expected {pairs} of each: one of each per pair"
        return f"it evaluates {sines} sines and {cosines} cosines, {words}"
    return ""


def wasted(trace: "Trace", wanted: Spec) -> str:
    """What a right candidate does that it need not do; empty if nothing."""
    if trace.stored_twice:
        return f"{trace.stored_twice[0]}, the same value each time"
    if wanted.kernel and wanted.launches is None and trace.launches > 1:
        return f"it launches {trace.launches} kernels, where 1 would do"
    if wanted.blocks and trace.stores:  # each program should have one block
        programs, busy, most = len(trace.programs), len(trace.stores), max(trace.stores.values())
        if busy < programs:
            return f"it starts {programs} programs, where {busy} would do: the others store nothing"
        if most > 1:
            words = f"one after the other, where {most} could share them"
            return f"one program stores {most} blocks, {words}"
        if programs > 1 and _elements_stored(trace) == programs:
            return f"it starts {programs} programs, one for each element: let each take a block"
    return ""


def _elements_stored(trace: "Trace") -> int:
    return sum(memory.moved["stored"] // memory.tensor.element_size() for memory in trace.memories)
