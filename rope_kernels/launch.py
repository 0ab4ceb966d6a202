"""From tensors to one kernel launch: which engine, strides, block sizes, grid."""

import importlib.util
import os
import warnings

import torch
from torch import Tensor

from .angles import Angles
from .formats import sizes_in_sbhd, strides_in_sbhd

# Bytes of rows that one warp of a program holds, a power of two: 8 loads of 16 bytes a thread. One
# warp needs no barrier to share cos and sin. benchmarks/NOTES.md: what was tried.
BYTES_PER_WARP = 4096
MAX_WARPS = 8


def runs_in_triton(t: Tensor) -> bool:
    """Is there a Triton engine for `t`: compiled on a GPU, on a CPU the interpreter if it is on?"""
    if t.is_cuda and not _HAS_TRITON:
        warnings.warn("Triton is not installed: RoPE runs in plain PyTorch, slowly", stacklevel=4)
    return _HAS_TRITON and (t.is_cuda or (t.is_cpu and interpreter_is_on()))


def interpreter_is_on() -> bool:
    """Does this process run Triton kernels in Triton's interpreter (on the CPU)?"""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on", "y")


def triton_is_installed() -> bool:
    """Can Triton be imported? Asked without importing it."""
    try:
        return importlib.util.find_spec("triton") is not None
    except ValueError:  # a stand-in without a spec, as some test suites plant
        return False


_HAS_TRITON = triton_is_installed()


def rotate(
    tensors: tuple[Tensor, ...], angles: Angles, transpose: bool, inplace: bool = False
) -> tuple[Tensor, ...]:
    """Rotate one or two checked tensors in one launch of `kernels.rope_kernel`.

    The results are new and contiguous; or with `inplace` the tensors themselves, of which no more
    than the rotary slice is touched.
    """
    if inplace:
        outs = tensors  # a minus sign noted in a view may stay: -x turned is minus x turned
    else:
        outs = tuple(torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in tensors)
        tensors = tuple(t.resolve_neg() for t in tensors)  # a kernel sees what is stored
    pairs = [(t, out) for t, out in zip(tensors, outs, strict=True) if t.numel()]
    if pairs:
        launch_rope(pairs, angles, transpose, inplace)
    return outs


def launch_rope(pairs: list, angles: Angles, transpose: bool, inplace: bool) -> None:
    """Rotate the first tensor of each pair into the second; one pair or two, none empty."""
    from .kernels import rope_kernel  # the first launch loads Triton, not the import of the package

    (q, q_out), (k, k_out) = pairs[0], pairs[1] if len(pairs) == 2 else (None, None)
    tensors = q, k, q_out, k_out, *_tensors_for_kernel(angles)
    table, _, cu_seqlens, _, ids = tensors[4:]
    tensor_format, half = angles.tensor_format, angles.rotary_dim // 2
    seq_len, batch, q_heads, head_dim = sizes_in_sbhd(q, tensor_format)
    k_heads = 0 if k is None else sizes_in_sbhd(k, tensor_format)[2]
    tail = 0 if inplace else head_dim - angles.rotary_dim
    batches, entries = (batch, 1) if angles.per_batch else (1, batch)  # rows of one entry, or all
    blocks = block_sizes(half, tail, entries * max(q_heads, k_heads), q.element_size())
    s_blocks = batches * -(-seq_len // blocks["BLOCK_S"])
    q_programs, k_programs = (
        s_blocks * -(-entries * heads // blocks["BLOCK_R"]) for heads in (q_heads, k_heads)
    )
    s2 = 0 if angles.on_the_fly else table.shape[1]
    sequences = 0 if cu_seqlens is None else cu_seqlens.numel() - 1
    cp = (angles.cp_size, angles.cp_rank) if angles.cp_size > 1 else None
    sizes = seq_len, batch, q_heads, k_heads, q_programs, s2, sequences, cp
    strides = [None if x is None else strides_in_sbhd(x, tensor_format) for x in tensors[:4]]
    # Triton launches on the current GPU
    with torch.cuda.device(q.device if q.is_cuda else -1):
        rope_kernel[(q_programs + k_programs,)](
            *tensors,
            *sizes,
            *strides,
            _from_batch(table),
            _from_batch(ids),
            HALF=half,
            TAIL=tail,
            TRANSPOSE=transpose,
            INTERLEAVED=angles.interleaved,
            PER_BATCH=angles.per_batch,
            **blocks,
        )


def block_sizes(half: int, tail: int, rows: int, element_bytes: int) -> dict[str, int]:
    """Tile of one program: whole rows, first of one position, then of several, up to a fixed size.

    One warp, unless a single row is already too much for it. The sequence length plays no part, so
    no new length compiles a new kernel.
    """
    block_half = _next_power_of_2(half)
    block_tail = _next_power_of_2(tail) if tail else 0
    row_bytes = _next_power_of_2(2 * block_half + block_tail) * element_bytes
    rows_that_fit = max(1, BYTES_PER_WARP // row_bytes)
    block_r = min(_next_power_of_2(rows), rows_that_fit)
    return {
        "BLOCK_S": rows_that_fit // block_r,
        "BLOCK_R": block_r,
        "BLOCK_HALF": block_half,
        "BLOCK_TAIL": block_tail,
        "num_warps": min(MAX_WARPS, max(1, row_bytes // BYTES_PER_WARP)),
    }


def _next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _from_batch(x: Tensor | None) -> tuple[int, ...] | None:
    """Strides of a table or of position ids; 0 from batch entry to batch entry if all share one."""
    if x is None or x.dim() == 1:
        return None
    return (0 if x.shape[0] == 1 else x.stride(0), *x.stride()[1:])


def _tensors_for_kernel(angles: Angles) -> tuple[Tensor | None, ...]:
    """The first five of the angles, stored as the kernel reads them."""
    table, sin, cu_seqlens, starts, ids = angles[:5]
    if sin is not None and (table.stride() != sin.stride() or table.is_neg() or sin.is_neg()):
        table, sin = (x.resolve_neg().contiguous() for x in (table, sin))
    cu_seqlens, starts = (None if x is None else x.contiguous() for x in (cu_seqlens, starts))
    return table.resolve_neg(), sin, cu_seqlens, starts, ids
