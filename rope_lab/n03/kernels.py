"""Softmax in five kernels, in PyTorch's one, and in the reader's. Importing this loads Triton."""

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

SHAPES = (16_384, 1024), (131_072, 128)  # rows, elements of a row: 64 MiB each in fp32


@triton.jit
def softmax_kernel(
    x_ptr,  # input, (rows, n), contiguous
    out_ptr,  # output like x
    n,  # elements of a row
    BLOCK: tl.constexpr,  # n rounded up to a power of two
):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    exists = column < n
    x = tl.load(x_ptr + row * n + column, mask=exists, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n + column, e / tl.sum(e, axis=0), mask=exists)


def softmax(x: Tensor) -> Tensor:
    """The kernel of exercise 2: a program for each row."""
    rows, n = x.shape
    out = torch.empty_like(x)
    softmax_kernel[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
    return out


def softmax_in_five_kernels(x: Tensor) -> Tensor:
    """The formula in PyTorch: a maximum, a difference, an exponential, a sum and a quotient."""
    e = torch.exp(x - x.max(dim=1, keepdim=True).values)
    return e / e.sum(dim=1, keepdim=True)


def softmax_cases() -> dict[str, Callable[[], Tensor]]:
    """Those of the record "03/softmax": each function at both shapes."""
    softmaxes = {
        "five kernels": softmax_in_five_kernels,
        "torch.softmax": partial(torch.softmax, dim=1),
        "exercise 2": softmax,
    }
    cases = {}
    for rows, n in SHAPES:
        x = torch.randn(rows, n, device="cuda")
        cases[f"copy, {rows} rows"] = partial(torch.empty_like(x).copy_, x)
        cases |= {f"{name}, {rows} rows": partial(of, x) for name, of in softmaxes.items()}
    return cases
