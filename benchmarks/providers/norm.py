"""Who normalizes q and k by their weights, then rotates them: ours, and others in several steps."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

from benchmarks.case import EPS, Case
from benchmarks.provider import Provider, Run
from benchmarks.providers.installed import COMPILED, MODE, along_tokens, compiled, rotate_by
from benchmarks.workload import Layout, Workload, own_layout
from rope_kernels import rope_qk
from rope_kernels.norms import qk_norm_rope


class NormProvider(Provider):
    """`function` takes q, k and their weights. The forward saves what the backward needs."""

    largest_error = 2e-2  # norm of the difference over the norm: bf16, rounded several times

    def allowed_error(self, case: Case) -> float:
        return self.largest_error

    def error(self, workload: Workload, results: tuple, layout: Layout, direction: str) -> float:
        return workload.norm_error(results, direction)

    def copies(self, case: Case, direction: str) -> float:
        return 1.5 if direction == "backward" else 1  # q, k and gradients read, gradients written

    def layout(self, case: Case) -> Layout:
        return own_layout(case, pair=True)

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
    """PyTorch's `rms_norm` of q and of k, eager or compiled, then `rope_qk`: three launches."""

    def __init__(self, name: str, compiles: bool = False) -> None:
        self.name, self.compiles = name, compiles
        if compiles:
            self.measures = f"the whole call, its norms by torch.compile with mode {MODE}"

    def function(self, workload: Workload) -> Callable:
        case, norm = workload.case, torch.nn.functional.rms_norm

        def both(q: Tensor, k: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
            pairs = zip((q, k), weights, strict=True)
            return tuple(norm(t, (case.d,), weight, EPS) for t, weight in pairs)

        normalize = _compiled(both) if self.compiles else both

        def call(*leaves: Tensor) -> tuple[Tensor, ...]:
            rows = normalize(*leaves)
            return rope_qk(*rows, workload.module, case.tensor_format, **_packed(workload))

        return call


class InPyTorch(NormProvider):
    """Eager or compiled, by one of the drafts below. It takes the case's own layout and memory."""

    def __init__(self, name: str, draft: Callable, compiles: bool = False) -> None:
        self.name, self.draft, self.compiles = name, draft, compiles
        if compiles:
            self.measures = COMPILED

    def function(self, workload: Workload) -> Callable:
        case, draft = workload.case, self.draft
        dtype, columns = workload.x.dtype, case.d
        if draft is rounded_once:
            dtype, columns = torch.float32, case.d // 2  # a column for each pair
        tables = (table[..., :columns].contiguous() for table in workload.cos_sin(dtype))
        cos, sin = (table.view(*along_tokens(case), columns) for table in tables)

        def both(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> tuple[Tensor, ...]:
            return draft(q, q_weight, cos, sin), draft(k, k_weight, cos, sin)

        return _compiled(both) if self.compiles else both


def rounded_once(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """In fp32 until the result, by fp32 tables."""
    exact = x.float()
    row = weight * exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
    first, second = row.chunk(2, -1)
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.cat(turned, -1).to(x.dtype)


def rounded_often(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """As Hugging Face's Qwen 3 rounds, by tables in the dtype of `x`."""
    exact = x.float()
    row = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
    return rotate_by(weight * row.to(x.dtype), cos, sin)


def _compiled(function: Callable) -> Callable:
    """By torch.compile; its backward runs again, and keeps its buffers."""
    functorch_config.donated_buffer = False
    return compiled(function)


def _packed(workload: Workload) -> dict[str, Tensor]:
    """The options of our functions that say where packed sequences start."""
    return {} if workload.cu_seqlens is None else {"cu_seqlens": workload.cu_seqlens}


OURS = Ours("qk_norm_rope, on the fly"), Ours("qk_norm_rope, cos and sin", table=True)
OTHERS = (
    TwoKernels("rms_norm of PyTorch, then rope_qk"),
    TwoKernels("rms_norm, compiled, then rope_qk", compiles=True),
    InPyTorch("eager, fp32", rounded_once),
    InPyTorch("torch.compile, fp32", rounded_once, compiles=True),
    InPyTorch("torch.compile, rounded often", rounded_often, compiles=True),
)
