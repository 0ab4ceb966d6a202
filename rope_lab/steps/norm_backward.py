"""Normalize and rotate: the backward of notebook 11, with what its experiments switch.

It is the solution of the notebook's last exercise for contiguous sbhd tensors. Two switches are
added: tiles in flight, and how the weight's gradient is summed. Importing this loads Triton.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rope_kernels.kernels.angles import cos_sin_of
from rope_kernels.kernels.norm_arithmetic import (
    computed,
    dot,
    load_weights,
    times,
    times_number,
    turn_row,
)
from rope_kernels.kernels.norm_gradient import over_rows
from rope_kernels.kernels.norm_rows import load_row, store_row
from rope_kernels.kernels.sum_partials_kernel import sum_partials_kernel
from rope_kernels.kernels.values import CosSin, Head, Pieces, RowPointers
from rope_lab.compiler.compile import Compiled, compile_for


@triton.jit
def angles_at(
    freqs_ptr,  # angles (s2, 1, 1, d2), contiguous
    position,  # of a tile
    head: tl.constexpr,  # `Head`
    FAST_SINE: tl.constexpr = False,  # the hardware's, which the interpreter does not have
):
    """cos and sin of both members of a position's pairs, as `turn_row` takes them."""
    pair = tl.arange(0, head.columns)
    pointers, is_pair = freqs_ptr + position * 2 * head.half + pair, pair < head.half
    angle1 = tl.load(pointers, is_pair, other=0.0)[None, None, :]
    angle2 = tl.load(pointers + head.half, is_pair, other=0.0)[None, None, :]
    cos1, sin1 = cos_sin_of(angle1, True, FAST_SINE, 16)
    cos2, sin2 = cos_sin_of(angle2, True, FAST_SINE, 16)
    return CosSin(cos1, sin1, cos2, sin2)


@triton.jit
def norm_rope_backward_kernel(
    grad_ptr,  # gradient of the output (s, b, h, d), contiguous
    x_ptr,  # input of the forward, the same
    weight_ptr,  # (d,)
    freqs_ptr,  # angles (s2, 1, 1, d), contiguous
    out_ptr,  # gradient of x, like x
    sum_ptr,  # (programs, d) fp32: a program's share of the weight's gradient; ATOMIC: (d,), zeros
    positions,  # s
    rows,  # b * h, rows of one position
    HALF: tl.constexpr,  # d / 2
    BLOCK_R: tl.constexpr,  # rows of a tile, a power of two
    BLOCK_HALF: tl.constexpr,  # HALF rounded up to a power of two
    STAGES: tl.constexpr,  # tiles in flight
    ATOMIC: tl.constexpr,  # add to one sum for all programs
    FAST_SINE: tl.constexpr,  # the hardware's, which the interpreter does not have
):
    pair, row_blocks = tl.arange(0, BLOCK_HALF), tl.cdiv(rows, BLOCK_R)
    is_pair, first_row = pair < HALF, tl.arange(0, BLOCK_R)
    head: tl.constexpr = Head(HALF, 0, 0, BLOCK_HALF, 0)
    weights = load_weights(weight_ptr, head)
    sum1 = tl.zeros((1, BLOCK_R, BLOCK_HALF), tl.float32)
    sum2 = tl.zeros((1, BLOCK_R, BLOCK_HALF), tl.float32)
    for tile in tl.range(
        tl.program_id(0), positions * row_blocks, tl.num_programs(0), num_stages=STAGES
    ):
        position, row = tile // row_blocks, tile % row_blocks * BLOCK_R + first_row
        exists = (row < rows)[None, :, None]
        offset = (position.to(tl.int64) * rows + row)[None, :, None] * (2 * HALF)
        grad = load_row(RowPointers(grad_ptr + offset, 1, exists), head)
        x = load_row(RowPointers(x_ptr + offset, 1, exists), head)
        angles = angles_at(freqs_ptr, position, head, FAST_SINE)
        grad, x = computed(grad, exists, head), computed(x, exists, head)
        rstd = tl.rsqrt(dot(x, x, 0) / (2 * HALF) + 1e-6)
        normal = times_number(x, rstd)
        grad = turn_row(grad, angles, None, TRANSPOSE=True)
        sum1 += grad[0] * normal[0]
        sum2 += grad[1] * normal[1]
        grad = times(grad, weights)
        mean = dot(grad, normal, 0) / (2 * HALF)
        dx1, dx2 = grad[0] - normal[0] * mean, grad[1] - normal[1] * mean
        dx = Pieces(dx1 * rstd, dx2 * rstd, grad[2])
        store_row(RowPointers(out_ptr + offset, 1, exists), dx, head)
    share1, share2 = over_rows(sum1), over_rows(sum2)
    columns = pair[None, None, :]
    if ATOMIC:
        tl.atomic_add(sum_ptr + columns, share1, is_pair[None, None, :])
        tl.atomic_add(sum_ptr + columns + HALF, share2, is_pair[None, None, :])
    else:
        share_ptr = sum_ptr + tl.program_id(0) * 2 * HALF + columns
        tl.store(share_ptr, share1, is_pair[None, None, :])
        tl.store(share_ptr + HALF, share2, is_pair[None, None, :])


def norm_rope_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    freqs: Tensor,
    programs: int,
    stages: int = 2,
    atomic: bool = False,
) -> tuple[Tensor, Tensor]:
    """Gradients of x and of the weight; `programs` share the tiles, of eight rows each."""
    s, b, h, d = x.shape
    programs = min(programs, s * triton.cdiv(b * h, 8))
    out, weight_grad = torch.empty_like(x), torch.empty_like(weight)
    of_all = x.new_zeros if atomic else x.new_empty
    sums = of_all((d,) if atomic else (programs, d), dtype=torch.float32)
    norm_rope_backward_kernel[(programs,)](
        *(grad, x, weight, freqs, out, sums, s, b * h),
        HALF=d // 2,
        BLOCK_R=8,
        BLOCK_HALF=triton.next_power_of_2(d // 2),
        STAGES=stages,
        ATOMIC=atomic,
        FAST_SINE=x.is_cuda,
        num_warps=1,
    )
    if atomic:
        return out, sums.to(weight.dtype)
    sum_partials_kernel[(triton.cdiv(d, 8),)](
        sums, None, weight_grad, None, programs, 0, D=d, BLOCK_N=128, BLOCK_D=8
    )
    return out, weight_grad


def programs_for_all_sms(each: int = 8) -> int:
    """So many programs of one warp for each SM of this GPU."""
    return each * torch.cuda.get_device_properties().multi_processor_count


def compiled_for_h200(stages: int, rows: int = 40, d: int = 128) -> Compiled:
    """The kernel as the Triton installed here compiles it for an H200; needs no GPU."""
    x = torch.empty(64, 1, rows, d, dtype=torch.bfloat16, device="meta")
    weight, freqs = (
        x.new_empty(d, dtype=torch.float32),
        x.new_empty(64, 1, 1, d, dtype=torch.float32),
    )
    sums = x.new_empty(16, d, dtype=torch.float32)
    sizes = {"HALF": d // 2, "BLOCK_R": 8, "BLOCK_HALF": triton.next_power_of_2(d // 2)}
    flags = {"STAGES": stages, "ATOMIC": False, "FAST_SINE": True}
    given = x, x, weight, freqs, x, sums, 64, rows
    return compile_for("sm_90", norm_rope_backward_kernel, *given, **sizes, **flags, num_warps=1)
