"""Does a candidate with right results do what the exercise asks, and no more work than it takes?

While it ran, its `Trace` counted bytes, sin/cos evaluations, stores and programs. What the
exercise doesn't forbid is a remark in the verdict.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .spec import Spec

if TYPE_CHECKING:  # it imports Triton, which a reader may not have
    from .trace import Memory, Trace


@dataclass
class Run:
    """What a candidate got, and what was counted while it ran."""

    inputs: dict[str, object]  # name -> what it got
    trace: "Trace | None"  # None where nothing is interpreted

    def memory_of(self, name: str) -> "Memory | None":
        begin = self.inputs[name].untyped_storage().data_ptr()
        return next((memory for memory in self.trace.memories if memory.begin == begin), None)


def more_than_half_the_table(run: Run) -> str:
    """Each row of t loads the first half of a row of angles, and evaluates each angle once.

    What does more, as a sentence that has the count; empty if nothing does.
    """
    if run.trace is None:
        return ""
    pairs, memory = run.inputs["t"].numel() // 2, run.memory_of("freqs")
    asked = pairs * run.inputs["freqs"].element_size()
    if memory and memory.loaded > asked:
        words = f"where {asked} are asked for: half a row of the table for each row of t"
        return f"it loads {memory.loaded} bytes of {memory.name}, {words}"
    sines, cosines = run.trace.evaluations["sin"], run.trace.evaluations["cos"]
    if max(sines, cosines) > pairs:
        words = f"where {pairs} of each are asked for: one of each per pair"
        return f"it evaluates {sines} sines and {cosines} cosines, {words}"
    return ""


def wasted(run: Run, wanted: Spec, result_size: int) -> str:
    """What a right candidate does that it need not do; empty if nothing."""
    return next(_wasted(run, wanted, result_size), "")


def _wasted(run: Run, wanted: Spec, result_size: int) -> Iterator[str]:
    trace = run.trace
    if trace is None or not trace.launches:
        return
    if stored := [words for words in trace.twice if "stores" in words]:
        yield f"{stored[0]}, the same value each time"
    if not wanted.kernel:  # who knows what it takes
        return
    if wanted.launches is None and trace.launches > 1:
        yield f"it launches {trace.launches} kernels, where 1 would do"
    yield from _too_many_bytes(run, wanted, result_size)
    if wanted.blocks and not trace.atomics:  # what those store is not counted
        yield from _too_many_programs(trace)


def _too_many_bytes(run: Run, wanted: Spec, result_size: int) -> Iterator[str]:
    """Of the tensors that are as large as the result."""
    for argument in wanted.arguments if wanted.loads else ():
        name, x = argument.name, run.inputs[argument.name]
        if argument.holds != "floats" or x.numel() != result_size:
            continue
        memory, needed = run.memory_of(name), wanted.loads * x.numel() * x.element_size()
        if memory and memory.loaded > needed:
            share = memory.loaded / needed
            times = "twice" if share == 2 else f"{share:.3g} times"
            yield f"it loads {times} the bytes of {name}: {memory.loaded} against {needed}"


def _too_many_programs(trace: "Trace") -> Iterator[str]:
    """Or one that does the work of many; where each of them should have one block."""
    programs, busy, most = len(trace.programs), len(trace.stores), max(trace.stores.values())
    if busy < programs:
        yield f"it starts {programs} programs, where {busy} would do: the others store nothing"
    if most > 1:
        words = f"one after the other, where {most} could share them"
        yield f"one program stores {most} blocks, {words}"
