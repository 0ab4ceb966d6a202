"""What notebook 13 asks for: three kernels in plain PyTorch, and their inputs, all in bf16."""

import torch
from torch import Tensor


def swiglu_in_pytorch(gate: Tensor, up: Tensor) -> Tensor:
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)


def swiglu_backward_in_pytorch(gate: Tensor, up: Tensor, d_out: Tensor) -> tuple[Tensor, Tensor]:
    wide, grad = gate.float(), d_out.float()
    sigmoid = torch.sigmoid(wide)
    d_gate = grad * up.float() * sigmoid * (1 + wide * (1 - sigmoid))
    d_up = grad * wide * sigmoid
    return d_gate.to(gate.dtype), d_up.to(gate.dtype)


def gates(size: int, device: str) -> tuple[Tensor, Tensor]:
    """gate and up, (tokens, 11008)."""
    gate, up = torch.randn(2, size, 11008, device=device, dtype=torch.bfloat16)
    return gate, up


def gates_and_gradient(size: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """gate, up and the gradient of the output, (tokens, 11008)."""
    gate, up, d_out = torch.randn(3, size, 11008, device=device, dtype=torch.bfloat16)
    return gate, up, d_out


def add_rms_norm_in_pytorch(x: Tensor, residual: Tensor, weight: Tensor) -> None:
    total = x.float() + residual.float()
    r = torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6)
    residual.copy_(total)
    x.copy_(total * r * weight.float())


def stream(size: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """x and the residual stream, (tokens, 5120), and a weight (5120,)."""
    x, residual = torch.randn(2, size, 5120, device=device, dtype=torch.bfloat16)
    return x, residual, torch.randn(5120, device=device, dtype=torch.bfloat16)


def packed_rope_in_pytorch(t: Tensor, inv_freq: Tensor, cu_seqlens: Tensor) -> Tensor:
    token = torch.arange(len(t), device=t.device)
    sequence = torch.searchsorted(cu_seqlens, token, right=True) - 1
    position = token - cu_seqlens[sequence]
    angle = position[:, None, None] * inv_freq.float()
    cos, sin = angle.cos(), angle.sin()
    first, second = t.float().chunk(2, dim=-1)
    y = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return y.to(t.dtype)


def packed(size: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """t (tokens, 16, 128), frequencies (64,), and where 16 sequences begin and end (17,)."""
    t = torch.randn(size, 16, 128, device=device, dtype=torch.bfloat16)
    inv_freq = 10000.0 ** -(torch.arange(64, device=device) / 64)
    shares = (0, 2, 2, 5, 10, 22, 23, 35, 36, 50, 61, 62, 70, 82, 90, 99, 100)  # one is empty
    cu_seqlens = torch.tensor([size * share // 100 for share in shares], device=device)
    return t, inv_freq, cu_seqlens.to(torch.int32)
