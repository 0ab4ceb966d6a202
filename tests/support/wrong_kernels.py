"""Kernels with a mistake each, as readers make them; `tests/lab/test_judge.py` has them judged.

All are one kernel, right where `MISTAKE` is 0, so that each differs from the right one in a line.
"""

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
    first, second = pair, pair + HALF
    at = position * stride_s + text * stride_b + head * stride_h
    if MISTAKE == 5:
        at = at.to(tl.int16)
    x_ptr = t_ptr + at
    y_ptr = out_ptr + position * out_s + text * out_b + head * out_h
    x1 = tl.load(x_ptr + first * stride_d, exists)
    x2 = tl.load(x_ptr + second * stride_d, exists)
    if MISTAKE == 4 and x1.dtype != tl.float32:
        x1, x2 = x1.to(tl.float16), x2.to(tl.float16)
    if MISTAKE == 3 and x1.dtype == tl.bfloat16:
        x2 = -x2
    turn = position
    if MISTAKE == 13:
        turn = head
    is_in_table = exists
    if MISTAKE == 6:
        is_in_table = exists & (position < 16)
    angle1 = tl.load(freqs_ptr + turn * 2 * HALF + first, is_in_table, other=0.0)
    angle2 = tl.load(freqs_ptr + turn * 2 * HALF + second, is_in_table, other=0.0)
    cos1, sin1, cos2, sin2 = tl.cos(angle1), tl.sin(angle1), tl.cos(angle2), tl.sin(angle2)
    if MISTAKE == 2:
        sin2 = -sin2
    y1 = x1 * cos1 - x2 * sin1
    y2 = x2 * cos2 + x1 * sin2
    tl.store(y_ptr + first * out_d, y1, exists)
    tl.store(y_ptr + second * out_d, y2, exists)
    if D > 2 * HALF:
        tail = 2 * HALF + tl.arange(0, BLOCK_TAIL)
        x = tl.load(x_ptr + tail * stride_d, tail < D)
        if MISTAKE == 17:
            x = tl.load(x_ptr + tail, tail < D)
        tl.store(y_ptr + tail * out_d, x, tail < D)


def launch(t, freqs, mistake=0, out=None):
    s, b, h, d = t.shape
    half = freqs.shape[-1] // 2
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device) if out is None else out
    kernel[(s * b * h,)](
        t,
        freqs,
        out,
        s * b * h,
        b,
        h,
        *t.stride(),
        *out.stride(),
        D=d,
        HALF=half,
        BLOCK=triton.next_power_of_2(half),
        BLOCK_TAIL=triton.next_power_of_2(max(1, d - 2 * half)),
        MISTAKE=float(mistake),
    )
    return out


def keeps_a_table_by_its_address(t, freqs, kept={}):  # noqa: B006 (it is to be kept)
    return launch(t, kept.setdefault((freqs.data_ptr(), freqs.shape), freqs.clone()))


def stub(t, freqs):
    raise NotImplementedError


def stub_with_words(t, freqs):
    raise NotImplementedError("begin with the masks")


@triton.jit
def doubling_kernel(
    x_ptr,  # (n,)
    out_ptr,  # (n,)
    n,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, i < n), i < n)


def prints(x):
    print("the shape is", x.shape)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)
