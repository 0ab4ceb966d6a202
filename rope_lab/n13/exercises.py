"""What notebook 13 asks for: kernels in plain PyTorch, inputs in bf16, and one of your own."""
# ruff: noqa: F821 (the letters of shapes)

from dataclasses import dataclass

import torch
from torch import Tensor

from ..judge.answers import check_answer
from ..judge.inspect.inspection import Inspection
from ..judge.spec import LARGE, OTHER_BLOCK, STRIDED, Case, spec
from ..judge.verdict import Verdict


@spec(launches=1, kernel=True)
def swiglu_in_pytorch(gate: "(s, d)", up: "(s, d)"):
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)


@spec(launches=1, kernel=True)
def swiglu_backward_in_pytorch(gate: "(s, d)", up: "(s, d)", d_out: "(s, d)"):
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


@spec(launches=1, kernel=True)
def add_rms_norm_in_pytorch(x: "(s, d)", residual: "(s, d)", weight: "(d)"):
    total = x.float() + residual.float()
    r = torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6)
    residual.copy_(total)
    x.copy_(total * r * weight.float())


def stream(size: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """x and the residual stream, (tokens, 5120), and a weight (5120,)."""
    x, residual = torch.randn(2, size, 5120, device=device, dtype=torch.bfloat16)
    for t in x, residual:
        t[0] /= 1024  # Only so small a row shows where eps is added.
    return x, residual, torch.randn(5120, device=device, dtype=torch.bfloat16)


@spec(launches=1, kernel=True)
def packed_rope_in_pytorch(t: "(s, h, d)", inv_freq: "(p)", cu_seqlens: "(n)"):
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


@spec(
    leave_out=STRIDED,
    launches=1,
    kernel=True,
    tolerance=(1e-5, 1e-5),  # the order of a sum is free
    extra=(
        Case("rows of three blocks", {"s": 3, "d": 10_000}),
        Case("rows that fill their blocks", {"s": 2, "d": 8192}),
        Case(OTHER_BLOCK, {"s": 3, "d": 100}, options={"block": 32}),
        Case("large elements", {"s": 5, "d": 5000}, torch.float16, layout=LARGE),
        Case("rows of two large elements", {"s": 9, "d": 2}, torch.float16, layout=LARGE),
    ),
)
def logsumexp_of_rows(x: "(s, d)"):
    """The logarithm of the sum of a row's exponentials."""
    return torch.logsumexp(x, dim=-1)


def logits(size: int, device: str) -> tuple[Tensor]:
    """Logits of tokens, (tokens, 128256), as many as Llama 3 has."""
    return (8 * torch.randn(size, 128256, device=device, dtype=torch.bfloat16),)


def logsumexp_in_pytorch(x: Tensor) -> Tensor:
    return torch.logsumexp(x.float(), dim=-1).to(x.dtype)


@dataclass(frozen=True)
class Predicted:
    """What `lab.inspect` found, and a verdict about the predicted bytes."""

    found: Inspection
    verdict: Verdict

    def __bool__(self) -> bool:
        return bool(self.verdict)

    def __repr__(self) -> str:
        return f"{self.found!r}\n{self.verdict!r}"

    def _repr_html_(self) -> str:
        return self.found._repr_html_() + self.verdict._repr_html_()


def with_prediction(found: Inspection, megabytes: float | None) -> Inspection | Predicted:
    """Add a verdict about the predicted bytes, once the kernel is right.

    Args:
        found: what `lab.inspect` returned.
        megabytes: the reader's prediction of 10^6 bytes that must move at the large size.
    """
    if not found or not found.launches:
        return found
    tensors = [tensor for launch in found.launches for tensor in launch.tensors.values()]
    loaded, stored = (sum(t[x] for t in tensors) / 1e6 for x in ("loaded_once", "stored_once"))
    requested = sum(launch.requested for launch in found.launches) / 1e6
    needed = loaded + stored
    mistakes = {
        "only what is loaded: a store moves bytes, too": loaded,
        "only what is stored: a load moves bytes, too": stored,
        "twice as many bytes as there are: an element of bf16 has two": 2 * needed,
        "half as many bytes as there are: an element of fp32 has four": needed / 2,
        "bytes instead of megabytes": 1e6 * needed,
        "units of 2^20 bytes instead of 10^6": needed / 1.048576,
    }
    if requested > 1.03 * needed:
        mistakes["what programs request: a cache may deliver what is loaded again"] = requested
    words = "count what is read of each input once, and each result once"
    verdict = check_answer(
        megabytes, needed, unit="MB", tolerance=0.02, hint=words, mistakes=mistakes
    )
    return Predicted(found, verdict)
