"""The function that the series starts from, in plain PyTorch: eager, and compiled.

As TransformerEngine's unfused one: cos and sin of a table of angles, rounded to the tensors' dtype,
then arithmetic in it. Compiled, it is one kernel, and evaluates cos and sin for every element. So
it is also compiled with cos and sin that are there before the call, as models have them.
"""

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.provider import Function, Provider
from benchmarks.workload import Layout, Workload, own_layout

# By default Inductor times two tiles of a pointwise kernel and keeps one. Hugging Face's function
# took 42.5 us in one run and 36.6 in the next (sbhd (4096, 2, 32, 128), H200, torch 2.11.0, records
# of 2026-11-27 and -28). This mode tries more tiles.
MODE = "max-autotune-no-cudagraphs"
COMPILED = f"the whole call, by torch.compile with mode {MODE}"


class PyTorch(Provider):
    """Eager, in the case's own layout and memory."""

    name = "PyTorch eager"

    def layout(self, case: Case) -> Layout:
        return own_layout(case)

    def function(self, workload: Workload) -> Function:
        case, angles = workload.case, workload.angles()[:, 0, 0]  # (s2, d2)
        packed, positions = case.tensor_format == "thd", workload.positions[0]

        def function(*tensors: Tensor) -> tuple[Tensor, ...]:
            rows = angles[positions] if packed else angles  # each call has other sequences
            freqs = rows.view(*along_tokens(case), case.d2)
            return tuple(rotate(t, freqs) for t in tensors)

        return function


class Compiled(PyTorch):
    """The same by torch.compile."""

    name = "torch.compile"
    measures = COMPILED

    def function(self, workload: Workload) -> Function:
        return compiled(super().function(workload))


class CompiledCosAndSin(PyTorch):
    """By torch.compile, with cos and sin of each token in the tensors' dtype."""

    name = "torch.compile, cos and sin"
    measures = COMPILED

    def function(self, workload: Workload) -> Function:
        case = workload.case
        tables = workload.cos_sin(workload.x.dtype)
        cos, sin = (table.view(*along_tokens(case), case.d2) for table in tables)

        def rotated(t: Tensor) -> Tensor:
            if case.d2 == case.d:
                return rotate_by(t, cos, sin)
            return torch.cat((rotate_by(t[..., : case.d2], cos, sin), t[..., case.d2 :]), dim=-1)

        return compiled(lambda *tensors: tuple(rotated(t) for t in tensors))


def compiled(function: Function) -> Function:
    """By torch.compile, each shape for itself.

    `measure.py` makes torch.compile forget the shape before: from the second on it would otherwise
    compile for all of them at once, and after the eighth no more.
    """
    return torch.compile(function, mode=MODE)


def along_tokens(case: Case) -> list[int]:
    """The shape of a table with a row for each token, without its last dimension: it broadcasts."""
    return [case.s if dim in "st" else 1 for dim in case.tensor_format[:-1]]


def rotate(t: Tensor, freqs: Tensor) -> Tensor:
    """The unfused function for halves, without argument checks; `freqs` broadcast to `t`."""
    cos, sin = freqs.cos().to(t.dtype), freqs.sin().to(t.dtype)
    d2 = freqs.shape[-1]
    rotary, tail = t[..., :d2], t[..., d2:]
    # With an empty tail too, as TransformerEngine's function does: a copy that costs 69 of 886 us.
    return torch.cat((rotate_by(rotary, cos, sin), tail), dim=-1)


def rotate_by(rotary: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Whole rows, by cosines and sines that broadcast to them."""
    first, second = rotary.chunk(2, dim=-1)
    return rotary * cos + torch.cat((-second, first), dim=-1) * sin


PROVIDERS = PyTorch(), Compiled(), CompiledCosAndSin()
