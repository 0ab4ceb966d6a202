"""A simulated GPU to practice timing on: two clocks, a queue, a cache, a compiler.

It has the names of `torch.cuda` that a timer needs, so a timer that is right here also runs on a
real GPU. It follows only the rules that notebook 08 explains. So a timer can be compared with the
true time, on any machine.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from ..judge.verdict import NOT_YET, RIGHT, WRONG, Verdict, raised

CYCLES_A_US = 2000  # of `_sleep`


@dataclass
class PretendGPU:
    """All times are in microseconds. The host's calls advance its clock; the device runs later."""

    host_us: float = 4.0  # what the host needs to queue a call
    start_us: float = 3.0  # of every call on the device
    bytes_a_us: float = 4.2e6
    cache_bytes: float = 60e6
    compile_us: float = 150_000.0
    pace: Callable[[int], float] = lambda call: 1.0  # a call's number -> its slowdown
    asked: bool = field(default=False, init=False)  # for the time between two events
    slept_us: float | None = field(default=None, init=False)  # the last sleep
    _now: float = field(default=0.0, init=False)
    _free: float = field(default=0.0, init=False)  # when the device has finished the queue
    _waited_until: float = field(default=-1.0, init=False)
    _in_cache: object = field(default=None, init=False)
    _calls: int = field(default=0, init=False)
    _queued: list[str] = field(default_factory=list, init=False)  # calls and waits, in order

    # the names of torch.cuda

    def Event(self, enable_timing: bool = False) -> "PretendEvent":
        """A mark for the queue."""
        return PretendEvent(self, enable_timing)

    def synchronize(self) -> None:
        """Let the host wait until the device is done with everything."""
        self._now = max(self._now, self._free)
        self._waited_until = self._now
        self._queued.append("wait")

    def _sleep(self, cycles: float) -> None:
        """Queue a kernel that keeps the device busy for this many cycles."""
        self.slept_us = cycles / CYCLES_A_US
        self._queue(self.slept_us, "sleep")

    # what only the check needs

    def kernel(self, moved_bytes: float, compiled: bool = False) -> Callable[[], None]:
        """A function that queues a kernel; the first call compiles it unless it is compiled."""

        def call() -> None:
            nonlocal compiled
            self._now += 0.0 if compiled else self.compile_us
            compiled = True
            speed = self.bytes_a_us * (3 if self._in_cache is call else 1)
            self._queue(self.pace(self._calls) * (self.start_us + moved_bytes / speed))
            self._calls += 1
            self._in_cache = call if moved_bytes <= self.cache_bytes else None

        return call

    def truth(self, moved_bytes: float) -> float:
        """The time of a call on the device, with an empty cache."""
        return self.start_us + moved_bytes / self.bytes_a_us

    def empty_the_cache(self) -> None:
        """Queue a kernel that fills the cache with something else."""
        self._queue(_FLUSH_US, "flush")
        self._in_cache = None

    def place(self) -> tuple[float, int]:
        """When the device passes what is queued next, and how much is queued before it."""
        self._now += 0.5
        self._free = max(self._free, self._now)
        return self._free, len(self._queued)

    def between(self, earlier: tuple[float, int], later: tuple[float, int]) -> float:
        """Microseconds between two places in the queue, by the device's clock.

        Raises:
            RuntimeError: the host has not waited until the device passed the later one, they are
                swapped, or a flush, a sleep or a wait of the host is between them.
        """
        self.asked = True
        if self._waited_until < max(earlier[0], later[0]):
            raise RuntimeError("the device has not passed both events yet: synchronize first")
        if later[1] < earlier[1]:
            raise RuntimeError("the events are swapped: write begin.elapsed_time(end)")
        queued = self._queued[earlier[1] : later[1]]
        for other in ("sleep", "flush"):
            if other in queued:
                raise RuntimeError(f"the {other} is between the two events, so you time it as well")
        if "wait" in queued:
            raise RuntimeError(
                "the host waits between the two events: synchronize after end.record()"
            )
        return later[0] - earlier[0]

    def _queue(self, us: float, what: str = "call") -> None:
        self._queued.append(what)
        self._now += self.host_us
        self._free = max(self._free, self._now) + us


class PretendEvent:
    """The part of `torch.cuda.Event` that a timer needs."""

    def __init__(self, gpu: PretendGPU, enable_timing: bool) -> None:
        self._gpu, self._has_a_time = gpu, enable_timing

    def record(self) -> None:
        """Queue it: the device notes the time when it gets there."""
        self._place = self._gpu.place()

    def synchronize(self) -> None:
        self._gpu.synchronize()

    def elapsed_time(self, end: "PretendEvent") -> float:
        """Milliseconds between two events, as in torch.

        Raises:
            RuntimeError: as in `PretendGPU.between`, or an event records no time.
        """
        if not (self._has_a_time and end._has_a_time):
            raise RuntimeError("these events record no time: write cuda.Event(enable_timing=True)")
        return self._gpu.between(self._place, end._place) / 1e3


@dataclass(frozen=True)
class PretendMemory:
    """256 MiB on a GPU, more than its cache holds."""

    gpu: PretendGPU

    def sum(self) -> None:
        """Read all of it."""
        self.gpu.empty_the_cache()

    def zero_(self) -> None:
        """Write all of it.

        Raises:
            RuntimeError: always; a real GPU would show a time that is too long.
        """
        raise RuntimeError(
            "what flush.zero_() writes goes to HBM while your call runs: write flush.sum()"
        )


_FLUSH_US = 60.0  # what a flush takes on the device: too short to hide a slow host
_BETWEEN_EVENTS = "what does the device wait for between the two events?"
_DISTURBED = "every third call is slow: what if you sample just that one?"
_QUICK = "every fifth call is fast, and the smallest sample is one of these: take the median"


def _slow_third(first: int) -> Callable[[int], float]:
    """One call in three takes five times as long."""
    return lambda call: 1.0 if (call - first) % 3 else 5.0


# the hint, the GPU, bytes of the kernel, is it compiled already
_CASES = (
    ("what waits for the device?", PretendGPU(), 800e6, True),
    ("what does a first call do?", PretendGPU(), 800e6, False),
    ("where do the bytes come from, the second time?", PretendGPU(host_us=0.1), 20e6, True),
    # the host is slower than a flush, so only a sleep keeps the device busy until all is queued
    (_BETWEEN_EVENTS, PretendGPU(host_us=3 * _FLUSH_US), 400e6, True),
    (_BETWEEN_EVENTS, PretendGPU(host_us=3 * _FLUSH_US), 2e6, True),
    # three GPUs, so that a single sample meets a slow call on one of them, whichever it takes
    *((_DISTURBED, PretendGPU(pace=_slow_third(k)), 400e6, True) for k in range(3)),
    (_QUICK, PretendGPU(pace=lambda call: 1.0 if call % 5 else 0.5), 400e6, True),
)


def _looks_like(ratio: float, hint: str, gpu: PretendGPU) -> str:
    """The mistake that explains a time with this ratio to the true one; '' if none does."""
    if not gpu.asked:
        return "another clock: a GPU's time is between its events, begin.elapsed_time(end)"
    for times, unit in ((1e-3, "milliseconds"), (1e3, "nanoseconds")):
        if 0.5 < ratio / times < 2:
            return f"{unit}, not microseconds"
    if hint == _DISTURBED:  # a single slow call takes five times as long
        has_a_mean = 1 < ratio < 4.9
        return "a mean: a slow call in three moves it, but not the median" if has_a_mean else ""
    if gpu.slept_us is not None and gpu.slept_us < gpu.host_us and ratio > 1:
        slept = f"a sleep of {gpu.slept_us:.3g} us, which is over before the call is queued"
        return f"{slept}: {CYCLES_A_US} cycles are one us"
    if 1.5 < ratio < _MOST_CALLS and abs(ratio - round(ratio)) < 0.01:
        calls = round(ratio)
        return f"the time of {calls} calls: divide by {calls}, or take one of them"
    return ""


_MOST_CALLS = 100


def check_timer(timer: Callable[[Callable[[], None], PretendGPU, PretendMemory], float]) -> Verdict:
    """Try a timer on several simulated GPUs: does it find the device time of a call?

    Args:
        timer: gets a function that queues a kernel, a `PretendGPU` instead of `torch.cuda`,
            and a `PretendMemory` to flush the cache with; returns the device time of that call,
            in microseconds, with an empty cache.
    """
    for number, (hint, model, moved_bytes, compiled) in enumerate(_CASES, 1):
        gpu = replace(model)  # a fresh one: its clocks start at zero
        wrong = partial(Verdict, state=WRONG, place=f"GPU {number} of {len(_CASES)}", boxed=True)
        try:
            us = timer(gpu.kernel(moved_bytes, compiled), gpu, PretendMemory(gpu))
            us = us.item() if hasattr(us, "item") else us  # of torch or NumPy
        except NotImplementedError as error:
            return Verdict(state=NOT_YET, reason=str(error), boxed=True)
        except RuntimeError as error:  # an event that was read too early, or encloses too much
            return wrong(reason=str(error))
        except Exception as error:  # whatever a reader's function may raise
            return wrong(reason=f"it {raised(error)}")
        if not isinstance(us, int | float):
            came = (
                f"a {type(us).__name__} of {len(us)}" if isinstance(us, list | tuple) else repr(us)
            )
            return wrong(reason=f"it returned {came}: return one number, in microseconds")
        truth = gpu.truth(moved_bytes)
        if not abs(us - truth) <= 0.05 * truth:
            reason = f"your timer says {us:.1f} us, the device needs {truth:.1f}"
            looks_like = _looks_like(us / truth, hint, gpu)
            return wrong(reason=reason, looks_like=looks_like, hint="" if looks_like else hint)
    reason = f"{len(_CASES)} GPUs, and every time within 5 %"
    return Verdict(state=RIGHT, reason=reason, boxed=True)
