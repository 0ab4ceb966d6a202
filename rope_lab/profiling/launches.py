"""How many kernels a call launches on the GPU, and how long they run: by torch's profiler."""

from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

_NO_KERNELS = ("Memcpy", "Memset")  # copies and fills by the driver


def launches_of(call: Callable[[], object], runs: int = 5, warm_up: int = 3) -> dict[str, float]:
    """Mean of some runs after the warm-up: 'launches', and the 'kernel_us' of all of them together.

    Microseconds of a kernel are those between its begin and its end on the GPU. What the GPU waits
    between two kernels is not in them.
    """
    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    for _ in range(warm_up):
        call()
    wait()
    with profile(activities=activities) as profiler:
        for _ in range(runs):
            call()
        wait()
    kernels = [
        event
        for event in profiler.events()
        if event.device_type == DeviceType.CUDA and not event.name.startswith(_NO_KERNELS)
    ]
    us = sum(kernel.time_range.elapsed_us() for kernel in kernels)
    return {"launches": len(kernels) / runs, "kernel_us": round(us / runs, 2)}


def wait() -> None:
    """Until the GPU is done, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
