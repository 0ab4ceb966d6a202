"""The compile matrix: what a sample of calls becomes on each of several GPUs, and what is worse.

`tools/compile_matrix.py` writes it down; `tests/kernels/test_compile_matrix.py` compares.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache

from rope_kernels.launch.plan import Plan, RopeTensors

from .compile import Compiled, compile_plan
from .matrix_calls import SampleCall, sample_calls
from .norm_plans import FORWARD, NORMALIZED, NormTensors, plans_of_norm
from .plans import plan_for
from .targets import target_of

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_103", "sm_120", "gfx942", "gfx950", "gfx1100", "gfx1200")


@dataclass(frozen=True)
class Row:
    """One call compiled for one GPU. Counts are those of instructions in the text."""

    call: str  # its name in `sample_calls`
    target: str
    kernel: str
    loads: dict[int, int]  # from global memory: bytes a thread -> number of instructions
    stores: dict[int, int]  # to global memory
    registers: int  # a thread; on AMD, vector registers
    spilled: int  # bytes a thread
    shared: int  # bytes a program

    def as_json(self) -> dict:
        """The same with text for the widths, which JSON wants."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: dict) -> "Row":
        """What `as_json` has returned, after JSON has made text of the widths."""
        widths = {
            name: {int(width): count for width, count in row[name].items()}
            for name in ("loads", "stores")
        }
        return cls(**(row | widths))


@cache
def calls() -> dict[str, SampleCall]:
    """The sample, made once."""
    return sample_calls()


def planned(call: str, target: str) -> tuple[Plan, RopeTensors | NormTensors]:
    """The launch of the sample's call that is compiled, and the kernel's tensors.

    Raises:
        KeyError: no such call.
    """
    sample, engine = calls()[call], target_of(target).engine
    if sample.function in NORMALIZED:
        plans = plans_of_norm(engine, sample.function, *sample.arguments, **sample.options)
        return plans[sample.launch]
    if sample.launch != FORWARD:
        raise KeyError(f"{call} has no launch {sample.launch!r}")
    return plan_for(engine, sample.function, *sample.arguments, **sample.options)


@cache
def compiled(call: str, target: str) -> Compiled:
    """A call of the sample, compiled for a GPU, once a process.

    Raises:
        KeyError: no such call.
        RuntimeError: it does not compile.
    """
    return compile_plan(target, *planned(call, target))


def row_of(call: str, target: str) -> Row:
    """The row of a call and a GPU, as the compiler makes it now; raises as `compiled`."""
    code = compiled(call, target)
    needs = {name: getattr(code, name) for name in ("registers", "spilled", "shared")}
    return Row(call, target, code.kernel, code.loads, code.stores, **needs)


def cells() -> Iterator[tuple[str, str]]:
    """Every call with every GPU, call by call for one GPU after another."""
    for target in TARGETS:
        for call in calls():
            yield call, target


def what_is_worse(now: Row, before: Row) -> list[str]:
    """Sentences on narrower accesses, more spills and more shared memory; [] if there are none."""
    worse = []
    if now.kernel != before.kernel:
        worse.append(f"the kernel is {now.kernel}, not {before.kernel}")
    for name in ("loads", "stores"):
        ours, theirs = getattr(now, name), getattr(before, name)
        if _is_narrower(ours, theirs):
            worse.append(f"{name} are narrower or more: {ours}, not {theirs}")
    if now.spilled > before.spilled:
        worse.append(f"a thread spills {now.spilled} bytes, not {before.spilled}")
    if now.shared > before.shared:
        worse.append(f"a program takes {now.shared} bytes of shared memory, not {before.shared}")
    return worse


def _is_narrower(ours: dict[int, int], theirs: dict[int, int]) -> bool:
    """Whether more accesses than before have at most some width."""
    return any(
        sum(n for width, n in ours.items() if width <= most)
        > sum(n for width, n in theirs.items() if width <= most)
        for most in ours
    )
