"""How torch.compile normalizes q and k by their weights, then rotates them, for rows of norms."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

import rope_kernels
from benchmarks.case import EPS, FP32_OF_PAIRS, Row
from benchmarks.providers.installed import COMPILED, along_tokens, compiled, rotate_by
from benchmarks.providers.rows import RowProvider, forward_or_backward
from benchmarks.row_inputs import RowInputs


class CompiledNorm(RowProvider):
    """One of the drafts below. The forward saves what the backward needs.

    Tables are its own, so it has rows of one kind of table.
    """

    measures = COMPILED

    def __init__(self, name: str, draft: Callable) -> None:
        self.name, self.draft = name, draft

    def suits(self, row: Row) -> bool:
        return row.is_norm and row.table == FP32_OF_PAIRS

    def make(self, inputs: RowInputs) -> Callable[[], tuple[Tensor, ...]]:
        row, draft = inputs.row, self.draft
        dtype, columns = torch.bfloat16, row.d
        if draft is rounded_once:
            dtype, columns = torch.float32, row.d // 2  # a column for each pair
        angles = inputs.rope(rope_kernels)(inputs.table_len)[inputs.positions[0], 0, 0, :columns]
        tables = angles.cos().to(dtype), angles.sin().to(dtype)
        cos, sin = (table.view(*along_tokens(row), columns) for table in tables)

        def both(q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor) -> tuple[Tensor, ...]:
            return draft(q, q_weight, cos, sin), draft(k, k_weight, cos, sin)

        # A compiled backward runs again here, and has to keep its buffers.
        functorch_config.donated_buffer = False
        leaves = (x.requires_grad_() for x in (*inputs.tensors, *inputs.weights))
        return forward_or_backward(inputs, partial(compiled(both), *leaves))


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


PROVIDERS = (
    CompiledNorm("torch.compile, fp32", rounded_once),
    CompiledNorm("torch.compile, rounded often", rounded_often),
)
