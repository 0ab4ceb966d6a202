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

TWO_KERNELS = "rms_norm of PyTorch, then rope_qk"


class NormProvider(Provider):
    """`function` takes q, k and their weights. The forward saves what the backward needs."""

    largest_error = 2e-2  # norm of the difference over the norm: bf16, rounded several times

    def allowed_error(self, case: Case) -> float:
        return self.largest_error

    def error(self, workload: Workload, results: tuple, layout: Layout, direction: str) -> float:
        return workload.norm_error(results, direction)

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

    name = TWO_KERNELS

    def function(self, workload: Workload):
        case, norm = workload.case, torch.nn.functional.rms_norm

        def call(q: Tensor, k: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
            pairs = zip((q, k), weights, strict=True)
            rows = (norm(t, (case.d,), weight, EPS) for t, weight in pairs)
            return rope_qk(*rows, workload.module, case.tensor_format, **_packed(workload))

        return call


class InPyTorch(NormProvider):
    """sbhd as models write it, fp32 throughout or rounded as Qwen 3 is; eager or compiled."""

    def __init__(self, name: str, like_model: bool = False, mode: str = "") -> None:
        self.name, self.like_model, self.mode = name, like_model, mode

    def function(self, workload: Workload):
        dtype = workload.x.dtype if self.like_model else torch.float32
        cos, sin = (x[:, None, None].to(dtype) for x in _cos_and_sin(workload))

        def one(x: Tensor, weight: Tensor) -> Tensor:
            exact = x.float()
            normal = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
            row = weight.to(dtype) * normal.to(dtype)
            first, second = row.chunk(2, -1)
            return (row * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)

        def both(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> tuple[Tensor, ...]:
            return one(q, q_weight), one(k, k_weight)

        if not self.mode:
            return both
        functorch_config.donated_buffer = False  # its backward runs again, and keeps its buffers
        return torch.compile(both, mode=self.mode, dynamic=False)


class Liger(NormProvider):
    """sbhd: Liger-Kernel's RMSNorm of q and of k, then its rotation, by its autograd functions."""

    name = "Liger-Kernel, RMSNorm then rope"
    package, distribution = "liger_kernel", "liger-kernel"

    def function(self, workload: Workload):
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


def _packed(workload: Workload) -> dict[str, Tensor]:
    """The options of our functions that say where packed sequences start."""
    return {} if workload.cu_seqlens is None else {"cu_seqlens": workload.cu_seqlens}


def _cos_and_sin(workload: Workload) -> tuple[Tensor, Tensor]:
    """(s, d), each pair's twice."""
    cos, sin = workload.module.cos_sin(workload.case.s)
    return torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)


OURS = Ours("qk_norm_rope, on the fly"), Ours("qk_norm_rope, cos and sin", table=True)
OTHERS = (
    TwoKernels(),
    InPyTorch("eager, fp32"),
    InPyTorch("torch.compile, fp32", mode="default"),
    InPyTorch("eager, Qwen 3's rounding", like_model=True),
    InPyTorch("torch.compile, Qwen 3's rounding", like_model=True, mode="default"),
    InPyTorch("torch.compile, fp32, max-autotune", mode="max-autotune-no-cudagraphs"),
    Liger(),
)
