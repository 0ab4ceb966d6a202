"""From tensors to one kernel launch: which engine, strides, block sizes, grid."""

import importlib.util
import os
import warnings
from functools import cache

import torch
from torch import Tensor

from . import reference
from .formats import view_as_sbhd

# Bytes of rows that one warp of a program holds, a power of two: 8 loads of 16 bytes a thread. One
# warp needs no barrier to share cos and sin. benchmarks/NOTES.md: what was tried.
BYTES_PER_WARP = 4096
MAX_WARPS = 8


def rotate(
    t: Tensor, freqs: Tensor, tensor_format: str, cu_seqlens: Tensor | None, transpose: bool
) -> Tensor:
    """Rotate checked arguments with the fastest engine there is for their device.

    A Triton kernel, compiled on a GPU or interpreted on the CPU where the interpreter is on, else
    PyTorch; each computes in fp32 (fp64 for fp64) and rounds once.
    """
    if t.numel() == 0:
        return torch.empty(t.shape, dtype=t.dtype, device=t.device)
    if t.is_cuda or (t.device.type == "cpu" and interpreter_is_on()):
        if triton_is_installed():
            return launch_rope(t, freqs, tensor_format, cu_seqlens, transpose)
        if t.is_cuda:
            warnings.warn(
                "Triton is not installed: RoPE runs in plain PyTorch, slowly", stacklevel=2
            )
    return reference.rotate(t, freqs, tensor_format, cu_seqlens, True, transpose)


def interpreter_is_on() -> bool:
    """Does this process run Triton kernels in Triton's interpreter (on the CPU)?"""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on", "y")


def launch_rope(
    t: Tensor, freqs: Tensor, tensor_format: str, cu_seqlens: Tensor | None, transpose: bool
) -> Tensor:
    """Launch `kernels.rope_kernel` once on checked, non-empty arguments; contiguous result."""
    from .kernels import rope_kernel  # the first launch loads Triton, not the import of the package

    # a view like z.conj().imag says "negative" without storing it so; a kernel sees what is stored
    t, freqs = t.resolve_neg(), freqs.resolve_neg()
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    x, y = view_as_sbhd(t, tensor_format), view_as_sbhd(out, tensor_format)
    seq_len, batch, heads, head_dim = x.shape
    freqs_len, _, _, rotary_dim = freqs.shape
    half, tail = rotary_dim // 2, head_dim - rotary_dim
    rows = batch * heads
    blocks = block_sizes(half, tail, rows, t.element_size())
    programs = -(-seq_len // blocks["BLOCK_S"]) * -(-rows // blocks["BLOCK_R"])
    with _current_device(t):
        rope_kernel[(programs,)](
            x,
            y,
            freqs,
            freqs if cu_seqlens is None else cu_seqlens.contiguous(),  # read only when packed
            seq_len,
            rows,
            heads,
            freqs_len,
            0 if cu_seqlens is None else cu_seqlens.numel() - 1,
            *x.stride(),
            *y.stride()[:3],
            freqs.stride(0),
            freqs.stride(3),
            HALF=half,
            TAIL=tail,
            **blocks,
            TRANSPOSE=transpose,
            PACKED=cu_seqlens is not None,
            FP64=t.dtype == torch.float64,
            num_warps=warps(blocks, t.element_size()),
        )
    return out


def block_sizes(half: int, tail: int, rows: int, element_bytes: int) -> dict[str, int]:
    """Tile of one program: whole rows, first of one position, then of several, up to a fixed size.

    The sequence length plays no part, so no new length compiles a new kernel.
    """
    block_half = _next_power_of_2(half)
    block_tail = _next_power_of_2(tail) if tail else 0
    rows_that_fit = max(1, BYTES_PER_WARP // _row_bytes(block_half, block_tail, element_bytes))
    block_r = min(_next_power_of_2(rows), rows_that_fit)
    return {
        "BLOCK_S": rows_that_fit // block_r,
        "BLOCK_R": block_r,
        "BLOCK_HALF": block_half,
        "BLOCK_TAIL": block_tail,
    }


def warps(blocks: dict[str, int], element_bytes: int) -> int:
    """Warps of one program: one, unless a single row is already too much for it."""
    row_bytes = _row_bytes(blocks["BLOCK_HALF"], blocks["BLOCK_TAIL"], element_bytes)
    return min(MAX_WARPS, max(1, row_bytes // BYTES_PER_WARP))


def _row_bytes(block_half: int, block_tail: int, element_bytes: int) -> int:
    """Bytes of one row in a tile, rounded up to a power of two, as all sizes of tiles are."""
    return _next_power_of_2(2 * block_half + block_tail) * element_bytes


def _next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()


@cache
def triton_is_installed() -> bool:
    """Can Triton be imported? Asked without importing it."""
    try:
        return importlib.util.find_spec("triton") is not None
    except ValueError:  # a stand-in without a spec, as some test suites plant
        return False


def _current_device(t: Tensor):
    """Make the tensor's GPU the current one, for Triton launches on that."""
    return torch.cuda.device(t.device if t.is_cuda else -1)
