"""Who normalizes q and k by their weights, then rotates them: ours, and others in several steps."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

from benchmarks.case import Case
from benchmarks.provider import Provider, Run
from benchmarks.workload import EPS, Layout, Workload
from rope_kernels import qk_norm_rope, rope_qk


class NormProvider(Provider):
    """`function` takes q, k and their weights. The forward saves what the backward needs."""

    largest_error = 2e-2  # norm of the difference over the norm: bf16, rounded several times

    def allowed_error(self, case: Case) -> float:
        return self.largest_error

    def error(self, workload: Workload, results: tuple, layout: Layout, direction: str) -> float:
        return workload.norm_error(results, direction)

    def copies(self, direction: str) -> float:
        return 1.5 if direction == "backward" else 1  # q, k and gradients read, gradients written

    def layout(self, case: Case) -> Layout:
        return Layout(case.tensor_format, pair=True)

    def run(self, workload: Workload, function: Callable, direction: str) -> Run:
        layout, leaves = self.layout(workload.case), workload.leaves()
        call = partial(function, *leaves)
        if direction == "backward":
            grads = workload.take(workload.grad, layout)
            call = partial(torch.autograd.grad, call(), leaves, grads, retain_graph=True)
        return Run(call, layout, how=str(layout))


class Ours(NormProvider):
    """`qk_norm_rope`, on the fly or with fp32 cosines and sines of each pair; it rounds once."""

    is_ours_or_a_limit = True
    largest_error = 5e-3

    def __init__(self, name: str, table: bool = False) -> None:
        self.name, self.table = name, table

    def function(self, workload: Workload):
        case, freqs, options = workload.case, workload.module, _packed(workload)
        if self.table:
            freqs, options["rotary_dim"] = freqs.cos_sin(case.s), case.d
        return lambda *leaves: qk_norm_rope(*leaves, freqs, case.tensor_format, eps=EPS, **options)


class TwoKernels(NormProvider):
    """PyTorch's `rms_norm` of q and of k, then `rope_qk`: three launches."""

    name = "rms_norm of PyTorch, then rope_qk"

    def function(self, workload: Workload):
        case, norm = workload.case, torch.nn.functional.rms_norm

        def call(q: Tensor, k: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
            pairs = zip((q, k), weights, strict=True)
            rows = (norm(t, (case.d,), weight, EPS) for t, weight in pairs)
            return rope_qk(*rows, workload.module, case.tensor_format, **_packed(workload))

        return call


class InPyTorch(NormProvider):
    """sbhd, eager or compiled, in fp32 until the result."""

    def __init__(self, name: str, compiled: bool = False) -> None:
        self.name, self.compiled = name, compiled

    def cannot(self, case: Case, direction: str) -> str | None:
        return None if case.tensor_format == "sbhd" else "written for sbhd"

    def function(self, workload: Workload):
        cos, sin = (table[:, None, None] for table in workload.module.cos_sin(workload.case.s))

        def one(x: Tensor, weight: Tensor) -> Tensor:
            exact = x.float()
            row = weight * exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
            first, second = row.chunk(2, -1)
            turned = first * cos - second * sin, second * cos + first * sin
            return torch.cat(turned, -1).to(x.dtype)

        def both(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> tuple[Tensor, ...]:
            return one(q, q_weight), one(k, k_weight)

        functorch_config.donated_buffer = False  # its backward runs again, and keeps its buffers
        return torch.compile(both, dynamic=False) if self.compiled else both


def _packed(workload: Workload) -> dict[str, Tensor]:
    """The options of our functions that say where packed sequences start."""
    return {} if workload.cu_seqlens is None else {"cu_seqlens": workload.cu_seqlens}


OURS = Ours("qk_norm_rope, on the fly"), Ours("qk_norm_rope, cos and sin", table=True)
OTHERS = TwoKernels(), InPyTorch("eager, fp32"), InPyTorch("torch.compile, fp32", compiled=True)
