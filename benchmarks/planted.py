"""Three planted bugs and two slow kernels: what do `lab.inspect` and other tools say of them?

    python -m benchmarks.planted                        # lab.inspect of all; no GPU is needed
    python -m benchmarks.planted stride --launch        # one launch on a GPU, for another tool
    compute-sanitizer python -m benchmarks.planted "past the end" --launch
    ncu -k my_rope_kernel python -m benchmarks.planted "slow: naive RoPE" --launch --large

A launch prints whether its result is that of PyTorch: two of the three bugs may well pass this.
`PYTORCH_NO_CUDA_MEMORY_CACHING=1` gives each tensor memory of its own; by default PyTorch's
memory goes on behind a tensor, where compute-sanitizer can't see its end.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from benchmarks.inspected import headline, our_rung_1, rotated

_COLUMNS = 1000  # no multiple of a block
_TOLERANCE = (2e-2, 2e-2)  # relative and absolute: bf16, rounded


@dataclass(frozen=True)
class Planted:
    """A function with what `lab.inspect` needs; `bug` says what is planted in it."""

    function: Callable
    reference: Callable
    make: Callable
    small: int
    large: int
    bug: str


@triton.jit
def silu_kernel(x_ptr, out_ptr, stride, columns, BLOCK: tl.constexpr):
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = column < columns
    at = tl.program_id(0) * stride + column
    x = tl.load(x_ptr + at, mask=exists)  # the bug: the stride is that of out
    tl.store(out_ptr + at, x * tl.sigmoid(x), mask=exists)


def silu_of_a_slice(x: Tensor) -> Tensor:
    n, columns = x.shape
    out = torch.empty(n, columns, device=x.device)
    silu_kernel[(n, triton.cdiv(columns, 256))](x, out, out.stride(0), columns, BLOCK=256)
    return out


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def slice_of_rows(size: int, device: str) -> tuple:
    """The first half of each of the rows of a wider tensor: every address is in its memory."""
    return (torch.randn(size, 2 * _COLUMNS, device=device)[:, :_COLUMNS],)


@triton.jit
def differences_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    column = tl.program_id(1) * (BLOCK - 1) + lane  # the bug: blocks overlap by an element
    exists = column < columns
    at = tl.program_id(0) * columns + column
    x = tl.load(x_ptr + at, mask=exists)
    has_next = (lane < BLOCK - 1) & (column + 1 < columns)
    after = tl.load(x_ptr + at + 1, mask=has_next, other=0.0)
    # the last lane has no `after`; the next program stores this element, too, and rightly
    tl.store(out_ptr + at, after - x, mask=exists)


def differences_in_overlapping_blocks(x: Tensor) -> Tensor:
    out, (n, columns) = torch.empty_like(x), x.shape
    differences_kernel[(n, triton.cdiv(columns - 1, 127))](x, out, columns, BLOCK=128)
    return out


def differences(x: Tensor) -> Tensor:
    """Of each element and the next; after the last one there is a zero."""
    return torch.diff(x, append=torch.zeros_like(x[:, :1]))


@triton.jit
def square_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + column
    x = tl.load(x_ptr + at)  # the bug: no mask; the last block of the last row leaves x
    tl.store(out_ptr + at, x * x, mask=column < columns)


def square_without_a_mask(x: Tensor) -> Tensor:
    out, (n, columns) = torch.empty_like(x), x.shape
    square_kernel[(n, triton.cdiv(columns, 256))](x, out, columns, BLOCK=256)
    return out


def rows(size: int, device: str) -> tuple:
    return (torch.randn(size, _COLUMNS, device=device),)


@triton.jit
def transposed_kernel(x_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # in out, (columns, n)
    exists = i < n * columns
    x = tl.load(x_ptr + i % n * columns + i // n, mask=exists)  # lanes are a row apart
    tl.store(out_ptr + i, x, mask=exists)


def transposed_by_lanes(x: Tensor) -> Tensor:
    n, columns = x.shape
    out = torch.empty(columns, n, dtype=x.dtype, device=x.device)
    transposed_kernel[(triton.cdiv(x.numel(), 256),)](x, out, n, columns, BLOCK=256)
    return out


def transposed(x: Tensor) -> Tensor:
    return x.T.contiguous()


def long_columns(size: int, device: str) -> tuple:
    """At least as many rows as a block has lanes, so that each lane takes another row."""
    return (torch.randn(size, 256, device=device, dtype=torch.bfloat16),)


PLANTED = {
    "stride": Planted(
        *(silu_of_a_slice, silu, slice_of_rows, 4, 16384),
        bug="the rows of x are taken to be as far apart as those of out",
    ),
    "collision": Planted(
        *(differences_in_overlapping_blocks, differences, rows, 4, 16384),
        bug="two programs store different values in one element: right if the right one is later",
    ),
    "past the end": Planted(
        *(square_without_a_mask, torch.square, rows, 4, 16384),
        bug="24 elements behind the last row are loaded; they are never stored",
    ),
    "slow: naive RoPE": Planted(
        *(our_rung_1, rotated, headline, 1, 2048),
        bug="partner, sine and cosine for each element",
    ),
    "slow: transposed": Planted(
        *(transposed_by_lanes, transposed, long_columns, 256, 2**18),
        bug="2 of the 32 bytes of a sector are used by a load",
    ),
}


def inspected(planted: Planted, gpu: str):
    """What `lab.inspect` finds."""
    import rope_lab as lab

    functions = planted.function, planted.reference, planted.make
    return lab.inspect(*functions, small=planted.small, large=planted.large, gpu=gpu)


def launched(planted: Planted, size: int) -> str:
    """One launch on the GPU that is here: is the result that of PyTorch?"""
    torch.manual_seed(0)
    inputs = planted.make(size, "cuda")
    torch.cuda.synchronize()
    result = planted.function(*inputs)
    torch.cuda.synchronize()
    wanted = planted.reference(*inputs)
    wrong = ~torch.isclose(result.float(), wanted.float(), *_TOLERANCE)
    return f"{int(wrong.sum())} of {wrong.numel()} elements are wrong"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="pieces of names; none: all")
    parser.add_argument("--gpu", default="sm_90")
    parser.add_argument("--launch", action="store_true", help="once, on the GPU that is here")
    parser.add_argument("--large", action="store_true", help="launch at the large size")
    chosen = parser.parse_args(arguments)
    for name, planted in PLANTED.items():
        if chosen.names and not any(piece in name for piece in chosen.names):
            continue
        if chosen.launch:
            size = planted.large if chosen.large else planted.small
            print(f"{name}: {launched(planted, size)}", flush=True)
        else:
            print(f"{name}: {planted.bug}\n{inspected(planted, chosen.gpu)}\n", flush=True)
    return 0


if __name__ == "__main__":
    from benchmarks.planted import main as _main  # not `__main__`: the child imports it by name

    sys.exit(_main(sys.argv[1:]))
