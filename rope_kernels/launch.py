"""From tensors to one kernel launch: which engine, strides, block sizes, grid."""

import importlib.util
import os
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from .angles import Angles
from .formats import view_as_sbhd

try:
    from .fastpath import shortest_launch
except ModuleNotFoundError:  # deleted: every launch goes through Triton's JIT

    def shortest_launch(*_) -> None:
        return None


# Sizes measured on an H200; benchmarks/NOTES.md: what was tried.
# Bytes of rows of one program, powers of two: 4 or 8 loads of 16 bytes a thread of its one warp,
# which needs no barrier to share cos and sin. A program that has to look up its positions waits
# longer before it can begin, and is given more to do.
TILE_BYTES = 2048
TILE_BYTES_AFTER_LOOKUP = 4096
# A stretch is so many positions that a table's part for it stays in the L2 cache until all batch
# entries, or all heads, have used it.
STRETCH_OF_BATCH = 1024
STRETCH_OF_ROWS = 4096
WHOLE = 2**30  # where there is no table, or batch entries do not share its rows
BYTES_PER_WARP = 4096  # of a row that is larger than a tile
MAX_WARPS = 8
BYTES_PER_LOAD = 32 * 8  # of a warp, at which a table's rows are no longer slow to read


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
    than the rotary slice is touched. `angles` may be a plain tuple, quicker to make in a backward.
    """
    outs = tensors  # a minus sign noted in a view may stay: -x turned is minus x turned
    if not inplace:
        outs = tuple([torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors])
    in_kernel, device = (*two(tensors), *two(outs), *angles[:5]), tensors[0].device
    known, how = angles[9], (transpose, inplace)  # `angles.known`
    known = {} if known is None else known
    launch_again = known.get(how)
    if launch_again and launch_again(in_kernel):
        return outs
    with torch.cuda.device(device if device.type == "cuda" else -1):  # Triton launches there
        if not (launch_again and launch_again(in_kernel)):
            known[how] = launch_rope(in_kernel, Angles(*angles), *how)
    return outs


def launch_rope(
    in_kernel: tuple[Tensor | None, ...], angles: Angles, transpose: bool, inplace: bool
) -> Callable[[tuple], bool] | None:
    """Launch through Triton's JIT, which compiles what is new; return `shortest_launch`, if any."""
    from .kernels import rope_kernel  # the first launch loads Triton, not the import of the package

    tensors = _as_stored(*in_kernel, inplace)
    if tensors[0] is None:
        return None
    q, k, _, _, table, _, cu_seqlens, _, ids = tensors
    views = [None if x is None else view_as_sbhd(x, angles.tensor_format) for x in tensors[:4]]
    seq_len, batch, q_heads, head_dim = views[0].shape
    k_heads, half = 0 if k is None else views[1].shape[2], angles.rotary_dim // 2
    tail = 0 if inplace else head_dim - 2 * half
    order = order_of_programs(q, angles)
    order["PER_BATCH"] |= batch * max(q_heads, k_heads) >= 2**31  # rows are counted in 32 bits
    entries, shared = (batch, 1) if order["PER_BATCH"] else (1, batch)  # one entry's rows, or all
    # With k, whose heads are few, a large tile would be half empty.
    tile = TILE_BYTES_AFTER_LOOKUP if angles.are_looked_up and k is None else TILE_BYTES
    # A warp reads a row of cosines or sines 8 bytes a thread, or else those of several positions.
    row_bytes, rows = half * table.element_size(), shared * max(q_heads, k_heads)
    positions = 1 if angles.sin is None else max(1, BYTES_PER_LOAD // row_bytes)
    blocks = block_sizes(half, tail, rows, q.element_size(), tile, positions)
    num_warps = blocks.pop("num_warps")
    order["STRETCH"] = max(1, order["STRETCH"] // blocks["BLOCK_S"])
    row_blocks = sum(-(-shared * heads // blocks["BLOCK_R"]) for heads in (q_heads, k_heads))
    programs = entries * -(-seq_len // blocks["BLOCK_S"]) * row_blocks
    table = None if angles.on_the_fly else angles._replace(table=table).rows[0]
    s2 = 0 if table is None else table.shape[1]
    sequences = 0 if cu_seqlens is None else cu_seqlens.numel() - 1
    cp = (angles.cp_size, angles.cp_rank) if angles.cp_size > 1 else None
    ids = ids[None] if ids is not None and ids.dim() == 1 else ids  # packed tokens: one entry
    strides = [_strides(x) for x in (*views, table, ids)]
    numbers = seq_len, batch, q_heads, k_heads, s2, sequences, cp, *strides
    nvidia = not interpreter_is_on() and torch.version.hip is None  # AMD's sine was not tried
    flags = {"TRANSPOSE": transpose, "INTERLEAVED": angles.interleaved, **order}
    flags["FAST_SINE"] = nvidia and q.dtype != torch.float64
    constants = {"HALF": half, "TAIL": tail, **blocks, **flags}
    # Triton 3.10 changes the default of `enable_fp_fusion`, and with it last bits of results.
    options = {"num_warps": num_warps, "enable_fp_fusion": True}
    compiled = rope_kernel[(programs,)](*tensors, *numbers, **constants, **options)
    if compiled is None or any(x is not y for x, y in zip(tensors, in_kernel, strict=True)):
        return None  # interpreted; or copied first, or left out
    return shortest_launch(compiled, programs, (*numbers, *constants.values()))


def order_of_programs(t: Tensor, angles: Angles) -> dict[str, int]:
    """In which order programs take tiles: about as memory lies. STRETCH is in positions here."""
    # of equal strides, as beside a dimension of one index, the format's first is the outer one
    dims = sorted(range(t.dim()), key=lambda dim: -t.stride(dim))
    memory = "".join(angles.tensor_format.replace("t", "s")[dim] for dim in dims)
    batch_is_outer = memory.find("b") in range(memory.index("s"))
    rows_are_outer = memory.index("h") < memory.index("s")
    if not (batch_is_outer or rows_are_outer):
        stretch = 1
    elif angles.on_the_fly or (angles.per_batch and not rows_are_outer):
        stretch = WHOLE
    else:
        stretch = STRETCH_OF_ROWS if rows_are_outer else STRETCH_OF_BATCH
    per_batch = angles.per_batch or batch_is_outer
    return {"PER_BATCH": per_batch, "ROWS_OUTER": rows_are_outer, "STRETCH": stretch}


def block_sizes(
    half: int, tail: int, rows: int, element_bytes: int, tile_bytes: int, positions: int = 1
) -> dict[str, int]:
    """Tile of one program: whole rows, first of one position, then of several, up to a fixed size.

    Of at least so many positions as are asked for, if the tile has room for them.

    One warp, unless a single row is already too much for it. The sequence length plays no part, so
    no new length compiles a new kernel.
    """
    block_half = _next_power_of_2(half)
    block_tail = _next_power_of_2(tail) if tail else 0
    row_bytes = _next_power_of_2(2 * block_half + block_tail) * element_bytes
    rows_that_fit = max(1, tile_bytes // row_bytes)
    rows_a_position = max(1, rows_that_fit // _next_power_of_2(positions))
    block_r = min(_next_power_of_2(rows), rows_a_position)
    return {
        "BLOCK_S": rows_that_fit // block_r,
        "BLOCK_R": block_r,
        "BLOCK_HALF": block_half,
        "BLOCK_TAIL": block_tail,
        "num_warps": min(MAX_WARPS, max(1, row_bytes // BYTES_PER_WARP)),
    }


def _next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()


def two(tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor | None]:
    """Of one or two: the second is None if it is not there."""
    return tensors if len(tensors) == 2 else (tensors[0], None)


def _strides(x: Tensor | None) -> tuple[int, ...] | None:
    """In elements; 0 beside a single index, where 1 would have the compiler see unaligned rows."""
    if x is None:
        return None
    return tuple(0 if n == 1 else step for n, step in zip(x.shape, x.stride(), strict=True))


def _as_stored(
    q, k, q_out, k_out, table, sin, cu_seqlens, starts, ids, inplace: bool
) -> tuple[Tensor | None, ...]:
    """The tensors, stored as the kernel reads them; without q or k where there are no elements."""
    pairs = [(t, out) for t, out in ((q, q_out), (k, k_out)) if t is not None and t.numel()]
    (q, q_out), (k, k_out) = [*pairs, (None, None), (None, None)][:2]
    if not inplace:
        q, k = (None if t is None else t.resolve_neg() for t in (q, k))
    if sin is not None and (table.stride() != sin.stride() or table.is_neg() or sin.is_neg()):
        table, sin = (x.resolve_neg().contiguous() for x in (table, sin))
    cu_seqlens, starts = (None if x is None else x.contiguous() for x in (cu_seqlens, starts))
    return q, k, q_out, k_out, table.resolve_neg(), sin, cu_seqlens, starts, ids
