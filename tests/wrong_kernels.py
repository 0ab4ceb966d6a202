"""Kernels with a mistake each, as readers make them; `tests/lab/test_judge.py` has them judged.

All are one kernel, right where `MISTAKE` is 0, so that each differs from the right one in a line.
"""

import os
import time

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    t_ptr,  # (s, b, h, d), any strides
    freqs_ptr,  # (s2, 1, 1, d2), contiguous
    out_ptr,  # (s, b, h, d), contiguous; or t
    rows,  # s * b * h
    batch,  # b
    heads,  # h
    stride_s,
    stride_b,
    stride_h,
    stride_d,
    out_s,
    out_b,
    out_h,
    out_d,
    D: tl.constexpr,
    HALF: tl.constexpr,  # d2 / 2
    BLOCK: tl.constexpr,  # HALF rounded up
    BLOCK_TAIL: tl.constexpr,  # d - d2 rounded up
    MISTAKE: tl.constexpr,
):
    row = tl.program_id(0)
    position, text, head = row // (batch * heads), row // heads % batch, row % heads
    pair = tl.arange(0, BLOCK)
    exists = pair < HALF
    if MISTAKE == 5:
        exists = pair < BLOCK
    first, second = pair, pair + HALF
    if MISTAKE == 11:
        first, second = 2 * pair, 2 * pair + 1
    x_ptr = t_ptr + position * stride_s + text * stride_b + head * stride_h
    if MISTAKE == 7:
        x_ptr = t_ptr + position * stride_s + head * stride_h
    if MISTAKE == 8:
        x_ptr = t_ptr + row * D
    y_ptr = out_ptr + position * out_s + text * out_b + head * out_h
    x1 = tl.load(x_ptr + first * stride_d, exists)
    x2 = tl.load(x_ptr + second * stride_d, exists)
    turn = position
    if MISTAKE == 6:
        turn = row // heads
    if MISTAKE == 13:
        turn = head
    if MISTAKE == 15:
        turn = position * 0
    angle1 = tl.load(freqs_ptr + turn * 2 * HALF + first, exists)
    angle2 = tl.load(freqs_ptr + turn * 2 * HALF + second, exists)
    if MISTAKE == 9:
        angle2 = angle1
    cos1, sin1, cos2, sin2 = tl.cos(angle1), tl.sin(angle1), tl.cos(angle2), tl.sin(angle2)
    if MISTAKE == 10:
        sin1, sin2 = sin2, sin1
    if MISTAKE == 12:
        cos1, sin1 = cos1.to(tl.float16).to(tl.float32), sin1.to(tl.float16).to(tl.float32)
    if MISTAKE == 1:
        sin1, sin2 = -sin1, -sin2
    if MISTAKE == 2:
        sin2 = -sin2
    y1 = x1 * cos1 - x2 * sin1
    y2 = x2 * cos2 + x1 * sin2
    if MISTAKE == 3:
        y1, y2 = y2, y1
    if MISTAKE == 14:
        y1, y2 = -y1, -y2
    tl.store(y_ptr + first * out_d, y1, exists)
    tl.store(y_ptr + second * out_d, y2, exists)
    if D > 2 * HALF and MISTAKE != 4:
        tail = 2 * HALF + tl.arange(0, BLOCK_TAIL)
        x = tl.load(x_ptr + tail * stride_d, tail < D)
        if MISTAKE == 17:
            x = tl.load(x_ptr + tail, tail < D)
        if MISTAKE == 16:
            x = x * 0
        tl.store(y_ptr + tail * out_d, x, tail < D)


def launch(t, freqs, mistake=0, out=None, rows_left_out=0):
    s, b, h, d = t.shape
    half = freqs.shape[-1] // 2
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device) if out is None else out
    kernel[(max(1, s * b * h - rows_left_out),)](
        *(t, freqs, out, s * b * h, b, h, *t.stride(), *out.stride()),
        D=d,
        HALF=half,
        BLOCK=triton.next_power_of_2(half),
        BLOCK_TAIL=triton.next_power_of_2(max(1, d - 2 * half)),
        MISTAKE=mistake,
    )
    return out


def with_mistake(mistake):
    def candidate(t, freqs):
        return launch(t, freqs, mistake)

    return candidate


def right(t, freqs):
    return launch(t, freqs)


def right_in_place(t, freqs):
    return launch(t, freqs, out=t)


def overwrites_its_input(t, freqs):
    return launch(t, freqs, out=t)


def copies_in_place(t, freqs):
    """Leaves the input as it was, where it was asked to overwrite it."""
    launch(t, freqs)


def in_another_dtype(t, freqs):
    return launch(t.float(), freqs)


def in_another_shape(t, freqs):
    return launch(t, freqs).flatten(2)


def last_rows_left_out(t, freqs):
    return launch(t, freqs, rows_left_out=1)


def of_a_constant(grad, freqs):
    return launch(torch.ones(grad.shape, dtype=grad.dtype, device=grad.device), -freqs)


def forward_for_backward(grad, freqs):
    return launch(grad, freqs)


def minus_the_angle(grad, freqs):
    """Right for tables whose halves are alike."""
    return launch(grad, -freqs)


def writes_between(t, freqs):
    """Overwrites the row's memory up to its end, gaps and all."""
    launch(t, freqs, out=t)
    if t.stride(-1) == 2:
        t.as_strided(t.shape, t.stride(), t.storage_offset() + 1)[:] = 0


def raises(t, freqs):
    return launch(t, freqs) + torch.zeros(t.shape[0] + 1, *t.shape[1:])


def ends_the_process(t, freqs):
    os._exit(3)


def never_ends(t, freqs):
    while True:
        pass


def takes_its_time(x):
    time.sleep(0.4)
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([-x2, x1], dim=-1)


def stub(t, freqs):
    raise NotImplementedError


def stub_with_words(t, freqs):
    raise NotImplementedError("begin with the masks")


def stub_that_passes(t, freqs):
    pass


@triton.jit
def racing_kernel(
    t_ptr,  # (s, b, h, d), contiguous; overwritten
    freqs_ptr,  # (s2, 1, 1, d2)
    n,  # elements
    rows,  # b * h
    D: tl.constexpr,
    D2: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists, column = i < n, i % D
    rotates = exists & (column < D2)
    in_first = column < D2 // 2
    partner = tl.where(in_first, i + D2 // 2, i - D2 // 2)
    x = tl.load(t_ptr + i, exists)
    other = tl.load(t_ptr + partner, rotates, other=0.0)
    angle = tl.load(freqs_ptr + i // (D * rows) * D2 + column, rotates, other=0.0)
    y = x * tl.cos(angle) + tl.where(in_first, -other, other) * tl.sin(angle)
    tl.store(t_ptr + i, tl.where(rotates, y, x), exists)


def racing(t, freqs):
    _, b, h, d = t.shape
    grid = (triton.cdiv(t.numel(), 8),)
    racing_kernel[grid](t, freqs, t.numel(), b * h, D=d, D2=freqs.shape[-1], BLOCK=8)


@triton.jit
def copy_kernel(
    x_ptr,  # (n,)
    out_ptr,  # (n,)
    n,
    BLOCK: tl.constexpr,
):
    """Right, for once: a block as notebook 03 loads it."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < n)
    tl.store(out_ptr + i, x, i < n)


@triton.jit
def stored_twice_kernel(
    x_ptr, out_ptr, n, HOW: tl.constexpr, FIRST: tl.constexpr, BLOCK: tl.constexpr
):
    """Stores everything twice, each time three times x, or FIRST times that at first.

    A GPU promises no order: of the programs, of the warps of a program, of a store's lanes.
    """
    program, i = tl.program_id(0), tl.arange(0, BLOCK)
    if HOW == "by two programs":
        y = 3 * tl.load(x_ptr + i, i < n).to(tl.float32)
        tl.store(out_ptr + i, tl.where(program == 0, FIRST * y, y), i < n)
    if HOW == "by one program":
        y = 3 * tl.load(x_ptr + i, i < n).to(tl.float32)
        tl.store(out_ptr + i, FIRST * y, i < n)
        tl.store(out_ptr + i, y, i < n)
    if HOW == "by one store":
        y = 3 * tl.load(x_ptr + i // 2, i < 2 * n).to(tl.float32)
        tl.store(out_ptr + i // 2, tl.where(i % 2 == 0, FIRST * y, y), i < 2 * n)


def stored_twice(x, how, first=1.0):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (2 if how == "by two programs" else 1,)
    stored_twice_kernel[grid](x, out, x.numel(), HOW=how, FIRST=first, BLOCK=8192)
    return out


def nan_stored_twice(x, how):
    return stored_twice(x * float("nan"), how)


@triton.jit
def doubling_kernel(
    x_ptr,  # (n,)
    out_ptr,  # (n,)
    n,
    BLOCK: tl.constexpr,
    HOW: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    if HOW == "one mask for all":
        exists = tl.program_id(0) * BLOCK < n
    if HOW == "and":
        exists = (i < n) and (i >= 0)
    x = tl.load(x_ptr + i, exists)
    if HOW == "what a masked load gives":
        tl.store(out_ptr, tl.sum(2 * x, 0), tl.program_id(0) == 0)
    tl.store(out_ptr + i, 2 * x, exists & (i > 0 if HOW == "what a masked load gives" else True))


@triton.jit
def whole_blocks_kernel(
    x_ptr,  # (n,)
    out_ptr,  # (n,)
    n,
    BLOCK: tl.constexpr,
):
    """Right: blocks that are full as a whole, and the rest one by one, by the last program."""
    begin = tl.program_id(0) * BLOCK
    i, full = begin + tl.arange(0, BLOCK), begin + BLOCK <= n
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, full), full)
    if begin + BLOCK > n:
        for j in range(begin, n):
            tl.store(out_ptr + j, 2 * tl.load(x_ptr + j))


def doubled(x, how="right", kernel=doubling_kernel, block=256):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    options = {"HOW": how} if kernel is doubling_kernel else {}
    kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block, **options)
    return out


def by_whole_blocks(x):
    return doubled(x, kernel=whole_blocks_kernel, block=64)


def without_return(x):
    doubled(x)


def without_a_kernel_or_return(x):
    2 * x


def empty_grid(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    doubling_kernel[(0,)](x, out, x.numel(), BLOCK=256, HOW="right")
    return out


def whole_number_for_a_grid(x):
    doubling_kernel[4](x, x, x.numel(), BLOCK=256, HOW="right")


@triton.jit
def adding_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Right: an atomic addition stores, too."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + i, 3 * tl.load(x_ptr + i, i < n), i < n)


def three_times_by_atomics(x):
    out = torch.zeros_like(x)
    adding_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


def three_times_in_pytorch(x):
    return 3 * x


def prints_how_it_is_interpreted(x):
    from triton.runtime.interpreter import interpreter_builder

    print("checks overflow:", interpreter_builder.options.sanitize_overflow)
    return prints(x)


def prints(x):
    print("the shape is", x.shape)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)
