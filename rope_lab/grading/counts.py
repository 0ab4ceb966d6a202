"""Does a candidate with right results do what the exercise asks, and no more work than it takes?

While it ran, its `Trace` counted bytes, sin/cos evaluations, stores and programs. What the
exercise doesn't forbid is a remark in the verdict.
"""

from typing import TYPE_CHECKING

from torch import Tensor

from .spec import Spec

if TYPE_CHECKING:  # it imports Triton, which a reader may not have
    from .trace import Trace

_MOVES = ("cat", "copy_", "flip", "index", "index_select", "repeat", "roll")
# What PyTorch may do beside a kernel, but it is said: its own name -> what a reader writes.
COPIES = {"clone": "clone or contiguous", "_to_copy": "to or float"} | {x: x for x in _MOVES}


def more_than_half_the_table(trace: "Trace", t: Tensor, freqs: Tensor) -> str:
    """Each row of t loads the first half of a row of angles, and evaluates each angle once.

    What does more, as a sentence that has the count; empty if nothing does.
    """
    pairs, begin = t.numel() // 2, freqs.untyped_storage().data_ptr()
    asked = pairs * freqs.element_size()
    memory = next((memory for memory in trace.memories if memory.begin == begin), None)
    if memory and memory.moved["loaded"] > asked:
        words = f"where {asked} are asked for: half a row of the table for each row of t"
        return f"it loads {memory.moved['loaded']} bytes of {memory.name}, {words}"
    sines, cosines = trace.evaluations["sin"], trace.evaluations["cos"]
    if max(sines, cosines) > pairs:
        words = f"where {pairs} of each are asked for: one of each per pair"
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
    return ""
