"""The limits that every provider is compared with: a copy, and `x * 2`."""

import torch

from benchmarks.case import Case
from benchmarks.provider import Provider, Run
from benchmarks.workload import Layout, Workload


class Copy(Provider):
    """`copy_` between two contiguous buffers: reads and writes each element once.

    q and k are one buffer here. Forward and backward together are two such copies.
    """

    name = "copy_"
    is_ours_or_a_limit = True

    def cannot(self, case: Case, direction: str) -> str | None:
        return "a limit of another clock" if case.clock == "host" else None

    def run(self, workload: Workload, function, direction: str) -> Run:
        x, grad = workload.x, workload.grad
        sources = {"forward": (x,), "backward": (grad,), "both": (x, grad)}
        pairs = [(source, torch.empty_like(source)) for source in sources[direction]]
        return Run(lambda: tuple(out.copy_(source) for source, out in pairs))

    def function(self, workload: Workload) -> None:
        return None


class TimesTwo(Provider):
    """`x * 2`: as little as PyTorch's eager mode can do, with the same bytes. For host time."""

    name = "x * 2"
    is_ours_or_a_limit = True

    def cannot(self, case: Case, direction: str) -> str | None:
        return None if case.clock == "host" else "a limit of another clock"

    def layout(self, case: Case) -> Layout:
        return Layout("bshd")

    def function(self, workload: Workload):
        return lambda *tensors: tuple(x * 2 for x in tensors)

    def run(self, workload: Workload, function, direction: str) -> Run:
        return Run(super().run(workload, function, direction).call)


PROVIDERS = Copy(), TimesTwo()
