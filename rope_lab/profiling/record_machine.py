"""Measure T0, W and P of this GPU: `python -m rope_lab.profiling.record_machine`, where one is.

It times what notebook 08 and "Timing done wrong" time, with an empty L2 cache, in several passes,
and keeps all times. For `lab.inspect` it adds how fast programs start, and how fast a copy is by
what it has in flight. The record has an entry for each GPU; this one's is replaced.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from ..rungs import SHAPE
from ..timing import measure
from . import machines

COUNTS = (0, 8, 16, 32, 64, 128, 512)  # FMAs an element
PASSES = 5
STARTED = 2**17, 2**19  # programs


def take(passes: int = PASSES) -> dict:
    """All times of this GPU, in microseconds: `us` has a list for each pass."""
    from ..steps import headline
    from ..steps.copies import SIZES, copy_of
    from ..steps.fused_multiply_adds import multiply_adds

    t = torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16)
    out, calls = torch.empty_like(t), headline.cases(torch.bfloat16)
    fmas = {str(K): multiply_adds(t, out, K) for K in COUNTS}
    rotations = {name: calls[name] for name in ("copy", "naive", "ours")}
    taken = {
        "copies": {"bytes": list(SIZES), "us": []},
        "fmas": {"counts": list(COUNTS), "elements": t.numel(), "us": []},
        "headline": {"calls": list(rotations), "us": []},
    }
    for _ in range(passes):
        # of one size at a time: together their tensors would fill a small GPU
        copies = [_times({"copy": copy_of(size)})[0] for size in SIZES]
        taken["copies"]["us"].append(copies)
        taken["fmas"]["us"].append(_times(fmas))
        taken["headline"]["us"].append(_times(rotations))
    return taken


def take_limits() -> dict:
    """What two more limits need: how fast programs start, a copy's rate by bytes in flight."""
    from ..steps.in_flight import copies_in_flight, one_store_kernel

    out = torch.empty(STARTED[-1], dtype=torch.int32, device="cuda")
    calls = {str(n): partial(_keep, one_store_kernel, n, out) for n in STARTED}
    major, minor = torch.cuda.get_device_capability()
    return {
        "arch": f"sm_{major}{minor}",
        "starts": {"programs": list(STARTED), "us": _times(calls)},
        "in_flight": copies_in_flight(),
    }


def _keep(kernel, programs: int, out: torch.Tensor) -> torch.Tensor:
    kernel[(programs,)](out)
    return out


def _times(calls: dict[str, Callable[[], object]]) -> list[float]:
    return [timing.median_us for timing in measure(calls).values()]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("notebooks/records/machines.json"))
    parser.add_argument("--limits", action="store_true", help="add what lab.inspect needs, no more")
    chosen = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("There is no GPU here to measure.")
        return 1
    if not chosen.limits:
        machines.merge(chosen.out, take())
    machines.add_limits(chosen.out, take_limits())
    for taken in machines.read(chosen.out).values():
        gpu = machines.machine_of(taken)
        W, P = gpu.bytes_a_us / 1e6, gpu.instructions_a_us / 1e6
        print(f"{taken.origin}\n    T0 {gpu.start_us:.2f} us, W {W:.3f} TB/s, P {P:.2f} million/us")
    print(chosen.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
