"""Notebook 13's ladder of SwiGLU, forward and backward. Importing it loads Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import silu


def eager(gate: Tensor, up: Tensor) -> Tensor:
    """As models write it: silu(gate) goes through HBM, once each way."""
    return silu(gate) * up


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    gate = tl.load(gate_ptr + i, mask=exists).to(tl.float32)
    up = tl.load(up_ptr + i, mask=exists).to(tl.float32)
    tl.store(out_ptr + i, gate * tl.sigmoid(gate) * up, mask=exists)


def swiglu(gate: Tensor, up: Tensor, block: int = 1024) -> Tensor:
    """gate * sigmoid(gate) * up, all contiguous and of one shape and dtype."""
    out, n = torch.empty_like(gate), gate.numel()
    swiglu_kernel[(triton.cdiv(n, block),)](gate, up, out, n, BLOCK=block)
    return out


@triton.jit
def swiglu_backward_kernel(
    gate_ptr, up_ptr, d_out_ptr, d_gate_ptr, d_up_ptr, n, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    gate = tl.load(gate_ptr + i, mask=exists).to(tl.float32)
    up = tl.load(up_ptr + i, mask=exists).to(tl.float32)
    d_out = tl.load(d_out_ptr + i, mask=exists).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    silu = gate * sigmoid
    tl.store(d_gate_ptr + i, d_out * up * (sigmoid + silu * (1 - sigmoid)), mask=exists)
    tl.store(d_up_ptr + i, d_out * silu, mask=exists)


def swiglu_backward(
    gate: Tensor, up: Tensor, d_out: Tensor, block: int = 1024
) -> tuple[Tensor, Tensor]:
    """Gradients of gate and up; the sigmoid is computed again, not kept."""
    d_gate, d_up, n = torch.empty_like(gate), torch.empty_like(up), gate.numel()
    swiglu_backward_kernel[(triton.cdiv(n, block),)](gate, up, d_out, d_gate, d_up, n, BLOCK=block)
    return d_gate, d_up
