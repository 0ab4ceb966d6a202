"""Measure this GPU for `lab.inspect`, as a part of `make record`.

It times copies and multiply-adds with an empty L2 cache, in several passes, how fast programs
start, and how fast a copy is by what it has in flight. All times are kept. The record has an entry
for each GPU; this one's is replaced.
"""

from collections.abc import Callable
from functools import partial

import torch

from ..rungs import SHAPE
from ..timing import measure, require_compiled_kernels

COUNTS = (128, 512)  # FMAs an element
PASSES = 5
STARTED = 2**17, 2**19  # programs


def take(passes: int = PASSES) -> dict:
    """All times of this GPU, in microseconds: `us` has a list for each pass."""
    from .probes import SIZES, copies_in_flight, copy_of, multiply_adds, one_store_kernel

    require_compiled_kernels()
    t = torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16)
    out, started = torch.empty_like(t), torch.empty(STARTED[-1], dtype=torch.int32, device="cuda")
    fmas = {str(K): multiply_adds(t, out, K) for K in COUNTS}
    copies = {"bytes": list(SIZES), "us": []}
    multiplied = {"counts": list(COUNTS), "elements": t.numel(), "us": []}
    for _ in range(passes):
        # of one size at a time: together their tensors would fill a small GPU
        copies["us"].append([_times({"copy": copy_of(size)})[0] for size in SIZES])
        multiplied["us"].append(_times(fmas))
    starts = {str(n): partial(one_store_kernel[(n,)], started) for n in STARTED}
    major, minor = torch.cuda.get_device_capability()
    limits = {
        "arch": f"sm_{major}{minor}",
        "starts": {"programs": list(STARTED), "us": _times(starts)},
        "in_flight": copies_in_flight(),
    }
    sms = torch.cuda.get_device_properties().multi_processor_count
    return {"multiprocessors": sms, "copies": copies, "fmas": multiplied, "limits": limits}


def _times(calls: dict[str, Callable[[], object]]) -> list[float]:
    return [timing.median_us for timing in measure(calls).values()]
