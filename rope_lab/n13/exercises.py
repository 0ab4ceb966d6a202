"""What notebook 13 asks for: three kernels in plain PyTorch, and their inputs, all in bf16."""

import torch
from torch import Tensor

from ..judge.exercise import Exercise, WrongAnswer


def swiglu_in_pytorch(gate: Tensor, up: Tensor) -> Tensor:
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)


SWIGLU = Exercise(
    cell="13-ex1",
    judged_by=swiglu_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="the sigmoid of up",
            instead={"tl.sigmoid(gate) * up": "tl.sigmoid(up) * gate"},
            told="shape (3, 11008), bfloat16; first at index (0, 0): got",
        ),
        WrongAnswer(
            mistake="the input for the output",
            instead={"out, n = torch.empty_like(gate)": "out, n = gate"},
            told="an input is overwritten: gate",
        ),
    ),
)


def swiglu_backward_in_pytorch(gate: Tensor, up: Tensor, d_out: Tensor) -> tuple[Tensor, Tensor]:
    wide, grad = gate.float(), d_out.float()
    sigmoid = torch.sigmoid(wide)
    d_gate = grad * up.float() * sigmoid * (1 + wide * (1 - sigmoid))
    d_up = grad * wide * sigmoid
    return d_gate.to(gate.dtype), d_up.to(gate.dtype)


SWIGLU_BACKWARD = Exercise(
    cell="13-ex2",
    judged_by=swiglu_backward_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="the gradients exchanged",
            instead={"return d_gate, d_up": "return d_up, d_gate"},
            told="result 0: 32",
        ),
        WrongAnswer(
            mistake="the sigmoid for its product",
            instead={"d_out * silu": "d_out * sigmoid"},
            told="result 1: 32",
        ),
    ),
)


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


ADD_AND_NORMALIZE = Exercise(
    cell="13-ex3",
    judged_by=add_rms_norm_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="the sum not stored",
            instead={"    tl.store(residual_ptr + offset, total, mask=exists)\n": ""},
            told="WRONG at size 3: residual: ",  # how many values: what the memory held before
        ),
        WrongAnswer(
            mistake="the block for the row",
            instead={"/ D + 1e-6": "/ BLOCK + 1e-6"},
            told="shape (3, 5120), bfloat16; first at index (0, 0): got",
        ),
    ),
)


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


PACKED_ROPE = Exercise(
    cell="13-ex4",
    judged_by=packed_rope_in_pytorch,
    wrong_answers=(
        WrongAnswer(
            mistake="positions of the batch",
            instead={"token - tl.max(tl.where(starts <= token, starts, 0))": "token"},
            told="result 0: 28",
        ),
        WrongAnswer(
            mistake="a sequence begins one late",
            instead={"starts <= token": "starts < token"},
            told="first at index (1, 0, 0): got",
        ),
    ),
)


def packed(size: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """t (tokens, 16, 128), frequencies (64,), and where 16 sequences begin and end (17,)."""
    t = torch.randn(size, 16, 128, device=device, dtype=torch.bfloat16)
    inv_freq = 10000.0 ** -(torch.arange(64, device=device) / 64)
    shares = (0, 2, 2, 5, 10, 22, 23, 35, 36, 50, 61, 62, 70, 82, 90, 99, 100)  # one is empty
    cu_seqlens = torch.tensor([size * share // 100 for share in shares], device=device)
    return t, inv_freq, cu_seqlens.to(torch.int32)
