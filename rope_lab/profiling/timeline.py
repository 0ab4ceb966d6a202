"""One call under torch.profiler, as plain numbers: what the host and the device did, and when."""

import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# what the host calls to hand work to the device
_LAUNCH = re.compile(r"^(?:cuda|cu)(?:Launch\w*|Memcpy\w*|Memset\w*)")


def profile_call(call: Callable[[], object]) -> dict[str, list]:
    """Profile one call, after some that do not count.

    Returns:
        "operators", "launches" and "kernels": each a list of [name, start, duration], times in
        microseconds from the first of all; the first two on the host, kernels on the device.
    """
    for _ in range(3):
        call()
    for _ in range(2):  # the first pays for loading the profiler
        events = _profiled(call, times=2)
    return in_rows(events, times=2)


def in_rows(events: list, times: int = 1) -> dict[str, list]:
    """What matters of the profiler's events; of so many calls alike, the last one's."""
    rows = {"operators": [], "launches": [], "kernels": []}
    for event in events:
        kind = _kind(event)
        if kind:
            span = event.time_range
            rows[kind].append([short(event.name), span.start, span.end - span.start])
    for kind, row in rows.items():
        row.sort(key=lambda one: one[1])
        rows[kind] = row[len(row) - len(row) // times :]
    first = min(start for row in rows.values() for _, start, _ in row)
    return {
        kind: [[name, round(start - first, 2), round(duration, 2)] for name, start, duration in row]
        for kind, row in rows.items()
    }


def short(name: str) -> str:
    """A kernel's name without what C++ puts around it: `void at::native::f<int>(x)` is `f`."""
    name = name.removeprefix("void ")
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", name)) != name:
        name = shorter
    return name.split("::")[-1] if "::" in name and not name.startswith("aten") else name


def _kind(event) -> str | None:
    if event.device_type == torch.autograd.DeviceType.CUDA:
        return "kernels"
    if _LAUNCH.match(event.name):
        return "launches"
    return "operators" if event.name.startswith("aten::") and not _inside_another(event) else None


def _inside_another(event) -> bool:
    parent = getattr(event, "cpu_parent", None)
    return parent is not None and parent.name.startswith("aten::")


def _profiled(call: Callable[[], object], times: int) -> list:
    """Events of so many calls, one after another: the profiler starts within the first launch."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with _without_stderr(), profile(activities=kinds) as profiler:
        for _ in range(times):
            call()
            torch.cuda.synchronize()
    return list(profiler.events())


@contextmanager
def _without_stderr() -> Iterator[None]:
    """The profiler warns, and its C++ writes notes past Python; a notebook would store them."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
