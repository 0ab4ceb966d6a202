"""Kernels whose programs, or whose lanes, meet at one element; `tests/lab/test_races.py` has them.

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
    if HOW == "ticket":
        while tl.load(lock_ptr, volatile=True) != tl.program_id(0):
            pass
    if HOW == "atomic":
        tl.atomic_add(out_ptr, part)
    else:
        tl.store(out_ptr, tl.load(out_ptr) + part)
    if HOW == "lock":
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
