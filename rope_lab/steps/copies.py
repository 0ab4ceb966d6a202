"""What is measured of memory alone: copies, in order or not, and each half of a copy by itself.

Importing this loads Triton.
"""

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..timing import measure

SIZES = tuple(2**e for e in range(14, 31, 2))  # bytes of a copied tensor: 16 KiB to 1 GiB
_BLOCK, _TILES = 1024, 4  # elements of 4 bytes; a program has so many blocks of them


@triton.jit
def read_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, TILES: tl.constexpr):
    """Reads everything, and writes 4 bytes a program so that no load can be left out."""
    first = tl.program_id(0).to(tl.int64) * BLOCK * TILES
    total = tl.zeros((BLOCK,), tl.int32)
    for tile in tl.static_range(TILES):
        total += tl.load(x_ptr + first + tile * BLOCK + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def every_eighth_kernel(
    x_ptr,  # input, contiguous
    out_ptr,  # output, contiguous
    N: tl.constexpr,  # number of elements, a power of two
    BLOCK: tl.constexpr,  # elements a program, a power of two
):
    """Reads x in the order 0, 8, 16, ..., then 1, 9, 17, ..., and so on."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = i % (N // 8) * 8 + i // (N // 8)
    tl.store(out_ptr + i, tl.load(x_ptr + source))


def copy_strided(x: Tensor) -> Tensor:
    """`x` by eighths, for a report of ncu; its number of elements is a power of two."""
    out = torch.empty_like(x)
    every_eighth_kernel[(x.numel() // _BLOCK,)](x, out, N=x.numel(), BLOCK=_BLOCK)
    return out


def copy_of(size: int) -> Callable[[], Tensor]:
    """A call that copies so many bytes."""
    x = torch.zeros(size, dtype=torch.uint8, device="cuda")
    return partial(torch.empty_like(x).copy_, x)


def cold_and_warm() -> dict[str, list]:
    """Microseconds of copies of `SIZES`: with an empty L2, and over the same buffers."""
    found = {"bytes": list(SIZES), "cold": [], "warm": []}
    for copy in map(copy_of, SIZES):
        found["cold"].append(measure({"copy": copy})["copy"].median_us)
        found["warm"].append(1e3 * triton.testing.do_bench_cudagraph(copy, return_mode="median"))
    return found


def each_way() -> dict[str, list]:
    """Microseconds to read so many bytes, to write as many, and to do both."""
    found = {"bytes": [2**e for e in range(26, 33)], "read": [], "write": [], "copy": []}
    for size in found["bytes"]:
        for name, timing in measure(_each_way_of(size), rounds=3).items():
            found[name].append(timing.median_us)
    return found


def _each_way_of(size: int) -> dict[str, Callable[[], object]]:
    x = torch.randint(100, (size // 4,), device="cuda", dtype=torch.int32)
    out, sums = torch.empty_like(x), x.new_empty(x.numel() // (_BLOCK * _TILES))
    return {
        "read": partial(read_kernel[(len(sums),)], x, sums, _BLOCK, _TILES),
        "write": partial(out.fill_, 7),
        "copy": partial(out.copy_, x),
    }
