"""What notebook 08 measures of memory alone: copies, and each half of a copy by itself.

Importing this loads Triton.
"""

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl

from ..timing import measure

_BLOCK, _TILES = 1024, 4  # elements of 4 bytes; a program has so many blocks of them


@triton.jit
def read_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, TILES: tl.constexpr):
    """Reads everything, and writes 4 bytes a program so that no load can be left out."""
    first = tl.program_id(0).to(tl.int64) * BLOCK * TILES
    total = tl.zeros((BLOCK,), tl.int32)
    for tile in tl.static_range(TILES):
        total += tl.load(x_ptr + first + tile * BLOCK + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0))


def cold_and_warm() -> dict[str, list]:
    """Microseconds of copies of 16 KiB to 1 GiB: with an empty L2, and over the same buffers."""
    found = {"bytes": [2**e for e in range(14, 31, 2)], "cold": [], "warm": []}
    for size in found["bytes"]:
        x = torch.zeros(size, dtype=torch.uint8, device="cuda")
        copy = partial(torch.empty_like(x).copy_, x)
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
