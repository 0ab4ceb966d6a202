"""A solution of notebook 10, for mistakes that are made in it. Importing it loads Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_q_k_kernel(
    q_ptr,  # (s, b, h, d), the last dimension contiguous
    k_ptr,  # (s, b, g, d), the last dimension contiguous
    freqs_ptr,  # angles (s, 1, 1, d), contiguous
    q_out_ptr,  # like q, contiguous
    k_out_ptr,  # like k, contiguous
    batch,  # b
    q_heads,  # h
    k_heads,  # g
    q_strides,  # of s, b, h; a tuple, as in Python
    k_strides,  # of s, b, g
    HALF: tl.constexpr,  # d / 2
    BLOCK: tl.constexpr,  # HALF rounded up to a power of two
):
    token, head = tl.program_id(0), tl.program_id(1)
    position, sequence = token // batch, token % batch
    if head < q_heads:  # one number a program, so an `if` will do
        x_ptr = q_ptr + position * q_strides[0] + sequence * q_strides[1] + head * q_strides[2]
        y_ptr = q_out_ptr + (token * q_heads + head) * 2 * HALF
    else:
        head = head - q_heads
        x_ptr = k_ptr + position * k_strides[0] + sequence * k_strides[1] + head * k_strides[2]
        y_ptr = k_out_ptr + (token * k_heads + head) * 2 * HALF
    pair = tl.arange(0, BLOCK)
    exists = pair < HALF
    x1 = tl.load(x_ptr + pair, mask=exists).to(tl.float32)
    x2 = tl.load(x_ptr + HALF + pair, mask=exists).to(tl.float32)
    angle1 = tl.load(freqs_ptr + position * 2 * HALF + pair, mask=exists)
    angle2 = tl.load(freqs_ptr + position * 2 * HALF + HALF + pair, mask=exists)
    tl.store(y_ptr + pair, x1 * tl.cos(angle1) - x2 * tl.sin(angle1), mask=exists)
    tl.store(y_ptr + HALF + pair, x2 * tl.cos(angle2) + x1 * tl.sin(angle2), mask=exists)


def rope_q_k(q, k, freqs):
    s, b, h, d = q.shape
    g, half, block = k.shape[2], d // 2, triton.next_power_of_2(d // 2)
    q_out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    k_out = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    rope_q_k_kernel[(s * b, h + g)](
        q, k, freqs, q_out, k_out, b, h, g, q.stride()[:3], k.stride()[:3], HALF=half, BLOCK=block
    )
    return q_out, k_out
