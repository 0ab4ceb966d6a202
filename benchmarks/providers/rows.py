"""Providers for rows: a copy, ours, torch.compile, and the base classes of other projects'.

Each provider gets new tensors, so that it can't be right because another one was.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch._functorch import config as functorch_config

import rope_kernels
from benchmarks.case import (
    BF16,
    BF16_OF_PAIRS,
    EPS,
    FP32,
    FP32_OF_PAIRS,
    OURS,
    ROTATION,
    Row,
    TableKind,
)
from benchmarks.provider import Function, Provider, Run
from benchmarks.providers.installed import COMPILED, along_tokens, compiled, rotate_by
from benchmarks.row_inputs import RowInputs
from benchmarks.workload import Layout, distance

_BF16_TABLES = BF16, BF16_OF_PAIRS


class RowProvider(Provider):
    """A provider for rows. `make` returns the call, which returns the results."""

    largest_error = 2e-2  # in bf16, after several roundings

    def suits(self, row: Row) -> bool:
        """Whether it supports the row."""
        raise NotImplementedError

    def make(self, inputs: RowInputs) -> Callable[[], tuple[Tensor, ...]]:
        """The call, with new inputs."""
        raise NotImplementedError

    def how(self, row: Row) -> str:
        """Its layout, and how it differs from the row."""
        return row.tensor_format

    def cannot(self, row: Row, direction: str) -> str | None:
        return None if self.suits(row) else "that is no call that it has"

    def allowed_error(self, row: Row) -> float:
        return self.largest_error

    def function(self, inputs: RowInputs) -> Function:
        return self.make(inputs.fresh())

    def run(self, inputs: RowInputs, function: Function, direction: str) -> Run:
        return Run(function, Layout(inputs.row.tensor_format), how=self.how(inputs.row))

    @torch.no_grad()
    def error(
        self, inputs: RowInputs, results: tuple[Tensor, ...], layout: Layout, direction: str
    ) -> float:
        return distance(inputs.found(results), inputs.right(), inputs.v.dtype)


class CopyOfRows(RowProvider):
    """`copy_` of q and k, and for a cache also v, from one buffer to another."""

    name = "copy_"
    is_ours_or_a_limit = True

    def suits(self, row: Row) -> bool:
        return True

    def make(self, inputs: RowInputs) -> Callable[[], tuple[Tensor, ...]]:
        source = torch.cat([x.detach().flatten() for x in inputs.rows])
        out = torch.empty_like(source)
        return lambda: (out.copy_(source),)

    def run(self, inputs: RowInputs, function: Function, direction: str) -> Run:
        return Run(function)


class OursOfRows(RowProvider):
    """`rope_kernels`, by its public functions."""

    name = OURS
    is_ours_or_a_limit = True

    def suits(self, row: Row) -> bool:
        return True

    def allowed_error(self, row: Row) -> float:
        rounds_more = row.rounding == "model" or row.table in _BF16_TABLES
        return 1e-2 if rounds_more else 5e-3

    def how(self, row: Row) -> str:
        return f"{row.tensor_format}, in place" if row.inplace else row.tensor_format

    def make(self, inputs: RowInputs) -> Callable[[], tuple[Tensor, ...]]:
        function, given = inputs.function(rope_kernels), inputs.given(rope_kernels)
        call = partial(function, *given, **inputs.options)
        if inputs.row.to_cache:
            return lambda: (call(), inputs.k_cache, inputs.v_cache)
        return forward_or_backward(inputs, lambda: _as_tuple(call()))


class RotationInPlace(RowProvider):
    """`rope_qk` of the same q and k, in place: decoding steps are compared with it."""

    name = ROTATION
    is_ours_or_a_limit = True

    def suits(self, row: Row) -> bool:
        return row.decodes

    def how(self, row: Row) -> str:
        return "thd, in place: it has no v, and writes to no cache"

    def make(self, inputs: RowInputs) -> Callable[[], tuple[Tensor, ...]]:
        return inputs.rotation_in_place(rope_kernels)

    def error(
        self, inputs: RowInputs, results: tuple[Tensor, ...], layout: Layout, direction: str
    ) -> float:
        """The error, with k in the place that it would have in the cache."""
        q, k = results
        k_of_cache, v = (torch.empty_like(x) for x in (inputs.k_cache, inputs.v_cache))
        k_of_cache.flatten(0, 1)[inputs.slots], v.flatten(0, 1)[inputs.slots] = k, inputs.v
        return super().error(inputs, (q, k_of_cache, v), layout, direction)


class CompiledNorm(RowProvider):
    """One of the functions below, with torch.compile. It has its own tables."""

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

        # The compiled backward runs several times, so it must keep its buffers.
        functorch_config.donated_buffer = False
        leaves = (x.requires_grad_() for x in (*inputs.tensors, *inputs.weights))
        return forward_or_backward(inputs, partial(compiled(both), *leaves))


def rounded_once(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Compute in fp32 with fp32 tables, and round the result."""
    exact = x.float()
    row = weight * exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
    first, second = row.chunk(2, -1)
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.cat(turned, -1).to(x.dtype)


def rounded_often(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Round as Hugging Face's Qwen 3, with tables in the dtype of `x`."""
    exact = x.float()
    row = exact * torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + EPS)
    return rotate_by(weight * row.to(x.dtype), cos, sin)


class PackedNorm(RowProvider):
    """A kernel that normalizes and rotates q and k in a packed projection, in place.

    The projection has the heads of q, k and v in this order. v isn't changed.
    """

    of_tables: tuple[TableKind, ...] = (FP32, *_BF16_TABLES)

    def suits(self, row: Row) -> bool:
        rounds_once = row.rounding == "once" and not row.norm_after
        is_forward_norm = row.is_norm and not row.backward
        in_a_row = row.tensor_format in ("bshd", "thd")
        return is_forward_norm and rounds_once and in_a_row and row.table in self.of_tables

    @staticmethod
    def packed(inputs: RowInputs) -> Tensor:
        """(tokens, (h + 2 kv heads) d): q, k and v."""
        q, k = (x.reshape(inputs.row.tokens, -1) for x in inputs.tensors)
        return torch.cat((q, k, inputs.v.reshape(inputs.row.tokens, -1)), 1)

    @staticmethod
    def q_and_k(inputs: RowInputs, qkv: Tensor) -> tuple[Tensor, ...]:
        """Views of the packed projection in the row's format."""
        row = inputs.row
        q, k, _ = qkv.view(row.tokens, -1, row.d).split([row.h, row.k_heads, row.k_heads], 1)
        if row.is_packed:
            return q, k
        return q.unflatten(0, (row.b, row.s)), k.unflatten(0, (row.b, row.s))


def forward_or_backward(
    inputs: RowInputs, call: Callable[[], tuple[Tensor, ...]]
) -> Callable[[], tuple[Tensor, ...]]:
    """The call, or for a backward, the gradients of its inputs."""
    if not inputs.row.backward:
        return call
    leaves = [*inputs.tensors, *inputs.weights]
    return partial(torch.autograd.grad, call(), leaves, inputs.grads, retain_graph=True)


def cos_beside_sin(inputs: RowInputs, dtype: torch.dtype) -> Tensor:
    """(positions, d): cosines of pairs, then their sines, as in serving engines."""
    angles = inputs.rope(rope_kernels)(inputs.table_len)[:, 0, 0, : inputs.row.d // 2]
    return torch.cat((angles.cos(), angles.sin()), 1).to(dtype)


def _as_tuple(result: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


PROVIDERS = (
    *(CopyOfRows(), OursOfRows(), RotationInPlace()),
    CompiledNorm("torch.compile, fp32", rounded_once),
    CompiledNorm("torch.compile, rounded often", rounded_often),
)
