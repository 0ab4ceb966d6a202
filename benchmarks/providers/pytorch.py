"""The function that the study started from, in plain PyTorch: eager, and compiled.

As TransformerEngine's unfused one: cos and sin of a table of angles, rounded to the tensors' dtype,
then arithmetic in it. Compiled, it is one kernel. Each shape is compiled for itself
(`measure.py` makes torch.compile forget the one before): from the second shape on it would
otherwise compile for all of them at once, and after the eighth no more.
"""

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.provider import Provider
from benchmarks.workload import Layout, Workload


class PyTorch(Provider):
    """Eager, in the case's own layout and memory."""

    name = "PyTorch eager"

    def layout(self, case: Case) -> Layout:
        return Layout(case.tensor_format, case.stored)

    def function(self, workload: Workload):
        case, angles = workload.case, workload.angles()[:, 0, 0]  # (s2, d2)
        packed, positions = case.tensor_format == "thd", workload.positions[0]
        sizes = [case.s if dim in "st" else 1 for dim in case.tensor_format[:-1]]  # broadcast

        def function(*tensors: Tensor) -> tuple[Tensor, ...]:
            rows = angles[positions] if packed else angles  # each call has other sequences
            freqs = rows.view(*sizes, case.d2)
            return tuple(rotate(t, freqs) for t in tensors)

        return function


class Compiled(PyTorch):
    """The same by torch.compile."""

    name = "torch.compile"

    def function(self, workload: Workload):
        return torch.compile(super().function(workload))


def rotate(t: Tensor, freqs: Tensor) -> Tensor:
    """The unfused function for halves, without argument checks; `freqs` broadcast to `t`."""
    cos, sin = freqs.cos().to(t.dtype), freqs.sin().to(t.dtype)
    d2 = freqs.shape[-1]
    rotary, tail = t[..., :d2], t[..., d2:]
    first, second = rotary.chunk(2, dim=-1)
    rotary = rotary * cos + torch.cat((-second, first), dim=-1) * sin
    # With an empty tail too, as TransformerEngine's function does: a copy that costs 69 of 886 us.
    return torch.cat((rotary, tail), dim=-1)


PROVIDERS = PyTorch(), Compiled()
