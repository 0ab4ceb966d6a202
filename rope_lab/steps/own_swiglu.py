"""Notebook 13's SwiGLU, with several blocks. Importing it loads Triton."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = i < n
    gate = tl.load(gate_ptr + i, mask=exists).to(tl.float32)
    up = tl.load(up_ptr + i, mask=exists).to(tl.float32)
    tl.store(out_ptr + i, gate * tl.sigmoid(gate) * up, mask=exists)


def swiglu(gate: Tensor, up: Tensor, block: int = 1024) -> Tensor:
    """gate * sigmoid(gate) * up, all contiguous and of one shape and dtype."""
    out, n = torch.empty_like(gate), gate.numel()
    swiglu_kernel[(triton.cdiv(n, block),)](gate, up, out, n, BLOCK=block)
    return out
