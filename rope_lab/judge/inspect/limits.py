"""What limits a kernel, by the time model and a GPU's measured rates."""

from dataclasses import dataclass

import numpy as np
import torch

from ...profiling import machines
from ...profiling.roofline import Machine
from ...records import Observation, recorded, records_folder

SECTOR = 32  # bytes: the least that a GPU fetches
CHANGES = {  # limit -> a change that confirms it on a GPU
    "memory": "a dtype twice as wide takes twice as long",
    "instructions": "twice the arithmetic takes longer",
    "starts": "half the programs, each with twice the work, are faster",
    "latency": "half the programs, each with twice the work, are slower",
}
_EAGER_KERNELS = 10  # that eager PyTorch launches for one rotation
_NEARLY = 1.03  # a limit that is at most this many times as long as memory counts as memory


@dataclass(frozen=True)
class Gpu:
    """A GPU and its numbers, as `measure_machine` measured them."""

    arch: str  # 'sm_90'
    origin: str = ""  # name, versions and date; '' if nothing was recorded for this architecture
    name: str = ""
    machine: Machine | None = None
    multiprocessors: int = 0
    copies: tuple[tuple[int, float], ...] = ()  # bytes read and written, microseconds
    starts_a_us: float = 0.0  # programs
    in_flight: tuple[tuple[float, float], ...] = ()  # bytes on an SM, share of the best rate

    def copy_us(self, moved: float) -> float:
        """How long a copy of this many bytes takes, without its start."""
        sizes, times = zip(*self.copies, strict=True)
        times = np.maximum(np.array(times) - self.machine.start_us, 0.0)
        if moved > sizes[-1]:
            return float(times[-1] * moved / sizes[-1])
        if moved < sizes[0]:
            return moved / self.machine.bytes_a_us
        return float(max(np.interp(moved, sizes, times), moved / self.machine.bytes_a_us * 0.9))

    def share(self, in_flight: float) -> float:
        """Share of the best rate that this many bytes in flight on an SM reach."""
        points, shares = zip(*self.in_flight, strict=True)
        return float(np.interp(in_flight, (0.0, *points), (0.0, *shares)))


def next_launch_us() -> float:
    """What a further launch takes: one of notebook 08's small kernels in a graph."""
    times = recorded("08/rows-of-calls")["as a graph"]
    return times["eager"] / _EAGER_KERNELS


def limit_of(times: dict[str, float]) -> str:
    """The limit with the longest time, or memory if it takes nearly as long."""
    longest = max(times, key=times.get)
    return "memory" if times[longest] <= _NEARLY * times["memory"] else longest


def gpu_of(name: str) -> Gpu:
    """A GPU by its architecture, such as 'sm_90', or by its name in the records.

    Of several with one architecture it is the one that is here, else the one with the most
    bandwidth.
    """
    records = machines.read(records_folder() / "machines.json").values()
    known = [gpu_from(taken) for taken in records if "limits" in taken.values]
    here = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    fitting = [gpu for gpu in known if name in (gpu.arch, gpu.name)]
    return max(
        fitting, key=lambda gpu: (gpu.name == here, gpu.machine.bytes_a_us), default=Gpu(name)
    )


def gpu_from(taken: Observation) -> Gpu:
    """A GPU, from its record."""
    limits = taken["limits"]
    flight, starts = limits["in_flight"], limits["starts"]
    best = max(max(rates) for rates in flight["rates"])
    shares: dict[int, list[float]] = {}  # bytes on an SM: what a copy reached, with other programs
    for size, rates in zip(flight["bytes"], flight["rates"], strict=True):
        for programs, rate in zip(flight["programs"], rates, strict=True):
            shares.setdefault(size * programs, []).append(rate / best)
    few, many = starts["programs"]
    fast, slow = starts["us"]
    return Gpu(
        arch=limits["arch"],
        origin=f"{taken.gpu} (recorded {taken.date})",
        name=taken.gpu,
        machine=machines.machine_of(taken),
        multiprocessors=taken["multiprocessors"],
        copies=tuple(machines.copies_of(taken)),
        starts_a_us=(many - few) / (slow - fast),
        in_flight=tuple((at, float(np.median(found))) for at, found in sorted(shares.items())),
    )
