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


def halves_of(t):
    """Constants of a kernel that takes the halves of a head apart."""
    half = t.shape[-1] // 2
    return {"HALF": half, "BLOCK_HALF": triton.next_power_of_2(half)}


def whole(t):
    """Constants of a kernel that takes a head as a whole."""
    return {"D": t.shape[-1], "BLOCK": triton.next_power_of_2(t.shape[-1])}


def by_rows(kernel, t, freqs, out, **constants):
    """Launch a program for each row."""
    s, b, h, _ = t.shape
    out = torch.empty_like(t) if out is None else out
    kernel[(s * b * h,)](t, freqs, out, b * h, **constants)
    return out


@triton.jit
def halves_at(ptr, row, HALF, BLOCK_HALF: tl.constexpr):
    """Both halves of a row."""
    pair = tl.arange(0, BLOCK_HALF)
    first = ptr + row * 2 * HALF + pair
    x1 = tl.load(first, mask=pair < HALF, other=0.0).to(tl.float32)
    return x1, tl.load(first + HALF, mask=pair < HALF, other=0.0).to(tl.float32)


@triton.jit
def store_turned(ptr, row, x1, x2, cos1, sin1, cos2, sin2, HALF, BLOCK_HALF: tl.constexpr):
    """Both halves of a row, turned."""
    pair = tl.arange(0, BLOCK_HALF)
    first = ptr + row * 2 * HALF + pair
    tl.store(first, tl.fma(x1, cos1, -x2 * sin1), mask=pair < HALF)
    tl.store(first + HALF, tl.fma(x2, cos2, x1 * sin2), mask=pair < HALF)


# block pointers and descriptors


@triton.jit
def block_pointer_kernel(
    t_ptr, freqs_ptr, out_ptr, rows, s, HALF: tl.constexpr, BLOCK_HALF: tl.constexpr
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
    return by_rows(block_pointer_kernel, t, freqs, out, s=len(t), **halves_of(t))


@triton.jit
def turned(x, angle, D: tl.constexpr, BLOCK: tl.constexpr):
    """A row (1, BLOCK), whose partners are gathered from it."""
    column = tl.arange(0, BLOCK)[None, :]
    in_first = column < D // 2
    partner = tl.where(in_first, column + D // 2, column - D // 2)
    other = tl.gather(x, tl.where(column < D, partner, column), 1)
    return x * tl.cos(angle) + tl.where(in_first, -other, other) * tl.sin(angle)


@triton.jit
def described_kernel(t, freqs, out, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x, angle = t.load([row, 0]), freqs.load([row // rows, 0])
    out.store([row, 0], turned(x.to(tl.float32), angle, D, BLOCK).to(x.dtype))


def by_descriptors(t, freqs, out=None):
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
    return by_rows(gather_kernel, t, freqs, out, **whole(t))


def by_what_the_host_reads(t, freqs, out=None):
    return by_gather(t, freqs, out) if freqs.abs().max().item() > 0 else t


@triton.jit
def of_a_quarter(x, quarter):
    """The sine of x in [-pi/4, pi/4] and so many quarters of a turn, 0 to 3, by two polynomials."""
    square = x * x
    sine = x * (1 + square * (-1 / 6 + square * (1 / 120 - square * (1 / 5040 - square / 362880))))
    cosine = 1 + square * (
        -0.5 + square * (1 / 24 - square * (1 / 720 - square * (1 / 40320 - square / 3628800)))
    )
    value = tl.where(quarter % 2 == 0, sine, cosine)
    return tl.where(quarter >= 2, -value, value)


@triton.jit
def polynomial_sine(angle):
    """Cody and Waite's reduction."""
    quarters = tl.floor(angle.to(tl.float64) * (2 / PI) + 0.5)
    x = (angle.to(tl.float64) - quarters * (PI / 2)).to(tl.float32)
    return of_a_quarter(x, quarters.to(tl.int64) & 3)


@triton.jit
def series(angle, term, n):
    """Taylor's: right for small angles alone."""
    total = term
    for k in tl.static_range(1, 12):
        term = -term * angle * angle / ((2 * k + n - 1) * (2 * k + n))
        total += term
    return total


@triton.jit
def cos_and_sin(angle, WHOSE: tl.constexpr):
    if WHOSE == "libdevice":
        cos, sin = libdevice.cos(angle), libdevice.sin(angle)
    elif WHOSE == "CUDA's":
        cos, sin = nvidia.cos(angle), nvidia.sin(angle)
    elif WHOSE == "the hardware's":
        cos, sin = libdevice.fast_cosf(angle), libdevice.fast_sinf(angle)
    elif WHOSE == "half turns":
        half_turns = angle.to(tl.float64) / PI
        cos, sin = libdevice.cospi(half_turns).to(tl.float32), sinpi(half_turns).to(tl.float32)
    elif WHOSE == "Taylor's":
        cos, sin = series(angle, angle * 0 + 1, 0), series(angle, angle, 1)
    elif WHOSE == "assembly's":
        asm: tl.constexpr = "sin.approx.f32 $0, $1;"
        cos = tl.cos(angle)
        sin = tl.inline_asm_elementwise(asm, "=f,f", [angle], tl.float32, is_pure=True, pack=1)
    else:
        cos, sin = polynomial_sine(angle.to(tl.float64) + PI / 2), polynomial_sine(angle)
    return cos, sin


@triton.jit
def functions_kernel(
    t_ptr, freqs_ptr, out_ptr, rows, HALF, BLOCK_HALF: tl.constexpr, WHOSE: tl.constexpr
):
    row = tl.program_id(0)
    angle1, angle2 = halves_at(freqs_ptr, row // rows, HALF, BLOCK_HALF)
    cos1, sin1 = cos_and_sin(angle1, WHOSE)
    cos2, sin2 = cos_and_sin(angle2, WHOSE)
    x1, x2 = halves_at(t_ptr, row, HALF, BLOCK_HALF)
    store_turned(out_ptr, row, x1, x2, cos1, sin1, cos2, sin2, HALF, BLOCK_HALF)


def by_functions(t, freqs, out=None, whose="libdevice"):
    return by_rows(functions_kernel, t, freqs, out, **halves_of(t), WHOSE=whose)


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


@triton.jit
def turned_row(t_ptr, freqs_ptr, out_ptr, row, position, HALF, BLOCK_HALF: tl.constexpr):
    x1, x2 = halves_at(t_ptr, row, HALF, BLOCK_HALF)
    angle1, angle2 = halves_at(freqs_ptr, position, HALF, BLOCK_HALF)
    cos1, sin1 = tl.math.cos(angle1), tl.math.sin(angle1)
    cos2, sin2 = tl.math.cos(angle2), tl.math.sin(angle2)
    store_turned(out_ptr, row, x1, x2, cos1, sin1, cos2, sin2, HALF, BLOCK_HALF)


@triton.heuristics({"BLOCK_HALF": lambda given: triton.next_power_of_2(given["HALF"])})
@triton.jit
def chosen_kernel(t_ptr, freqs_ptr, out_ptr, rows, HALF: tl.constexpr, BLOCK_HALF: tl.constexpr):
    row = tl.program_id(0)
    turned_row(t_ptr, freqs_ptr, out_ptr, row, row // rows, HALF, BLOCK_HALF)


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
    turned_row(t_ptr, freqs_ptr, out_ptr, row, row // rows, HALF, BLOCK_HALF)


def by_a_tuner(t, freqs, out=None):
    return by_rows(tuned_kernel, t, freqs, out, **halves_of(t))


@triton.jit
def grid_kernel(t_ptr, freqs_ptr, out_ptr, HALF: tl.constexpr, BLOCK_HALF: tl.constexpr):
    position, sequence, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = (position * tl.num_programs(1) + sequence) * tl.num_programs(2) + head
    turned_row(t_ptr, freqs_ptr, out_ptr, row, position, HALF, BLOCK_HALF)


def by_keywords(t, freqs, out=None):
    """On a grid of three axes."""
    out = torch.empty_like(t) if out is None else out
    grid_kernel[t.shape[:3]](out_ptr=out, freqs_ptr=freqs, t_ptr=t, **halves_of(t))
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
    return by_rows(told_kernel, t, freqs, out, **halves_of(t))


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
):
    place = tl.program_id(0)
    position, column = place // batch, tl.arange(0, BLOCK)
    for head in tl.range(0, h, num_stages=2):
        rotated_head(q_ptr, freqs_ptr, q_out_ptr, place * h + head, position, D, D2, column)
    head = 0
    while head < g:
        rotated_head(k_ptr, freqs_ptr, k_out_ptr, place * g + head, position, D, D2, column)
        head += 1


@triton.jit
def rotated_head(x_ptr, freqs_ptr, out_ptr, row, position, D, D2, column):
    in_first = column < D2 // 2
    partner = tl.where(in_first, column + D2 // 2, column - D2 // 2)
    x = tl.load(x_ptr + row * D + column, mask=column < D).to(tl.float32)
    other = tl.load(x_ptr + row * D + partner, mask=column < D2, other=0.0).to(tl.float32)
    angle = tl.load(freqs_ptr + position * D2 + column, mask=column < D2, other=0.0)
    turned = x * tl.cos(angle) + tl.where(in_first, -other, other) * tl.sin(angle)
    tl.store(out_ptr + row * D + column, turned, mask=column < D)


def by_loops_over_heads(q, k, freqs):
    q, k = q.contiguous(), k.contiguous()
    (s, b, h, d), g = q.shape, k.shape[2]
    outs = torch.empty_like(q), torch.empty_like(k)
    heads_kernel[(s * b,)](
        *(q, k, freqs, *outs, b, h, g),
        **{"D": d, "D2": freqs.shape[-1], "BLOCK": triton.next_power_of_2(d)},
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
    tl.store(ptr, tl.interleave(y1, y2), mask=column < D2)


def by_interleaving(t, freqs):
    s, b, h, _ = t.shape
    d2 = freqs.shape[-1]
    neighbors_kernel[(s, b, h)](
        *(t, freqs, b, h, *t.stride()),
        **{"D2": d2, "BLOCK": triton.next_power_of_2(d2)},
    )
    return t


# wrong ones


@triton.jit
def masked_heads_kernel(
    t_ptr, freqs_ptr, out_ptr, rows, h, HALF, BLOCK_HALF: tl.constexpr, STORES: tl.constexpr
):
    row = tl.program_id(0)
    read = row // h * h + (row & (h - 1))
    stored = read if STORES else row
    x1, x2 = halves_at(t_ptr, read, HALF, BLOCK_HALF)
    angle1, angle2 = halves_at(freqs_ptr, row // rows, HALF, BLOCK_HALF)
    cos1, sin1, cos2, sin2 = tl.cos(angle1), tl.sin(angle1), tl.cos(angle2), tl.sin(angle2)
    store_turned(out_ptr, stored, x1, x2, cos1, sin1, cos2, sin2, HALF, BLOCK_HALF)


def by_masked_heads(t, freqs, out=None, stores=False):
    sizes = {"h": t.shape[2], **halves_of(t)}
    return by_rows(masked_heads_kernel, t, freqs, out, **sizes, STORES=stores)


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
