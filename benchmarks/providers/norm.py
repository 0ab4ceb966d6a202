"""Who normalizes q and k by their weights, then rotates them: ours, and others in several steps."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

from benchmarks.case import Case
from benchmarks.norm_cases import IN_PYTORCH, NORM_LIGER, NORM_OURS, TWO_KERNELS
from benchmarks.norm_workload import EPS, NormWorkload
from benchmarks.providers.base import Provider, Run
from benchmarks.workload import Layout
from rope_kernels import qk_norm_rope, rope_qk


class NormProvider(Provider):
    """`function` takes q, k and their weights. The forward saves what the backward needs."""

    def layout(self, case: Case) -> Layout:
        return Layout(case.tensor_format, pair=True)

    def run(self, workload: NormWorkload, function: Callable, direction: str) -> Run:
        leaves = workload.leaves()
        call = partial(function, *leaves)
        if direction == "backward":
            call = partial(torch.autograd.grad, call(), leaves, workload.grads(), retain_graph=True)
        return Run(call, workload.layout, how=str(workload.layout))


class Ours(NormProvider):
    """`qk_norm_rope`, on the fly or with fp32 cosines and sines of each pair."""

    def __init__(self, name: str, table: bool) -> None:
        self.name, self.table = name, table

    def function(self, workload: NormWorkload):
        case, freqs, options = workload.case, workload.module, dict(workload.packed)
        if self.table:
            freqs, options["rotary_dim"] = freqs.cos_sin_per_pair(case.s), case.d
        return lambda *leaves: qk_norm_rope(*leaves, freqs, case.tensor_format, eps=EPS, **options)


class TwoKernels(NormProvider):
    """PyTorch's `rms_norm` of q and of k, then `rope_qk`: three launches."""

    name = TWO_KERNELS

    def function(self, workload: NormWorkload):
        case, norm = workload.case, torch.nn.functional.rms_norm

        def call(q: Tensor, k: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
            pairs = zip((q, k), weights, strict=True)
            rows = (norm(t, (case.d,), weight, EPS) for t, weight in pairs)
            return rope_qk(*rows, workload.module, case.tensor_format, **workload.packed)

        return call


class InPyTorch(NormProvider):
    """sbhd as models write it: fp32 throughout, or rounded as Qwen 3 is."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.compiles, self.like_model = "compile" in name, "Qwen" in name
        self.mode = "max-autotune-no-cudagraphs" if "max-autotune" in name else None
        self.compile_seconds = 15.0 if self.mode else 5.0 if self.compiles else 0.0

    def function(self, workload: NormWorkload):
        function = _in_pytorch(workload, self.like_model)
        if not self.compiles:
            return function
        functorch_config.donated_buffer = False  # its backward runs again, and keeps its buffers
        return torch.compile(function, mode=self.mode, dynamic=False)


class Liger(NormProvider):
    """sbhd: Liger-Kernel's RMSNorm of q and of k, then its rotation, by its autograd functions."""

    name = NORM_LIGER
    package, distribution = "liger_kernel", "liger-kernel"

    def function(self, workload: NormWorkload):
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction
        from liger_kernel.ops.rope import LigerRopeFunction

        cos, sin = (x[None].to(workload.x.dtype) for x in _cos_and_sin(workload))
        options = EPS, 0.0, "llama", False

        def call(q: Tensor, k: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
            pairs = zip((q, k), weights, strict=True)
            rows = [LigerRMSNormFunction.apply(t, weight, *options) for t, weight in pairs]
            q, k = (row.transpose(0, 1).transpose(1, 2) for row in rows)  # as (b, h, s, d)
            q, k = LigerRopeFunction.apply(q, k, cos, sin)
            return q.permute(2, 0, 1, 3), k.permute(2, 0, 1, 3)

        return call


EVERYBODY = (
    Ours(NORM_OURS[0], table=False),
    Ours(NORM_OURS[1], table=True),
    TwoKernels(),
    *map(InPyTorch, IN_PYTORCH),
    Liger(),
)


def _in_pytorch(workload: NormWorkload, like_model: bool) -> Callable[..., tuple[Tensor, ...]]:
    dtype = workload.x.dtype if like_model else torch.float32
    cos, sin = (x[:, None, None].to(dtype) for x in _cos_and_sin(workload))

    def one(x: Tensor, weight: Tensor) -> Tensor:
        exact = x.float()
        normal = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
        row = weight * normal.to(x.dtype) if like_model else weight.float() * normal
        first, second = row.chunk(2, -1)
        return (row * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)

    def both(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> tuple[Tensor, ...]:
        return one(q, q_weight), one(k, k_weight)

    return both


def _cos_and_sin(workload: NormWorkload) -> tuple[Tensor, Tensor]:
    """(s, d), each pair's twice."""
    cos, sin = workload.module.cos_sin_per_pair(workload.case.s)
    return torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
