"""What exercise 2 of notebook 05 is compared with, kept out of the reader's cell."""

import torch
import triton

from ..steps.journey import half_split_row_kernel, half_split_tile_kernel
from ..steps.ledger import run_lines
from .mistakes import REQUESTED_BYTES

_CALLS = (torch.bfloat16, None), (torch.bfloat16, 4), (torch.bfloat16, 8), (torch.float32, 8)


def _counted(dtype: torch.dtype, block_r: int | None) -> int:
    """Bytes that the kernels request for (5, 2, 3, 48): the row kernel without `block_r`."""
    x, angles = torch.zeros(5, 2, 3, 48, dtype=dtype), torch.zeros(5, 48)
    sizes = {"HALF": 24, "BLOCK_HALF": 32}
    if block_r is None:
        return run_lines(half_split_row_kernel, 30, x, angles, x, 6, **sizes).bytes
    sizes, tiles = sizes | {"BLOCK_R": block_r}, 5 * triton.cdiv(6, block_r)
    return run_lines(half_split_tile_kernel, tiles, x, angles, x, 6, **sizes).bytes


BYTES_OF_FOUR_CALLS = {
    "right": [_counted(*call) for call in _CALLS],
    "unit": "bytes",
    "hint": "what every tile requests once",
    "mistakes": REQUESTED_BYTES,
}
