"""What the exercises of notebook 08 are compared with, kept out of the readers' cells."""

from collections.abc import Callable
from functools import partial

import torch

from rope_kernels import RotaryPositionEmbedding, rope_fw

from ..profiling.ncu import Report
from ..records import Measurement, recorded

WAYS = {
    1: "not waiting",
    2: "the first call counted",
    3: "the same buffers",
    4: "the gradient piled up",
    5: "bytes counted once",
    6: "batch and sequence swapped",
}
WAYS_OF_THE_REPORTS = (3, 1, 2, 4, 5)


def of_the_report(report: Report, read_bytes: int) -> list[int | str]:
    """Bytes used of each sector, bytes read over the input's bytes, and the kernel's name."""
    used = report["smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"]
    return [round(used), round(report["dram__bytes_read.sum"] / read_bytes), "every eighth"]


def our_calls(
    calls: dict[str, tuple[tuple[int, int, int, int], torch.dtype]],
) -> dict[str, Callable[[], torch.Tensor]]:
    """Name -> our kernel's call for a tensor (s, b, h, d) of that dtype, with a table of angles."""
    cases = {}
    for name, (shape, dtype) in calls.items():
        t = torch.randn(*shape, device="cuda", dtype=dtype)
        cases[name] = partial(rope_fw, t, RotaryPositionEmbedding(shape[3]).cuda()(shape[0]))
    return cases


def measured(unseen: Measurement) -> list[float]:
    """Microseconds: three calls of our kernel, then 512 multiply-adds an element on an H200."""
    more = recorded("08/more-and-more")
    with_512 = more["us"][more["instructions"].index(512)]
    return [*(timing.median_us for timing in unseen.cases.values()), with_512]
