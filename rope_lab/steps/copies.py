"""Copies of every size, with an empty L2 and with a warm one. Importing this loads Triton."""

from collections.abc import Callable
from functools import partial

import torch
import triton
from torch import Tensor

from ..timing import measure

SIZES = tuple(2**e for e in range(14, 31, 2))  # bytes of a copied tensor: 16 KiB to 1 GiB


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
