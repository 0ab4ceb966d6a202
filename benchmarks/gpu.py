"""What a GPU is measured with: the package's own timer, its memory statistics, CUDA graphs."""

import gc
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from rope_lab.records import circumstances
from rope_lab.timing import (
    Timing,
    in_a_graph,
    measure,
    measure_host,
    require_compiled_kernels,
)

_ASKED = ("clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "temperature.gpu",
          "power.limit")  # fmt: skip


def can_measure() -> bool:
    """Is there a GPU, and are kernels compiled? If not, say so."""
    try:
        require_compiled_kernels()
    except RuntimeError as why:
        print(f"Nothing is measured: {why}", file=sys.stderr)
        return False
    return True


@dataclass(frozen=True)
class GPU:
    """All that tests replace by something that needs no GPU."""

    rounds: int = 5
    device: str = "cuda"

    def device_time(self, calls: dict[str, Callable]) -> dict[str, Timing]:
        """As `rope_lab.timing.measure` takes it: interleaved, L2 flushed."""
        return measure(calls, rounds=self.rounds)

    def host_time(self, calls: dict[str, Callable]) -> dict[str, Timing]:
        """Time to queue one call, of tiny tensors."""
        return measure_host(calls, rounds=self.rounds + 2)

    def host_time_of_large(self, calls: dict[str, Callable]) -> dict[str, Timing]:
        """The same where the GPU is slower than the CPU: few calls, so that the queue never fills
        (it holds about a thousand launches, and an eager rotation is ten)."""
        return measure_host(calls, rounds=3, calls=20)

    def peak_bytes(self, call: Callable) -> int | None:
        """Memory that a call takes at its peak, its results included, its arguments not."""
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        results = call()
        torch.cuda.synchronize()
        del results
        return torch.cuda.max_memory_allocated() - before

    def captured(self, call: Callable) -> tuple[Callable, tuple[torch.Tensor, ...]]:
        """The call as a CUDA graph: a function that replays it, and what the replay writes."""
        replay = in_a_graph(call)
        return replay, replay.results

    def free(self) -> None:
        """Give back the memory of a case before the next."""
        gc.collect()
        torch.cuda.empty_cache()

    def circumstances(self) -> dict:
        """GPU, versions and date."""
        return circumstances()

    def clocks(self) -> dict[str, str]:
        """Clocks, temperature and power limit, as nvidia-smi says; nothing is ever set.

        Empty where it cannot be asked.
        """
        uuid = getattr(torch.cuda.get_device_properties(), "uuid", None)
        command = ["nvidia-smi", "-i", f"GPU-{uuid}" if uuid else "0", "--format=csv,noheader"]
        command.append(f"--query-gpu={','.join(_ASKED)}")
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            return {}
        values = answer.stdout.partition("\n")[0].split(",")
        found = dict(zip(_ASKED, map(str.strip, values), strict=False))
        return found if len(values) == len(_ASKED) else {}
