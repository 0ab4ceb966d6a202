"""What a GPU can do, to be measured: copies, multiply-adds, programs, bytes in flight.

Importing this loads Triton.
"""

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..records import Observation
from ..timing import measure

SIZES = tuple(2**e for e in range(14, 31, 2))  # bytes of a copied tensor: 16 KiB to 1 GiB
BYTES = 2**28  # of the input of a copy in flight
BLOCKS = 512, 1024, 2048  # elements of bf16, so 1, 2 and 4 KiB in flight a program
PROGRAMS = 1, 2, 3, 4, 6, 8, 12, 16, 24, 32  # on each SM, each of one warp


# copies of every size


def copy_of(size: int) -> Callable[[], Tensor]:
    """A call that copies this many bytes."""
    x = torch.zeros(size, dtype=torch.uint8, device="cuda")
    return partial(torch.empty_like(x).copy_, x)


def cold_and_warm() -> dict[str, list]:
    """Microseconds of a copy of each size, with an empty L2, and with the same buffers again."""
    found: dict[str, list] = {"bytes": list(SIZES), "cold": [], "warm": []}
    for size in SIZES:
        copy = copy_of(size)
        warm_ms = triton.testing.do_bench_cudagraph(copy, return_mode="median")
        found["warm"].append(1e3 * warm_ms)
        found["cold"].append(measure({"copy": copy})["copy"].median_us)
    return found


# fused multiply-adds, more and more of them, to measure P


@triton.jit
def fma_kernel(x_ptr, out_ptr, a, b, K: tl.constexpr, BLOCK: tl.constexpr):
    """K fused multiply-adds for each element that is read and written."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i).to(tl.float32)
    for _ in range(K // 8):
        for _ in tl.static_range(8):  # eight in a row, so that the loop itself costs little
            x = x * a + b
    tl.store(out_ptr + i, x)


def multiply_adds(x: Tensor, out: Tensor, K: int, block: int = 1024) -> Callable[[], object]:
    """A call that applies K of them to `x`, a multiple of 8; `block` divides its elements."""
    return partial(fma_kernel[(x.numel() // block,)], x, out, 0.999, 0.001, K=K, BLOCK=block)


# How many bytes have to be in flight on an SM? Between a load and its store a program has one block
# in flight. All instructions and all bytes are the same with few programs and with many.


@triton.jit
def persistent_copy_kernel(
    x_ptr,  # input, contiguous
    out_ptr,  # output like x
    n,  # number of elements, a multiple of BLOCK
    BLOCK: tl.constexpr,  # elements that a program has in flight
):
    for first in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=1):
        i = first + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def one_store_kernel(out_ptr):
    """As little as a program can do and still be there."""
    tl.store(out_ptr + tl.program_id(0), tl.program_id(0))


def copies_in_flight() -> dict[str, list]:
    """Bytes a microsecond, read and written, for each block and each number of programs an SM."""
    x = torch.zeros(BYTES // 2, dtype=torch.bfloat16, device="cuda")
    out = torch.empty_like(x)
    sms = torch.cuda.get_device_properties().multi_processor_count
    found = {"programs": list(PROGRAMS), "bytes": [2 * block for block in BLOCKS], "rates": []}

    def copy(block: int, programs: int) -> torch.Tensor:
        grid = (programs * sms,)
        persistent_copy_kernel[grid](x, out, x.numel(), BLOCK=block, num_warps=1)
        return out

    for block in BLOCKS:
        cases = {str(k): partial(copy, block, k) for k in PROGRAMS}
        times = measure(cases, rounds=3)
        found["rates"].append([2 * BYTES / times[str(k)].median_us for k in PROGRAMS])
    plain = measure({"copy_": copy_of(BYTES)})["copy_"].median_us
    return found | {"copy": 2 * BYTES / plain}


def of_a_copy(flight: Observation) -> dict[int, dict[float, float]]:
    """Bytes in flight of a program -> KiB in flight on an SM -> share of PyTorch's copy."""
    found = {}
    for size, rates in zip(flight["bytes"], flight["rates"], strict=True):
        pairs = zip(flight["programs"], rates, strict=True)
        found[size] = {k * size / 1024: rate / flight["copy"] for k, rate in pairs}
    return found
