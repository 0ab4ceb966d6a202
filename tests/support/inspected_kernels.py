"""Kernels for `test_inspect.py` that are more than a line of an element-wise one (`cells.py`)."""

import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh


def by_rows(kernel, x, *more, out=None, **options):
    """Launch a program for each row."""
    out = torch.empty_like(x) if out is None else out
    kernel[(len(x),)](x, out, x.shape[1], *more, **options)
    return out


def sums_by(kernel, x, **options):
    return by_rows(kernel, x, out=x.new_empty(len(x)), **options)


@triton.jit
def norm_kernel(x_ptr, out_ptr, D, eps, BLOCK: tl.constexpr, DTYPE: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), DTYPE)
    for first in range(0, D, BLOCK):
        column = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * D + column, mask=column < D, other=0.0).to(DTYPE)
        total += x * x
    r = tl.rsqrt(tl.sum(total) / D + eps.to(DTYPE))
    for first in range(0, D, BLOCK):
        column = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * D + column, mask=column < D)
        tl.store(out_ptr + row * D + column, x * r, mask=column < D)


def norm(x):
    return by_rows(norm_kernel, x, 1e-6, BLOCK=128, DTYPE=tl.float32)


@triton.jit
def sums_kernel(x_ptr, out_ptr, D, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * D + column, column < D, other=0.0)))


tuned_sums_kernel = triton.autotune([triton.Config({}), triton.Config({}, num_warps=8)], ["D"])(
    sums_kernel
)


@triton.jit
def pipelined_kernel(x_ptr, out_ptr, D, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), tl.zeros((BLOCK,), tl.float32)
    for first in tl.range(0, D, BLOCK, num_stages=3):
        column = first + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * D + column, mask=column < D, other=0.0)
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def tanh_kernel(x_ptr, out_ptr, D, scale, BLOCK: tl.constexpr):
    """Of a function that is imported before the lab is; its branches are in a library."""
    i, column = tl.program_id(0) * D + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    y = tanh(scale.to(tl.float32) * tl.load(x_ptr + i, mask=column < D))
    tl.store(out_ptr + i, y, mask=column < D)


def scaled_tanh(x, scale=0.5):
    return by_rows(tanh_kernel, x, scale, BLOCK=triton.next_power_of_2(x.shape[1]))


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], [])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def tuned(x):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


@triton.jit
def gather_kernel(table_ptr, ids_ptr, out_ptr, D, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    column, row = tl.arange(0, BLOCK), tl.load(ids_ptr + tl.program_id(0))
    if not WIDE:
        row = row.to(tl.int32)
    x = tl.load(table_ptr + row * D + column, mask=column < D)
    tl.store(out_ptr + tl.program_id(0) * D + column, x, mask=column < D)


def gather(table, ids, wide=True):
    """A row of the table for each id; `wide`: its offset has 64 bits."""
    d = table.shape[1]
    out = table.new_empty(len(ids), d)
    gather_kernel[(len(ids),)](table, ids, out, d, BLOCK=triton.next_power_of_2(d), WIDE=wide)
    return out


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    exists = (row < M) & (column < N)
    x = tl.load(x_ptr + row * N + column, mask=exists)
    tl.store(out_ptr + column * M + row, x, mask=exists)


def transpose(x):
    out = torch.empty(x.shape[::-1], device=x.device)
    grid = triton.cdiv(len(x), 16), triton.cdiv(x.shape[1], 16)
    transpose_kernel[grid](x, out, *x.shape, TILE=16)
    return out


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, K, HOW: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column, step = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, K, BLOCK):
        a = tl.load(a_ptr + row[:, None] * K + (first + step)[None, :])
        b = tl.load(b_ptr + (first + step)[:, None] * BLOCK + column[None, :])
        total += tl.dot(a, b, input_precision=HOW)
    tl.store(out_ptr + row[:, None] * BLOCK + column[None, :], total)


def product(a, b, how="ieee"):
    out = torch.empty(len(a), 32, device=a.device)
    product_kernel[(len(a) // 32,)](a, b, out, a.shape[1], HOW=how, BLOCK=32)
    return out
