"""Kernels in other styles than ours; `tests/lab/test_other_styles.py` has them judged.

Each launcher `by_...` rotates whole heads, of contiguous tensors, as rung 2 asks, unless it says
otherwise.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as nvidia
from triton.language.extra.libdevice import sinpi
from triton.tools.tensor_descriptor import TensorDescriptor

PI = tl.constexpr(3.141592653589793)


def halves_of(d):
    """Constants of a kernel for heads of d elements."""
    return {"HALF": d // 2, "BLOCK_HALF": triton.next_power_of_2(d // 2)}


# block pointers and descriptors


@triton.jit
def block_pointer_kernel(
    t_ptr, freqs_ptr, out_ptr, s, rows, HALF: tl.constexpr, BLOCK_HALF: tl.constexpr
):
    row = tl.program_id(0)
    shape, strides = (s * rows, HALF), (2 * HALF, 1)
    first = tl.make_block_ptr(t_ptr, shape, strides, (row, 0), (1, BLOCK_HALF), (1, 0))
    second = tl.make_block_ptr(t_ptr + HALF, shape, strides, (row, 0), (1, BLOCK_HALF), (1, 0))
    angle = tl.make_block_ptr(
        freqs_ptr, (s, 2 * HALF), strides, (row // rows, 0), (1, BLOCK_HALF), (1, 0)
    )
    x1 = tl.load(first, boundary_check=(1,), padding_option="zero").to(tl.float32)
    x2 = tl.load(second, boundary_check=(1,), padding_option="zero").to(tl.float32)
    angle1 = tl.load(angle, boundary_check=(1,), padding_option="zero")
    angle = tl.advance(angle, (0, HALF))
    angle2 = tl.load(angle, boundary_check=(1,), padding_option="zero")
    out = tl.make_block_ptr(out_ptr, shape, strides, (row, 0), (1, BLOCK_HALF), (1, 0))
    kind = out_ptr.dtype.element_ty
    tl.store(out, (x1 * tl.cos(angle1) - x2 * tl.sin(angle1)).to(kind), boundary_check=(1,))
    out = tl.make_block_ptr(out_ptr + HALF, shape, strides, (row, 0), (1, BLOCK_HALF), (1, 0))
    tl.store(out, (x2 * tl.cos(angle2) + x1 * tl.sin(angle2)).to(kind), boundary_check=(1,))


def by_block_pointers(t, freqs, out=None):
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    block_pointer_kernel[(s * b * h,)](t, freqs, out, s, b * h, **halves_of(d))
    return out


@triton.jit
def turned(x, angle, D: tl.constexpr, BLOCK: tl.constexpr):
    """A row (1, BLOCK), whose partners are gathered from it."""
    column = tl.arange(0, BLOCK)[None, :]
    in_first = column < D // 2
    partner = tl.where(in_first, column + D // 2, column - D // 2)
    other = tl.gather(x, tl.where(column < D, partner, column), 1)
    return x * tl.cos(angle) + tl.where(in_first, -other, other) * tl.sin(angle)


@triton.jit
def descriptor_kernel(t_ptr, freqs_ptr, out_ptr, s, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    t = tl.make_tensor_descriptor(t_ptr, [s * rows, D], [D, 1], [1, BLOCK])
    freqs = tl.make_tensor_descriptor(freqs_ptr, [s, D], [D, 1], [1, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, [s * rows, D], [D, 1], [1, BLOCK])
    x, angle = t.load([row, 0]).to(tl.float32), freqs.load([row // rows, 0])
    out.store([row, 0], turned(x, angle, D, BLOCK).to(out_ptr.dtype.element_ty))


def by_descriptors(t, freqs, out=None):
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    block = triton.next_power_of_2(d)
    if t.is_cuda:
        triton.set_allocator(
            lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda")
        )
    descriptor_kernel[(s * b * h,)](t, freqs, out, s, b * h, D=d, BLOCK=block)
    return out


@triton.jit
def described_kernel(t, freqs, out, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x, angle = t.load([row, 0]), freqs.load([row // rows, 0])
    out.store([row, 0], turned(x.to(tl.float32), angle, D, BLOCK).to(x.dtype))


def by_descriptors_of_the_launcher(t, freqs, out=None):
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    block = triton.next_power_of_2(d)
    described = [
        TensorDescriptor(x, [x.numel() // d, d], [d, 1], [1, block]) for x in (t, freqs, out)
    ]
    described_kernel[(s * b * h,)](*described, b * h, D=d, BLOCK=block)
    return out


# functions of the language, and of libdevice


@triton.jit
def gather_kernel(t_ptr, freqs_ptr, out_ptr, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)[None, :]
    exists = column < D
    x = tl.load(t_ptr + row * D + column, mask=exists, other=0.0).to(tl.float32)
    angle = tl.load(freqs_ptr + row // rows * D + column, mask=exists, other=0.0)
    tl.store(out_ptr + row * D + column, turned(x, angle, D, BLOCK), mask=exists)


def by_gather(t, freqs, out=None):
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    block = triton.next_power_of_2(d)
    gather_kernel[(s * b * h,)](t, freqs, out, b * h, D=d, BLOCK=block)
    return out


def by_what_the_host_reads(t, freqs, out=None):
    return by_gather(t, freqs, out) if freqs.abs().max().item() > 0 else t


@triton.jit
def rotated_row(t_ptr, freqs_ptr, out_ptr, row, position, HALF, BLOCK_HALF: tl.constexpr):
    """One row by a helper, with the cos and sin of Triton."""
    pair = tl.arange(0, BLOCK_HALF)
    exists = pair < HALF
    offset = row * 2 * HALF + pair
    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)
    angle1 = tl.load(freqs_ptr + position * 2 * HALF + pair, mask=exists)
    angle2 = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, mask=exists)
    tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.sin(angle1), mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * tl.cos(angle2) + x1 * tl.sin(angle2), mask=exists)


@triton.jit
def polynomial_sine(angle):
    """Cody and Waite's reduction to [-pi/4, pi/4], and two polynomials."""
    turns = tl.floor(angle.to(tl.float64) * (2 / PI) + 0.5)
    x = (angle.to(tl.float64) - turns * (PI / 2)).to(tl.float32)
    quarter, square = turns.to(tl.int64) % 4, x * x
    quarter = tl.where(quarter < 0, quarter + 4, quarter)
    sine = x * (1 + square * (-1 / 6 + square * (1 / 120 - square * (1 / 5040 - square / 362880))))
    cosine = 1 + square * (
        -0.5 + square * (1 / 24 - square * (1 / 720 - square * (1 / 40320 - square / 3628800)))
    )
    value = tl.where(quarter % 2 == 0, sine, cosine)
    return tl.where(quarter >= 2, -value, value)


@triton.jit
def fused_sine(angle, QUARTERS: tl.constexpr):
    """Another reduction, in fp32: three parts of pi / 2, and products that are not rounded."""
    quarters = tl.floor(angle * 0.6366197723675814 + 0.5)
    x = tl.fma(quarters, -1.5707963705062866, angle)
    x = tl.fma(quarters, 4.371138828673793e-08, x)
    x = tl.fma(quarters, 1.7151245100059e-15, x)
    square = x * x
    sine = x + x * square * (-1 / 6 + square * (1 / 120 + square * (-1 / 5040 + square / 362880)))
    cosine = 1 + square * (
        -0.5 + square * (1 / 24 + square * (-1 / 720 + square * (1 / 40320 - square / 3628800)))
    )
    place = (quarters.to(tl.int32) + QUARTERS) & 3
    value = tl.where(place & 1 == 0, sine, cosine)
    return tl.where(place >= 2, -value, value)


@triton.jit
def series(angle, term, n):
    """Taylor's: right for small angles alone."""
    total = term
    for k in tl.static_range(1, 12):
        term = -term * angle * angle / ((2 * k + n - 1) * (2 * k + n))
        total += term
    return total


@triton.jit
def functions_kernel(
    t_ptr,
    freqs_ptr,
    out_ptr,
    rows,
    HALF: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    WHOSE: tl.constexpr,
):
    row, pair = tl.program_id(0), tl.arange(0, BLOCK_HALF)
    exists = pair < HALF
    offset = row * 2 * HALF + pair
    angle_ptr = freqs_ptr + row // rows * 2 * HALF + pair
    angle1 = tl.load(angle_ptr, mask=exists, other=0.0)
    angle2 = tl.load(angle_ptr + HALF, mask=exists, other=0.0)
    if WHOSE == "libdevice":
        cos1, sin1 = libdevice.cos(angle1), libdevice.sin(angle1)
        cos2, sin2 = libdevice.cos(angle2), libdevice.sin(angle2)
    elif WHOSE == "CUDA's":
        cos1, sin1 = nvidia.cos(angle1), nvidia.sin(angle1)
        cos2, sin2 = nvidia.cos(angle2), nvidia.sin(angle2)
    elif WHOSE == "the hardware's":
        cos1, sin1 = libdevice.fast_cosf(angle1), libdevice.fast_sinf(angle1)
        cos2, sin2 = libdevice.fast_cosf(angle2), libdevice.fast_sinf(angle2)
    elif WHOSE == "half turns":
        cos1 = libdevice.cospi(angle1.to(tl.float64) / PI).to(tl.float32)
        sin1 = sinpi(angle1.to(tl.float64) / PI).to(tl.float32)
        cos2, sin2 = tl.math.cos(angle2), tl.math.sin(angle2)
    elif WHOSE == "fused":
        cos1, sin1 = fused_sine(angle1, 1), fused_sine(angle1, 0)
        cos2, sin2 = fused_sine(angle2, 1), fused_sine(angle2, 0)
    elif WHOSE == "Taylor's":
        cos1, sin1 = series(angle1, angle1 * 0 + 1, 0), series(angle1, angle1, 1)
        cos2, sin2 = series(angle2, angle2 * 0 + 1, 0), series(angle2, angle2, 1)
    elif WHOSE == "assembly's":
        asm: tl.constexpr = "sin.approx.f32 $0, $1;"
        cos1, cos2 = tl.cos(angle1), tl.cos(angle2)
        sin1 = tl.inline_asm_elementwise(asm, "=f,f", [angle1], tl.float32, is_pure=True, pack=1)
        sin2 = tl.inline_asm_elementwise(asm, "=f,f", [angle2], tl.float32, is_pure=True, pack=1)
    else:
        sin1, sin2 = polynomial_sine(angle1), polynomial_sine(angle2)
        cos1 = polynomial_sine(angle1.to(tl.float64) + PI / 2)
        cos2 = polynomial_sine(angle2.to(tl.float64) + PI / 2)
    x1 = tl.load(t_ptr + offset, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + offset + HALF, mask=exists).to(tl.float32)
    tl.store(out_ptr + offset, tl.fma(x1, cos1, -x2 * sin1), mask=exists)
    tl.store(out_ptr + offset + HALF, tl.fma(x2, cos2, x1 * sin2), mask=exists)


def by_functions(t, freqs, out=None, whose="libdevice"):
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    functions_kernel[(s * b * h,)](t, freqs, out, b * h, **halves_of(d), WHOSE=whose)
    return out


@triton.jit
def several_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, CASTS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    x = tl.load(x_ptr + i, mask=exists, other=1.0)
    if CASTS:
        x = x.to(tl.float32)
    tl.store(out_ptr + i, libdevice.rsqrt(libdevice.fma(x, x, 1.0)), mask=exists)
    tl.store(out_ptr + n + i, libdevice.remainder(x, 0.75), mask=exists)
    tl.store(out_ptr + 2 * n + i, libdevice.float2int_rd(x).to(tl.float32), mask=exists)
    tl.store(out_ptr + 3 * n + i, libdevice.pow(x, 3), mask=exists)
    tl.store(out_ptr + 4 * n + i, libdevice.atan2(x, 2.0), mask=exists)
    tl.store(out_ptr + 5 * n + i, libdevice.erfc(x), mask=exists)
    tl.store(out_ptr + 6 * n + i, libdevice.round(2 * x), mask=exists)
    tl.store(out_ptr + 7 * n + i, tl.where(libdevice.isnan(x), 1.0, 0.0), mask=exists)


def several_functions(x, casts=True):
    out = torch.empty(8, x.numel(), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.numel(), 64),)
    several_kernel[grid](x, out, x.numel(), BLOCK=64, CASTS=casts)
    return out


def several_in_pytorch(x: "(n,)"):  # noqa: F821
    away = (2 * x).abs().add(0.5).floor().copysign(x)
    nearest = x - 0.75 * torch.round(x / 0.75)
    two = torch.full_like(x, 2)
    first = (x * x + 1).rsqrt(), nearest, x.floor(), x**3
    return torch.stack((*first, torch.atan2(x, two), torch.erfc(x), away, torch.zeros_like(x)))


@triton.jit
def counted_bits_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    bits = libdevice.popc(libdevice.float_as_int(x.to(tl.float32)))
    tl.store(out_ptr + i, bits.to(tl.float32), mask=i < n)


def counted_bits(x):
    out = torch.empty_like(x)
    counted_bits_kernel[(1,)](x, out, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
    return out


# how it is launched


@triton.heuristics({"BLOCK_HALF": lambda given: triton.next_power_of_2(given["HALF"])})
@triton.jit
def chosen_kernel(t_ptr, freqs_ptr, out_ptr, rows, HALF: tl.constexpr, BLOCK_HALF: tl.constexpr):
    row = tl.program_id(0)
    rotated_row(t_ptr, freqs_ptr, out_ptr, row, row // rows, HALF, BLOCK_HALF)


def by_heuristics(t, freqs, out=None):
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    chosen_kernel[lambda given: (s * b * h,)](t, freqs, out, b * h, HALF=d // 2)
    return out


@triton.autotune(
    configs=[triton.Config({}, num_warps=warps) for warps in (1, 2)],
    key=["HALF"],
    restore_value=["t_ptr"],  # in place, too
)
@triton.jit
def tuned_kernel(t_ptr, freqs_ptr, out_ptr, rows, HALF: tl.constexpr, BLOCK_HALF: tl.constexpr):
    row = tl.program_id(0)
    rotated_row(t_ptr, freqs_ptr, out_ptr, row, row // rows, HALF, BLOCK_HALF)


def by_a_tuner(t, freqs, out=None):
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    tuned_kernel[(s * b * h,)](t, freqs, out, b * h, **halves_of(d))
    return out


@triton.jit
def grid_kernel(t_ptr, freqs_ptr, out_ptr, HALF: tl.constexpr, BLOCK_HALF: tl.constexpr):
    position, sequence, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = (position * tl.num_programs(1) + sequence) * tl.num_programs(2) + head
    rotated_row(t_ptr, freqs_ptr, out_ptr, row, position, HALF, BLOCK_HALF)


def by_three_axes(t, freqs, out=None):
    out = torch.empty_like(t) if out is None else out
    grid_kernel[t.shape[:3]](t, freqs, out, **halves_of(t.shape[-1]))
    return out


def by_keywords(t, freqs, out=None):
    out = torch.empty_like(t) if out is None else out
    grid_kernel[t.shape[:3]](out_ptr=out, freqs_ptr=freqs, t_ptr=t, **halves_of(t.shape[-1]))
    return out


@triton.jit
def told_kernel(t_ptr, freqs_ptr, out_ptr, rows, HALF: tl.constexpr, BLOCK_HALF: tl.constexpr):
    """Told to the compiler and to the reader: nothing of it computes."""
    tl.static_assert(BLOCK_HALF >= HALF, "a block has a row")
    row = tl.program_id(0)
    tl.assume(row >= 0)
    tl.device_assert(row >= 0, "a row")
    pair = tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK_HALF), BLOCK_HALF), BLOCK_HALF)
    exists = pair < HALF
    offset, angle_ptr = row * 2 * HALF + pair, freqs_ptr + row // rows * 2 * HALF + pair
    for half in tl.static_range(2):
        x = tl.load(t_ptr + offset, mask=exists, eviction_policy="evict_first").to(tl.float32)
        y = tl.load(t_ptr + offset + HALF, mask=exists, cache_modifier=".cg").to(tl.float32)
        angle = tl.load(angle_ptr + half * HALF, mask=exists, other=0.0)
        if half == 0:
            first = x * tl.cos(angle) - y * tl.sin(angle)
        else:
            tl.debug_barrier()
            tl.store(out_ptr + offset, first, mask=exists)
            second = y * tl.cos(angle) + x * tl.sin(angle)
            tl.store(out_ptr + offset + HALF, second, mask=exists)


def by_what_is_told(t, freqs, out=None):
    """It loads t twice, so bytes keep it from rung 2; it is on rung 1 for contiguous tensors."""
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    told_kernel[(s * b * h,)](t, freqs, out, b * h, **halves_of(d))
    return out


# exercises: q and k at once, and neighbors in place


@triton.jit
def heads_kernel(
    q_ptr,
    k_ptr,
    freqs_ptr,
    q_out_ptr,
    k_out_ptr,
    batch,
    h,
    g,
    D: tl.constexpr,
    D2: tl.constexpr,
    BLOCK: tl.constexpr,
    WHILE: tl.constexpr,
):
    place = tl.program_id(0)
    position, column = place // batch, tl.arange(0, BLOCK)
    for head in range(h):
        rotated_head(q_ptr, freqs_ptr, q_out_ptr, place * h + head, position, D, D2, column)
    if WHILE:
        head = 0
        while head < g:
            rotated_head(k_ptr, freqs_ptr, k_out_ptr, place * g + head, position, D, D2, column)
            head += 1
    else:
        for head in tl.range(0, g, num_stages=2):
            rotated_head(k_ptr, freqs_ptr, k_out_ptr, place * g + head, position, D, D2, column)


@triton.jit
def rotated_head(x_ptr, freqs_ptr, out_ptr, row, position, D, D2, column):
    in_first = column < D2 // 2
    partner = tl.where(in_first, column + D2 // 2, column - D2 // 2)
    x = tl.load(x_ptr + row * D + column, mask=column < D).to(tl.float32)
    other = tl.load(x_ptr + row * D + partner, mask=column < D2, other=0.0).to(tl.float32)
    angle = tl.load(freqs_ptr + position * D2 + column, mask=column < D2, other=0.0)
    turned = x * tl.cos(angle) + tl.where(in_first, -other, other) * tl.sin(angle)
    tl.store(out_ptr + row * D + column, turned, mask=column < D)


def by_a_loop_over_heads(q, k, freqs, whiles=False):
    q, k = q.contiguous(), k.contiguous()
    (s, b, h, d), g = q.shape, k.shape[2]
    outs = torch.empty_like(q), torch.empty_like(k)
    heads_kernel[(s * b,)](
        *(q, k, freqs, *outs, b, h, g),
        **{"D": d, "D2": freqs.shape[-1], "BLOCK": triton.next_power_of_2(d), "WHILE": whiles},
    )
    return outs


@triton.jit
def neighbors_kernel(
    t_ptr,
    freqs_ptr,
    batch,
    heads,
    stride_s,
    stride_b,
    stride_h,
    stride_d,
    D2: tl.constexpr,
    BLOCK: tl.constexpr,
    JOINS: tl.constexpr,
):
    position, sequence, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    column = tl.arange(0, BLOCK)
    ptr = t_ptr + position * stride_s + sequence * stride_b + head * stride_h + column * stride_d
    x = tl.load(ptr, mask=column < D2, other=0.0).to(tl.float32)
    angle = tl.load(freqs_ptr + position * D2 + column, mask=column < D2, other=0.0)
    x1, x2 = tl.split(tl.reshape(x, (BLOCK // 2, 2)))
    angle1, angle2 = tl.split(tl.reshape(angle, (BLOCK // 2, 2)))
    y1 = x1 * tl.cos(angle1) - x2 * tl.sin(angle1)
    y2 = x2 * tl.cos(angle2) + x1 * tl.sin(angle2)
    y = tl.ravel(tl.join(y1, y2)) if JOINS else tl.interleave(y1, y2)
    tl.store(ptr, y, mask=column < D2)


def by_interleaving(t, freqs, joins=False):
    s, b, h, _ = t.shape
    d2 = freqs.shape[-1]
    neighbors_kernel[(s, b, h)](
        *(t, freqs, b, h, *t.stride()),
        **{"D2": d2, "BLOCK": triton.next_power_of_2(d2), "JOINS": joins},
    )
    return t


# wrong ones


@triton.jit
def masked_heads_kernel(
    t_ptr,
    freqs_ptr,
    out_ptr,
    batch,
    heads,
    HALF: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    STORES: tl.constexpr,  # there, too
):
    row, pair = tl.program_id(0), tl.arange(0, BLOCK_HALF)
    exists, position = pair < HALF, row // (batch * heads)
    read = row // heads * heads + (row & (heads - 1))
    x1 = tl.load(t_ptr + read * 2 * HALF + pair, mask=exists).to(tl.float32)
    x2 = tl.load(t_ptr + read * 2 * HALF + HALF + pair, mask=exists).to(tl.float32)
    angle1 = tl.load(freqs_ptr + position * 2 * HALF + pair, mask=exists)
    angle2 = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, mask=exists)
    if STORES:
        row = read
    offset = row * 2 * HALF + pair
    tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.sin(angle1), mask=exists)
    tl.store(out_ptr + offset + HALF, x2 * tl.cos(angle2) + x1 * tl.sin(angle2), mask=exists)


def by_masked_heads(t, freqs, out=None, stores=False):
    s, b, h, d = t.shape
    out = torch.empty_like(t) if out is None else out
    masked_heads_kernel[(s * b * h,)](t, freqs, out, b, h, **halves_of(d), STORES=stores)
    return out


def rounded_in_one_case(t, freqs):
    """Of fp16 all is right but for a rounding, and something else is wrong with fp32."""
    half = freqs.shape[-1] // 2
    x, tail = t[..., : 2 * half], t[..., 2 * half :]
    angle = freqs[: len(t)].double()
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    if t.dtype == torch.float16:
        y = x * angle.cos().half() + turned * angle.sin().half()
    else:
        y = (x * angle.cos() + turned * angle.sin() + 0.1 * x**3).to(t.dtype)
    return torch.cat((y, tail), dim=-1)
