"""The solution of notebook 13's loop, for mistakes made in it. Importing it loads Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(
    x_ptr,  # (n, D), contiguous
    out_ptr,  # (n,)
    D: tl.constexpr,
    BLOCK: tl.constexpr,  # elements that a program has at a time, a power of two
):
    row = tl.program_id(0).to(tl.int64)
    largest, total = -float("inf"), 0.0
    for first in range(0, D, BLOCK):
        column = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * D + column, mask=column < D, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(largest, tl.max(x))
        total = total * tl.exp(largest - grown) + tl.sum(tl.exp(x - grown))
        largest = grown
    tl.store(out_ptr + row, largest + tl.log(total))


def logsumexp(x, block=4096):
    n, d = x.shape
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    logsumexp_kernel[(n,)](x, out, D=d, BLOCK=block)
    return out
