"""PyTorch's ways to normalize q and k by their weights, then to rotate them, for rows of norms."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

import rope_kernels
from benchmarks.case import EPS, FP32_OF_PAIRS, Row
from benchmarks.providers.installed import COMPILED, MODE, along_tokens, compiled, rotate_by
from benchmarks.providers.rows import RowProvider, forward_or_backward
from benchmarks.row_inputs import RowInputs


class NormInPyTorch(RowProvider):
    """Takes q, k and their weights. The forward saves what the backward needs.

    Tables are its own, so it has rows of one kind of table.
    """

    def suits(self, row: Row) -> bool:
        return row.is_norm and row.table == FP32_OF_PAIRS

    def norm(self, inputs: RowInputs) -> Callable:
        """q, k and their weights -> q and k."""
        raise NotImplementedError

    def make(self, inputs: RowInputs) -> Callable[[], tuple[Tensor, ...]]:
        leaves = (x.requires_grad_() for x in (*inputs.tensors, *inputs.weights))
        return forward_or_backward(inputs, partial(self.norm(inputs), *leaves))


class TwoKernels(NormInPyTorch):
    """PyTorch's `rms_norm` of q and of k, eager or compiled, then `rope_qk`: three launches."""

    def __init__(self, name: str, compiles: bool = False) -> None:
        self.name, self.compiles = name, compiles
        if compiles:
            self.measures = f"the whole call, its norms by torch.compile with mode {MODE}"

    def norm(self, inputs: RowInputs) -> Callable:
        row, rms_norm = inputs.row, torch.nn.functional.rms_norm
        rope = inputs.rope(rope_kernels)

        def both(q: Tensor, k: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
            pairs = zip((q, k), weights, strict=True)
            return tuple(rms_norm(t, (row.d,), weight, EPS) for t, weight in pairs)

        normalize = _compiled(both) if self.compiles else both

        def call(*leaves: Tensor) -> tuple[Tensor, ...]:
            q, k = normalize(*leaves)
            return rope_kernels.rope_qk(q, k, rope, row.tensor_format, cu_seqlens=inputs.cu_seqlens)

        return call


class Drafted(NormInPyTorch):
    """Eager or compiled, by one of the drafts below."""

    def __init__(self, name: str, draft: Callable, compiles: bool = False) -> None:
        self.name, self.draft, self.compiles = name, draft, compiles
        if compiles:
            self.measures = COMPILED

    def norm(self, inputs: RowInputs) -> Callable:
        row, draft = inputs.row, self.draft
        dtype, columns = torch.bfloat16, row.d
        if draft is rounded_once:
            dtype, columns = torch.float32, row.d // 2  # a column for each pair
        angles = inputs.rope(rope_kernels)(inputs.table_len)[inputs.positions[0], 0, 0, :columns]
        tables = angles.cos().to(dtype), angles.sin().to(dtype)
        cos, sin = (table.view(*along_tokens(row), columns) for table in tables)

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


PROVIDERS = (
    TwoKernels("rms_norm of PyTorch, then rope_qk"),
    TwoKernels("rms_norm, compiled, then rope_qk", compiles=True),
    Drafted("eager, fp32", rounded_once),
    Drafted("torch.compile, fp32", rounded_once, compiles=True),
    Drafted("torch.compile, rounded often", rounded_often, compiles=True),
)
