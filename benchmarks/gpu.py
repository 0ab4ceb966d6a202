"""The GPU, with the lab's timer."""

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from rope_lab.profiling import measure_machine
from rope_lab.records import circumstances
from rope_lab.timing import Timing, measure, measure_host, require_compiled_kernels


@dataclass(frozen=True)
class GPU:
    """Everything that needs a GPU. Tests replace it."""

    rounds: int = 5
    device: str = "cuda"

    def in_turns(self, calls: dict[str, Callable], clock: str = "device") -> dict[str, Timing]:
        """Time on the GPU with the L2 cache flushed, or the CPU's time to queue a call."""
        if clock == "host":
            return measure_host(calls, rounds=self.rounds + 2)
        return measure(calls, rounds=self.rounds)

    def machine(self) -> dict:
        """The figures that `lab.inspect` needs."""
        return measure_machine.take()

    def free(self) -> None:
        """Free the memory of a case before the next one."""
        gc.collect()
        torch.cuda.empty_cache()

    def circumstances(self) -> dict:
        """GPU, versions and date."""
        return circumstances()


def gpu_here() -> GPU | None:
    """The GPU of this machine; or None, after printing why nothing can be measured."""
    try:
        require_compiled_kernels()
    except RuntimeError as why:
        print(f"Nothing is measured: {why}", file=sys.stderr)
        return None
    return GPU()
