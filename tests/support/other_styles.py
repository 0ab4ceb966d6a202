"""Kernels in other styles than ours; `tests/lab/test_other_styles.py` has them judged.

Each launcher `by_...` rotates whole heads, of contiguous tensors, as rung 1 asks, unless it says
otherwise.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as nvidia
from triton.tools.tensor_descriptor import TensorDescriptor


def halves_of(t):
    """Constants of a kernel that takes the halves of a head apart."""
    half = t.shape[-1] // 2
    return {"HALF": half, "BLOCK_HALF": triton.next_power_of_2(half)}


def whole(t):
    """Constants of a kernel that takes a head as a whole."""
    return {"D": t.shape[-1], "BLOCK": triton.next_power_of_2(t.shape[-1])}


def refuse_all_but_whole_rows(t, freqs):
    """Raise ValueError for what the kernels below would get wrong."""
    if not t.is_contiguous() or t.shape[-1] % 2:
        raise ValueError("t has strides or an odd width; accepted: contiguous, an even width")
    if len(freqs) < len(t) or freqs.shape[-1] != t.shape[-1]:
        raise ValueError("the table is too short, or has another width than t")


def by_rows(kernel, t, freqs, out, **constants):
    """Launch a program for each row."""
    refuse_all_but_whole_rows(t, freqs)
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
    refuse_all_but_whole_rows(t, freqs)
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
    elif WHOSE == "the block's":
        cos, sin = angle.cos(), angle.sin()
    elif WHOSE == "Taylor's":
        cos, sin = series(angle, angle * 0 + 1, 0), series(angle, angle, 1)
    else:  # assembly's
        asm: tl.constexpr = "sin.approx.f32 $0, $1;"
        cos = tl.cos(angle)
        sin = tl.inline_asm_elementwise(asm, "=f,f", [angle], tl.float32, is_pure=True, pack=1)
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
    tl.store(out_ptr + n + i, libdevice.floor(x), mask=exists)
    tl.store(out_ptr + 2 * n + i, libdevice.pow(x, 3), mask=exists)
    tl.store(out_ptr + 3 * n + i, libdevice.atan2(x, 2.0), mask=exists)
    tl.store(out_ptr + 4 * n + i, libdevice.remainder(x, 0.75), mask=exists)


def several_functions(x, casts=True):
    out = torch.empty(5, x.numel(), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.numel(), 64),)
    several_kernel[grid](x, out, x.numel(), BLOCK=64, CASTS=casts)
    return out


def several_in_pytorch(x: "(n,)"):  # noqa: F821
    nearest = x - 0.75 * torch.round(x / 0.75)
    angle = torch.atan2(x, torch.full_like(x, 2))
    return torch.stack(((x * x + 1).rsqrt(), x.floor(), x**3, angle, nearest))


# functions of their own in reductions and scans


@triton.jit
def higher(max1, sum1, max2, sum2):
    """Of two parts of a row: the maximum, and the sum of exp(x - maximum)."""
    top = tl.maximum(max1, max2)
    return top, sum1 * tl.exp(max1 - top) + sum2 * tl.exp(max2 - top)


@triton.jit
def later(decay1, total1, decay2, total2):
    """Two steps of y = decay * y + x as one."""
    return decay1 * decay2, total1 * decay2 + total2


@triton.jit
def larger(x1, i1, x2, i2):
    return tl.maximum(x1, x2), tl.where(x2 > x1, i2, i1)


@triton.jit
def larger_by_a_branch(x1, i1, x2, i2):
    if x2 > x1:
        x1, i1 = x2, i2
    return x1, i1


@triton.jit
def reductions_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    exists = column[None, :] < n
    at = row[:, None] * n + column[None, :]
    x = tl.load(x_ptr + at, mask=exists, other=0.0).to(tl.float32)
    each = tl.where(exists, x, -1e30), tl.where(exists, 1.0, 0.0)
    top, total = tl.reduce(each, 1, higher)
    _, run = tl.associative_scan((x * 0 + 0.5, x), 1, later)
    tl.store(out_ptr + at, x - (top + tl.log(total))[:, None] + run, mask=exists)


def by_reductions(x):
    out = torch.empty_like(x)
    b, n = x.shape
    block = triton.next_power_of_2(n)
    reductions_kernel[(b,)](x, out, n, BLOCK=block, ROWS=1)
    return out


def reductions_in_pytorch(x: "(b, n)"):  # noqa: F821
    run = x.clone()
    for k in range(1, min(60, x.shape[1])):
        run[:, k:] += 0.5**k * x[:, :-k]
    return x - x.logsumexp(1, keepdim=True) + run


@triton.jit
def largest_kernel(x_ptr, out_ptr, FUNCTION: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """The place of the largest element of each row, and of all."""
    i = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    x = tl.load(x_ptr + i)
    _, of_a_row = tl.reduce((x, i), -1, FUNCTION, keep_dims=True)
    tl.store(out_ptr + tl.arange(0, R)[:, None], of_a_row)
    tl.store(out_ptr + R, tl.reduce((x, i), None, FUNCTION)[1])


# how it is launched


@triton.autotune(
    configs=[triton.Config({}, num_warps=warps) for warps in (1, 2)],
    key=["HALF"],
    restore_value=["t_ptr"],  # in place, too
)
@triton.jit
def tuned_kernel(t_ptr, freqs_ptr, out_ptr, rows, HALF: tl.constexpr, BLOCK_HALF: tl.constexpr):
    row = tl.program_id(0)
    x1, x2 = halves_at(t_ptr, row, HALF, BLOCK_HALF)
    angle1, angle2 = halves_at(freqs_ptr, row // rows, HALF, BLOCK_HALF)
    cos1, sin1 = tl.math.cos(angle1), tl.math.sin(angle1)
    cos2, sin2 = tl.math.cos(angle2), tl.math.sin(angle2)
    store_turned(out_ptr, row, x1, x2, cos1, sin1, cos2, sin2, HALF, BLOCK_HALF)


def by_a_tuner(t, freqs, out=None):
    return by_rows(tuned_kernel, t, freqs, out, **halves_of(t))


# wrong ones


def in_microseconds(x):
    print("5 µs")
    raise ValueError("6 µs")


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
