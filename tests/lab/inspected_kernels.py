"""Kernels for `test_inspect.py`: each with one property that `lab.inspect` has to see."""

from functools import partial
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.libdevice import tanh

WIDTH = 300  # columns: no block divides them


def rows(size: int, device: str, width: int = WIDTH, tensors: int = 1) -> tuple:
    return tuple(torch.randn(size, width, device=device) for _ in range(tensors))


two_rows = partial(rows, tensors=2)


def half_of_the_rows(size: int, device: str) -> tuple:
    """Of a tensor with twice as many."""
    return (rows(2 * size, device)[0][:size],)


def filled(kernel, *tensors: Tensor, block: int = 128, **options) -> Tensor:
    """A tensor like the first, of which each program of a kernel fills a block."""
    out = torch.empty_like(tensors[0])
    grid = (triton.cdiv(out.numel(), block),)
    kernel[grid](*tensors, out, out.numel(), BLOCK=block, **options)
    return out


@triton.jit
def swiglu_kernel(a_ptr, b_ptr, out_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + i, mask=i < n)
    b = tl.load(b_ptr + i * STEP, mask=i < n)
    tl.store(out_ptr + i, a * tl.sigmoid(a) * b, mask=i < n)


def swiglu(a: Tensor, b: Tensor, step: int = 1) -> Tensor:
    return filled(swiglu_kernel, a, b, STEP=step)


@triton.jit
def gather_kernel(table_ptr, ids_ptr, out_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    position = tl.load(ids_ptr + row)
    x = tl.load(table_ptr + position * WIDTH + column, mask=column < WIDTH)
    tl.store(out_ptr + row * WIDTH + column, x, mask=column < WIDTH)


def gather(table: Tensor, ids: Tensor) -> Tensor:
    """A row of the table for each id."""
    rows, width = len(ids), table.shape[1]
    out = table.new_empty(rows, width)
    block = triton.next_power_of_2(width)
    gather_kernel[(rows,)](table, ids, out, WIDTH=width, BLOCK=block)
    return out


@triton.jit
def from_the_left_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + i - 1, mask=(i > 0) & (i < n))
    tl.store(out_ptr + i, left, mask=i < n)


def from_the_left(x: Tensor) -> Tensor:
    return filled(from_the_left_kernel, x)


def from_the_left_in_pytorch(x: Tensor) -> Tensor:
    return torch.cat((torch.zeros_like(x.flatten()[:1]), x.flatten()[:-1])).view_as(x)


def swiglu_in_pytorch(a: Tensor, b: Tensor) -> Tensor:
    return torch.nn.functional.silu(a) * b


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


def norm(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    norm_kernel[(len(x),)](x, out, x.shape[1], 1e-6, BLOCK=128, DTYPE=tl.float32)
    return out


def norm_in_pytorch(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def tuned(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


def double(x: Tensor) -> Tensor:
    return 2 * x


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, AT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + AT, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


def total(x: Tensor, at: int = 0) -> Tensor:
    out = torch.zeros(1, device=x.device)
    sum_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), AT=at, BLOCK=128)
    return out


@triton.jit
def bf16_sum_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))))


def bf16_sums(x: Tensor) -> Tensor:
    out = torch.empty(len(x), dtype=torch.bfloat16, device=x.device)
    bf16_sum_kernel[(len(x),)](x, out, BLOCK=x.shape[1])
    return out


def bf16_rows(size: int, device: str) -> tuple:
    return (torch.randn(size, 64, device=device).bfloat16(),)


@triton.jit
def tanh_kernel(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tanh(scale.to(tl.float32) * x), mask=i < n)


def scaled_tanh(x: Tensor) -> Tensor:
    return filled(tanh_kernel, x, scale=0.5)


CONFIGS = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256}, num_warps=8)]


@triton.autotune(CONFIGS, key=["D"])
@triton.jit
def tuned_sums_kernel(x_ptr, out_ptr, D, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, WIDTH)
    x = tl.load(x_ptr + tl.program_id(0) * D + column, mask=column < D, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


def tuned_sums(x: Tensor) -> Tensor:
    out, d = torch.empty(len(x), device=x.device), x.shape[1]
    tuned_sums_kernel[(len(x),)](x, out, d, WIDTH=triton.next_power_of_2(d))
    return out


def both(x: Tensor, y: Tensor) -> Tensor:
    y.fill_(7.0)
    return tuned(x)


def both_in_pytorch(x: Tensor, y: Tensor) -> Tensor:
    y += 1
    return 2 * x


def the_other(x: Tensor, y: Tensor) -> None:
    y.copy_(tuned(x))


@triton.jit
def turned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * tl.cos(x), mask=i < n)


def turned(x: Tensor) -> Tensor:
    return filled(turned_kernel, x)


def two_launches(x: Tensor) -> Tensor:
    return tuned(norm(x))


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, K, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column, step = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, K, BLOCK):
        a = tl.load(a_ptr + row[:, None] * K + (first + step)[None, :])
        b = tl.load(b_ptr + (first + step)[:, None] * BLOCK + column[None, :])
        total += tl.dot(a, b)
    tl.store(out_ptr + row[:, None] * BLOCK + column[None, :], total)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty(len(a), 32, device=a.device)
    matmul_kernel[(len(a) // 32,)](a, b, out, a.shape[1], BLOCK=32)
    return out


def matrices(size: int, device: str) -> tuple:
    return (
        torch.randn(32 * size, 64, device=device).half(),
        torch.randn(64, 32, device=device).half(),
    )


@triton.jit
def turned_by_tiles_kernel(x_ptr, out_ptr, M, N, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    exists = (row < M) & (column < N)
    x = tl.load(x_ptr + row * N + column, mask=exists)
    tl.store(out_ptr + column * M + row, x, mask=exists)


def turned_by_tiles(x: Tensor) -> Tensor:
    out = torch.empty(x.shape[::-1], device=x.device)
    grid = triton.cdiv(len(x), 16), triton.cdiv(x.shape[1], 16)
    turned_by_tiles_kernel[grid](x, out, *x.shape, TILE=16)
    return out


def turned_in_pytorch(x: Tensor) -> Tensor:
    return x.T.contiguous()


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, PRECISION: tl.constexpr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i[None, :]
    a = tl.load(a_ptr + tl.program_id(0) * SIZE * SIZE + at)
    product = tl.dot(a, tl.load(b_ptr + at), input_precision=PRECISION)
    tl.store(out_ptr + tl.program_id(0) * SIZE * SIZE + at, product)


def product(a: Tensor, b: Tensor, precision: str = "ieee") -> Tensor:
    out = torch.empty_like(a)
    product_kernel[(len(a) // 32,)](a, b, out, PRECISION=precision, SIZE=32)
    return out


def square_matrices(size: int, device: str) -> tuple:
    return torch.randn(32 * size, 32, device=device), torch.randn(32, 32, device=device)


def matmul_in_pytorch(a: Tensor, b: Tensor) -> Tensor:
    return (a.double() @ b.double()).float()


def onto_its_input(x: Tensor) -> Tensor:
    """Twice x, in x itself, where the reference leaves x alone."""
    return x.copy_(tuned(x))


# offsets: WIDE says whether they have 64 bits


@triton.jit
def of_a_block_kernel(
    x_ptr, out_ptr, n, PARTS: tl.constexpr, PART: tl.constexpr, WIDE: tl.constexpr
):
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    for part in tl.static_range(PARTS):
        i = (program * PARTS + part) * PART + tl.arange(0, PART)
        tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def of_a_block(x: Tensor, wide: bool, parts: int = 1) -> Tensor:
    out, n = torch.empty_like(x), x.numel()
    grid = (triton.cdiv(n, 128 * parts),)
    of_a_block_kernel[grid](x, out, n, PARTS=parts, PART=128, WIDE=wide)
    return out


@triton.jit
def of_an_index_kernel(x_ptr, index_ptr, out_ptr, D, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    column = tl.arange(0, BLOCK)
    row = tl.load(index_ptr + tl.program_id(0))
    if not WIDE:
        row = row.to(tl.int32)
    x = tl.load(x_ptr + row * D + column, mask=column < D)
    tl.store(out_ptr + tl.program_id(0) * D + column, x, mask=column < D)


def of_an_index(x: Tensor, index: Tensor, wide: bool) -> Tensor:
    d = x.shape[1]
    out = torch.empty(len(index), d, device=x.device)
    block = triton.next_power_of_2(d)
    of_an_index_kernel[(len(index),)](x, index, out, d, BLOCK=block, WIDE=wide)
    return out


@triton.jit
def from_zero_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Wrong beyond 2^31: what wraps around is below zero, and left out."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = (i >= 0) & (i < n)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=exists), mask=exists)


def from_zero(x: Tensor) -> Tensor:
    return filled(from_zero_kernel, x)


def rows_and_index(size: int, device: str) -> tuple:
    """Of many rows a few, of which one is far from the first."""
    (x,) = rows(size, device)
    index = torch.randperm(size, device=device)[:3]
    index[1] = size - 1
    return x, index


def taken(x: Tensor, index: Tensor) -> Tensor:
    return x[index]


@triton.jit
def random_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Twice x. A generator of random numbers wraps around on purpose, and moves no offset."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.where(tl.rand(7, i) < 2, 2 * x, 0), mask=i < n)


def randomly(x: Tensor) -> Tensor:
    return filled(random_kernel, x)


@triton.jit
def often_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    while tl.min(i) < n:
        tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
        i += BLOCK * tl.num_programs(0)


def often(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    often_kernel[(2,)](x, out, x.numel(), BLOCK=64)
    return out


# what no page can know: the limit, and more than the least time


@triton.jit
def by_descriptor_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, [n], [1], [BLOCK])
    first = tl.program_id(0) * BLOCK
    out.store([first], 2 * x.load([first]))


def by_descriptor(x: Tensor) -> Tensor:
    triton.set_allocator(lambda size, align, stream: torch.empty(size, device=x.device))
    return filled(by_descriptor_kernel, x)


@triton.jit
def at_one_address_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + 0 * i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def at_one_address(x: Tensor) -> Tensor:
    out = torch.zeros(1, device=x.device)
    at_one_address_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


def total_in_pytorch(x: Tensor) -> Tensor:
    return x.sum()[None]


@triton.jit
def pipelined_kernel(x_ptr, out_ptr, D, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), tl.zeros((BLOCK,), tl.float32)
    for first in tl.range(0, D, BLOCK, num_stages=3):
        column = first + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * D + column, mask=column < D, other=0.0)
    tl.store(out_ptr + row, tl.sum(total))


def pipelined(x: Tensor) -> Tensor:
    out = torch.empty(len(x), device=x.device)
    pipelined_kernel[(len(x),)](x, out, x.shape[1], BLOCK=128)
    return out


def sums(x: Tensor) -> Tensor:
    return x.sum(-1)


@triton.jit
def early_return_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    if first >= n:
        return
    i = first + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def early_return(x: Tensor) -> Tensor:
    return filled(early_return_kernel, x)


@triton.jit
def where_positive_kernel(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.load(b_ptr + i, mask=(i < n) & (a > 0), other=0.0), mask=i < n)


def where_positive(a: Tensor, b: Tensor) -> Tensor:
    return filled(where_positive_kernel, a, b)


def where_positive_in_pytorch(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(a > 0, b, 0)


@triton.jit
def of_a_library_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tanh(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


def of_a_library(x: Tensor) -> Tensor:
    """By a function whose branches are in a library: either side may be the usual one."""
    return filled(of_a_library_kernel, x)


def tanh_in_pytorch(x: Tensor) -> Tensor:
    return torch.tanh(x)


def table_and_ids(size: int, device: str) -> tuple:
    table = torch.randn(500, WIDTH, device=device)
    return table, torch.randint(500, (size,), device=device)


def taken_from_a_table(table: Tensor, ids: Tensor) -> Tensor:
    return table[ids]


@triton.jit
def spilled_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x - tl.sum(x))


def spilled(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    spilled_kernel[(len(x),)](x, out, BLOCK=x.shape[1])
    return out


def minus_its_sum(x: Tensor) -> Tensor:
    return x - x.sum(-1, keepdim=True)


def wide_rows(size: int, device: str) -> tuple:
    return rows(size, device, width=2**15)


# what the interpreter runs, and no compiler takes


SCALE = 2.0


@triton.jit
def scaled_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, SCALE * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def scaled(x: Tensor) -> Tensor:
    return filled(scaled_kernel, x)


def scaled_if_there_is_something(x: Tensor) -> Tensor:
    return scaled(x) if x.count_nonzero().item() else x


class Tensors(NamedTuple):
    x: Tensor
    out: Tensor


@triton.jit
def of_a_tuple_kernel(tensors, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(tensors.out + i, 2 * tl.load(tensors.x + i, mask=i < n), mask=i < n)


def of_a_tuple(x: Tensor) -> Tensor:
    tensors = Tensors(x, torch.empty_like(x))
    of_a_tuple_kernel[(triton.cdiv(x.numel(), 128),)](tensors, x.numel(), BLOCK=128)
    return tensors.out
