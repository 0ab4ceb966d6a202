"""What `lab.inspect` returns: a page of text, and a picture."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch.utils.flop_counter import flop_registry

from ...compiler.compile import SM_OF, Compiled
from ...compiler.instructions import loads_before_first_branch, warp_instructions
from ...compiler.stages import executed
from ...profiling.traffic import Kernel
from ...records import QUIET
from ..climb.targets import number
from ..verdict import NO_EVIDENCE, NOT_YET, RIGHT, WRONG, Evidence, box, labeled, printable
from .limits import CHANGES, SECTOR, Gpu, limit_of, next_launch_us
from .machine_code import by_descriptor, requested_before_needed, waits_twice, why_not_counted

_TWICE = 1.01  # bytes that are loaded more often than this count as loaded again
_SCATTERED = 2  # whole sectors over requested bytes: above this ratio it is slower than its bytes
_MULTIPLY = {op.__name__ for op in flop_registry}  # PyTorch's operators that bytes don't limit
_MUCH = 0.1  # of all requested bytes
_MOST_LINES = 3  # of a kernel: the lines with the most instructions
SECTORS = "sectors of "  # before an argument's name, where these alone are not linear
_DOT_IN_TTIR = re.compile(r"tt\.dot .*inputPrecision = (?!ieee)(\w+) : tensor<[\dx]+xf32>")
UNREAD = "not read here: Triton has no compiler on this system"
UNKNOWN_HELP = "`make record` on such a GPU records it"


@dataclass(frozen=True)
class Inspected:
    """One launch at the large size."""

    kernel: str  # its name
    num_warps: int  # of a program
    compiled: Compiled | None  # its kernel, in all stages; None if Triton has no compiler
    programs: int  # of its grid
    tensors: dict[str, dict[str, float]]  # argument -> bytes, as in `ACCESSES` of watch.py
    functions: dict[str, float]  # evaluations of sine, exponential, ...
    flops: float  # of `tl.dot`
    bent: tuple[str, ...]  # what doesn't grow linearly
    configuration: str  # the one of `@triton.autotune`; '' if there is no choice
    adds: bool  # whether there are atomics

    @property
    def uncounted(self) -> str:
        """Why `instructions` aren't known; '' if they are."""
        return why_not_counted(self.compiled) if self.compiled else UNREAD

    @property
    def instructions(self) -> float | None:
        """Instructions that a warp executes, slow branches left out; None if not known."""
        return None if self.uncounted else warp_instructions(self.compiled)

    @property
    def instructions_by_line(self) -> Counter[str]:
        """A line of the source -> how many instructions it becomes; empty if not known."""
        if self.uncounted:
            return Counter()
        lines = ["", *self.compiled.program.splitlines()]  # counted from 1
        return Counter(lines[operation.line].strip() for operation in executed(self.compiled))

    @property
    def in_flight(self) -> float:
        """Bytes that a program requests before it needs the first; 0 if none, or if not known."""
        if not self.compiled:
            return 0.0
        loaded = sum(one["loaded"] for one in self.tensors.values())
        # lanes may hold the same element
        return min(requested_before_needed(self.compiled), loaded / self.programs)

    @property
    def resident(self) -> int:
        """Programs on an SM at a time; 0 if the GPU's SMs, or the registers, are not known."""
        is_known = self.compiled and self.compiled.gpu in SM_OF
        return self.compiled.programs_at_a_time if is_known else 0

    @property
    def unknown(self) -> str:
        """What the time model ignores, so that its time is a lower bound; '' if nothing."""
        found = []
        spilled = self.compiled.spilled if self.compiled else 0
        if spilled:
            found.append(f"{spilled} bytes a thread are spilled, which moves bytes too")
        if self.scattered:
            each = (f"{name} {used:.3g}" for name, used in self.scattered.items())
            words = f"of the {SECTOR} bytes of a sector each load or store uses few"
            found.append(f"{words}, which costs more than these bytes: {', '.join(each)}")
        if self.bent:
            words = "not linear in the size, so only roughly known"
            found.append(f"{words}: {', '.join(self.bent)}")
        if any(name.startswith(SECTORS) for name in self.bent):
            found[-1] += f"; choose small as a multiple of {SECTOR // 4}, so that sectors are whole"
        if self.uncounted:
            found.append(f"instructions: {self.uncounted}")
        if self.compiled and waits_twice(self.compiled):
            words = "a load waits for another, which has its address or its mask"
            found.append(f"{words}; if indices repeat, fewer bytes are needed")
        if self.adds:
            found.append("how long atomics wait for each other, as for one address, is not known")
        if self.flops:
            found.append("how long tensor cores take is not known")
        return "; ".join(found)

    @property
    def moved(self) -> float:
        """Bytes that must move once."""
        return sum(one["loaded_once"] + one["stored_once"] for one in self.tensors.values())

    @property
    def requested(self) -> float:
        """Bytes that programs load and store."""
        return sum(one["loaded"] + one["stored"] for one in self.tensors.values())

    @property
    def again(self) -> dict[str, float]:
        """Argument -> how many times each of its bytes is loaded, where that is more than once."""
        times = {n: t["loaded"] / (t["loaded_once"] or 1) for n, t in self.tensors.items()}
        return {name: count for name, count in times.items() if count > _TWICE}

    @property
    def scattered(self) -> dict[str, float]:
        """Argument -> bytes of a sector that a load or store uses, if it uses few of them."""
        found = {}
        for name, one in self.tensors.items():
            asked = one["loaded"] + one["stored"]
            if asked and one["sectors"] > max(_SCATTERED * asked, _MUCH * self.requested):
                found[name] = SECTOR * asked / one["sectors"]
        return found

    @property
    def _precision(self) -> str:
        """What `tl.dot` makes of fp32, unless it takes all bits; '' for other dtypes."""
        found = _DOT_IN_TTIR.search(self.compiled.stages["ttir"]) if self.compiled else None
        words = 'input_precision="ieee" takes all bits, and is slower'
        return f"; fp32 is taken as {found[1]}: {words}" if found else ""

    def times(self, gpu: Gpu) -> dict[str, float]:
        """Limit -> microseconds; a limit that isn't known is missing."""
        times = {"memory": gpu.copy_us(self.moved), "starts": self.programs / gpu.starts_a_us}
        if self.instructions is not None:
            lanes = 32 * self.num_warps * self.programs
            times["instructions"] = self.instructions * lanes / gpu.machine.instructions_a_us
        if self.in_flight and self.resident:
            on_an_sm = self.in_flight * min(self.resident, self.programs / gpu.multiprocessors)
            times["latency"] = times["memory"] / max(gpu.share(on_an_sm), 1e-3)
        return times

    def lines(self) -> list[str]:
        """The lines about this launch."""
        compiled = self.compiled
        warps = f"{self.num_warps} warp{'s' * (self.num_warps > 1)}"
        found = [f"{self.kernel}: {number(self.programs)} programs of {warps}"]
        if self.configuration:
            words = "a GPU takes the fastest, which may be another one"
            found.append(f"  configuration {self.configuration}; {words}")
        asked = f"{_bytes(self.requested)} requested, {_bytes(self.moved)} needed"
        if again := [f"{name} {_times(count)} times" for name, count in self.again.items()]:
            asked += f"; loaded again, from a cache at best: {', '.join(again)}"
        found.append(f"  bytes         {asked}")
        if self.functions:
            each = (f"{name} {number(round(count))}" for name, count in self.functions.items())
            found.append(f"  evaluations   {', '.join(each)}")
        if self.flops:
            found.append(f"  tl.dot        {self.flops / 1e9:.3g} GFLOP{self._precision}")
        if not compiled:
            return [*found, f"  machine code  {UNREAD}"]
        widths = {"loads": compiled.loads, "stores": compiled.stores}
        copies = by_descriptor(compiled)
        for name, counts in widths.items():
            each = ", ".join(f"{count} of {width}" for width, count in counts.items())
            every = [f"{each} bytes"] * bool(each)
            every += [f"{copies[name]} by tensor descriptor"] * bool(copies[name])
            found.append(f"  {name:14}{', '.join(every) or 'none'}")
        each = self.uncounted or f"{number(round(self.instructions))} a warp"
        found.append(f"  instructions  {each}")
        if QUIET in os.environ:  # another compiler allocates and orders slightly differently
            return found
        for line, count in self.instructions_by_line.most_common(_MOST_LINES):
            found.append(f"    {number(count):>6} of {line or 'other files'}")
        found.append(
            f"  registers     {compiled.registers} a thread, {compiled.spilled} bytes spilled; "
            f"{self.resident} programs on an SM"
        )
        first, loads = loads_before_first_branch(compiled)
        flight = "how many bytes are requested before the first is needed is not known"
        if self.in_flight or not loads:
            flight = f"{number(round(self.in_flight))} bytes requested before the first is needed, "
            flight += f"{self.resident * self.in_flight / 1024:.3g} KiB on an SM"
        found.append(f"  order         {first} of {loads} loads before the first branch; {flight}")
        return found


@dataclass(frozen=True)
class Inspection:
    """What is known about a function; printed, it is a page of text.

    It is true if the values are right and the kernel is limited by what `wanted` says.
    """

    refused: str = ""  # why no more is known; '' if everything is
    # what is wrong at a small size or with an offset at the large one, or why it doesn't compile
    wrong: str = ""
    owner: str = ""  # the program that stored the first wrong element
    evidence: Evidence = NO_EVIDENCE  # of what is wrong
    sizes: Sequence[int] = ()  # at which it ran
    large: int = 0  # for which it was compiled
    locks: str = ""  # where two programs race if a lock does not order them
    unchecked: str = ""  # why it isn't known whether offsets fit in 32 bits at the large size
    # tensor of atomics -> whether there are sums of floats, of undefined order
    atomics: dict[str, bool] = field(default_factory=dict)
    eager: tuple[Kernel, ...] = ()  # PyTorch's own kernels in addition, such as `zeros`
    launches: tuple[Inspected, ...] = ()  # in order
    wanted: str = ""  # what should limit the kernel; '' if that doesn't matter
    gpu: Gpu | None = None  # for which it was compiled
    measured_us: float | None = None  # on this machine's GPU, if there is one

    @property
    def has_right_values(self) -> bool:
        return bool(self.sizes) and not self.wrong

    @property
    def ok(self) -> bool:
        return self.has_right_values and self.wanted in ("", self.limit)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def is_compiled(self) -> bool:
        """Whether the machine code of all launches is known, i.e. Triton has its compiler."""
        return all(launch.compiled for launch in self.launches)

    @property
    def times(self) -> list[dict[str, float]]:
        """For each launch: limit -> microseconds; empty if the GPU's numbers are unknown."""
        if not (self.gpu and self.gpu.machine):
            return []
        return [launch.times(self.gpu) for launch in self.launches]

    @property
    def takes_longer(self) -> bool:
        """Whether the model ignores some of the time, of a launch or of a PyTorch operator."""
        multiplies = any(kernel.name in _MULTIPLY for kernel in self.eager)
        return multiplies or any(launch.unknown for launch in self.launches)

    @property
    def limit(self) -> str:
        """What limits the launch that takes longest, one of `CHANGES`; '' if unknown."""
        if self.takes_longer:
            return ""
        slowest = max(self.times, key=lambda times: max(times.values()), default=None)
        return limit_of(slowest) if slowest else ""

    @property
    def predicted_us(self) -> float | None:
        """The time of all launches, one after the other; a lower bound if some of it is unknown."""
        if not self.times or any(launch.bent for launch in self.launches):
            return None
        alone = [times[limit_of(times)] for times in self.times]
        alone += [self.gpu.copy_us(k.bytes_read + k.bytes_written) for k in self.eager]
        return self.gpu.machine.start_us + next_launch_us() * (len(alone) - 1) + sum(alone)

    def __repr__(self) -> str:
        return printable(self._text())

    def _text(self) -> str:
        return "\n".join([self._first_line(), *self._rest()])

    def _first_line(self) -> str:
        if self.wrong:
            return f"WRONG {self.wrong}"
        if not self.has_right_values:
            return f"NOT YET: {self.refused}"
        words = f"at the sizes {', '.join(map(str, self.sizes))}"
        if self.locks:
            words += (
                ", one program after the other; whether a lock orders them on a GPU is not known"
            )
        if self.ok:
            return f"RIGHT {words}"
        limit = f"limited by {self.limit}" if self.limit else "what limits it is not known"
        return f"NOT YET: right {words}, but {limit}; wanted: {self.wanted}"

    def _rest(self) -> list[str]:
        found = labeled("stored by", self.owner) + self.evidence.labeled()
        for name, floats in self.atomics.items():
            words = "; the order of float sums is undefined" * floats
            found.append(f"  {name}: atomics{words}")
        if self.locks:
            found.append(f"  without a lock: {self.locks}")
        if self.unchecked:
            words = "whether offsets fit into 32 bits isn't known"
            found.append(f"  at size {number(self.large)} {words}: {self.unchecked}")
        if self.has_right_values and self.refused:
            found.append(f"  no more is known: {self.refused}")
        if self.launches:
            how = "compiled" if self.is_compiled else "launched"
            found.append(f"At size {number(self.large)}, {how} for {self.gpu.arch}")
        for launch in self.launches:
            found += launch.lines()
        if self.eager:
            names = (f"{k.name} {_bytes(k.bytes_read + k.bytes_written)}" for k in self.eager)
            found.append(f"PyTorch's own kernels: {', '.join(names)}")
        return found + self._times()

    def _times(self) -> list[str]:
        """The lines about time."""
        if not self.launches:
            return []
        if not self.times:
            return [f"{self.gpu.arch}: the time is not known; {UNKNOWN_HELP}"]
        start = self.gpu.machine.start_us
        found = [f"Time model of {self.gpu.origin}: {start:.1f} us to launch, plus the longest of"]
        for launch, times in zip(self.launches, self.times, strict=True):
            each = ", ".join(f"{limit} {us:.1f}" for limit, us in times.items())
            limit = "not known" if launch.unknown else limit_of(times)
            found.append(f"  {launch.kernel}: {each} us; limited by: {limit}")
            if launch.unknown:
                found.append(f"    {launch.unknown}")
        least = "at least " * self.takes_longer
        us = "not known" if self.predicted_us is None else f"{least}{self.predicted_us:.1f} us"
        shows = f"; to confirm: {CHANGES[self.limit]}" if self.limit else ""
        if any(launch.scattered for launch in self.launches):
            shows = "; first make neighboring lanes load neighboring elements"
        found.append(f"  predicted {us}{shows}")
        if self.measured_us is not None and QUIET not in os.environ:
            found.append(f"  measured here {self.measured_us:.1f} us")
        return found

    def _repr_html_(self) -> str:
        state = WRONG if self.wrong else RIGHT if self.ok else NOT_YET
        return box(state, self._text())


def _times(count: float) -> str:
    return f"{count:.3g}" if count < 100 else number(round(count))


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.0f} bytes"
