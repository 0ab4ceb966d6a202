"""Kernels whose programs, or whose lanes, meet at one element, for `test_judge_races.py`.

In the interpreter all of them compute what is asked. On a GPU those that race may not.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def locked_sum_kernel(x_ptr, out_ptr, lock_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """Each program adds its block to the first of out, and may hold a lock for that."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0))
    if HOW == "lock":
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
    if HOW == "exchanged lock":
        while tl.atomic_xchg(lock_ptr, 1) == 1:
            pass
    if HOW == "ticket":
        while tl.load(lock_ptr, volatile=True) != tl.program_id(0):
            pass
    if HOW == "atomic":
        tl.atomic_add(out_ptr, part)
    else:
        tl.store(out_ptr, tl.load(out_ptr) + part)
    if HOW == "lock" or HOW == "exchanged lock":
        tl.debug_barrier()
        tl.atomic_xchg(lock_ptr, 0)
    if HOW == "ticket":
        tl.atomic_add(lock_ptr, 1)


def locked_sum(x, how):
    out = torch.zeros(1, dtype=x.dtype, device=x.device)
    lock = torch.zeros(1, dtype=torch.int32, device=x.device)
    grid = (triton.cdiv(x.numel(), 16),)
    locked_sum_kernel[grid](x, out, lock, x.numel(), HOW=how, BLOCK=16)
    return out


@triton.jit
def exchange_kernel(x_ptr, out_ptr, n, HOW: tl.constexpr, D: tl.constexpr):
    """Of each row of D, which one program has, the halves change places."""
    column = tl.arange(0, D)
    i = tl.program_id(0) * D + column
    exists = i < n
    partner = tl.where(column < D // 2, i + D // 2, i - D // 2)
    y = tl.load(x_ptr + partner, mask=exists, other=0.0)
    if HOW == "barrier":
        tl.debug_barrier()
    if HOW == "sum":
        y += 0 * tl.sum(y.to(tl.float32))
    if HOW == "too early a barrier":
        tl.debug_barrier()
        y = tl.load(x_ptr + partner, mask=exists, other=0.0)
    tl.store(out_ptr + i, y, mask=exists)


@triton.jit
def exchange_of_tiles_kernel(x_ptr, out_ptr, n, HOW: tl.constexpr, D: tl.constexpr):
    """The same, of two rows a program."""
    row = 2 * tl.program_id(0) + tl.arange(0, 2)[:, None]
    column = tl.arange(0, D)[None, :]
    exists = row * D + column < n
    partner = tl.where(column < D // 2, column + D // 2, column - D // 2)
    y = tl.load(x_ptr + row * D + partner, mask=exists)
    tl.store(out_ptr + row * D + column, y, mask=exists)


@triton.jit
def exchange_of_neighbors_kernel(x_ptr, out_ptr, n, HOW: tl.constexpr, D: tl.constexpr):
    """Neighbors change places: what a block of pairs has loaded, two blocks of halves store."""
    pair = tl.program_id(0) * D // 2 + tl.arange(0, D // 2)
    both = 2 * pair[:, None] + tl.arange(0, 2)[None, :]
    first, second = tl.split(tl.load(x_ptr + both, mask=both < n))
    tl.store(out_ptr + 2 * pair, second, mask=2 * pair < n)
    tl.store(out_ptr + 2 * pair + 1, first, mask=2 * pair < n)


KERNELS = {
    "tiles": exchange_of_tiles_kernel,
    "neighbors": exchange_of_neighbors_kernel,
}


def exchange(x, how="", warps=4):
    """In place; a tile has two rows."""
    d = x.shape[1]
    grid = (triton.cdiv(len(x), 2 if how == "tiles" else 1),)
    kernel = KERNELS.get(how, exchange_kernel)
    kernel[grid](x, x, x.numel(), HOW=how, D=d, num_warps=warps)


@triton.jit
def less_the_first_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """In place: the first element is loaded by all lanes, and stored by one."""
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x - tl.load(x_ptr), mask=i < n)


def less_the_first(x):
    less_the_first_kernel[(1,)](x, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))


@triton.jit
def by_scratch_kernel(x_ptr, scratch_ptr, out_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """A program turns its block round, by memory that is its own."""
    lane = tl.arange(0, BLOCK)
    first = tl.program_id(0) * BLOCK
    tl.store(scratch_ptr + first + lane, tl.load(x_ptr + first + lane, mask=first + lane < n))
    if HOW == "barrier" or HOW == "twice":
        tl.debug_barrier()
    if HOW == "same lane":
        y = tl.load(scratch_ptr + first + lane)
        lane = BLOCK - 1 - lane
    else:
        y = tl.load(scratch_ptr + first + BLOCK - 1 - lane)
    if HOW == "twice":
        tl.debug_barrier()
        tl.store(scratch_ptr + first + lane, 2 * y)
        tl.debug_barrier()
        y = tl.load(scratch_ptr + first + lane) / 2
    tl.store(out_ptr + first + lane, y, mask=first + lane < n)


def by_scratch(x, how=""):
    out, scratch = torch.empty_like(x), torch.empty_like(x)
    d = x.shape[1]
    by_scratch_kernel[(len(x),)](x, scratch, out, x.numel(), HOW=how, BLOCK=d)
    return out


@triton.jit
def added_up_kernel(x_ptr, total_ptr, out_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of x in its first element, from zero; who makes it zero?"""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    if HOW == "zeroed":
        tl.store(total_ptr, 0.0, mask=tl.program_id(0) == 0)
    tl.atomic_add(total_ptr, tl.sum(x))
    if HOW == "read":
        is_last = tl.program_id(0) == tl.num_programs(0) - 1
        tl.store(out_ptr, tl.load(total_ptr, mask=is_last), mask=is_last)


def added_up(x, how):
    total = torch.zeros(1, device=x.device)
    out = torch.empty(1, device=x.device) if how == "read" else total
    grid = (triton.cdiv(x.numel(), 16),)
    added_up_kernel[grid](x, total, out, x.numel(), HOW=how, BLOCK=16)
    return out


@triton.jit
def claimed_outside_kernel(x_ptr, out_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_cas(lock_ptr + 1, 0, 1)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def claimed_outside(x):
    out, lock = torch.empty_like(x), torch.zeros(1, dtype=torch.int32, device=x.device)
    block = triton.next_power_of_2(x.numel())
    claimed_outside_kernel[(1,)](x, out, lock, x.numel(), BLOCK=block)
    return out
