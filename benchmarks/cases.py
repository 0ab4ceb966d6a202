"""What is measured: shapes, and the providers that rotate tensors of them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, reference, rope_bw, rope_fw

DIRECTIONS = ("forward", "backward")
LIMIT = "copy_"  # reads and writes each element once, and no rotation can do less


@dataclass(frozen=True)
class Shape:
    """An sbhd tensor to rotate, with all of its head dimension."""

    s: int
    b: int
    h: int
    d: int
    dtype: torch.dtype

    @property
    def name(self) -> str:
        return f"({self.s}, {self.b}, {self.h}, {self.d}) {str(self.dtype).removeprefix('torch.')}"


# the shape at which the study's authors compare themselves with TransformerEngine
HEADLINE = (
    Shape(2048, 16, 8, 256, torch.bfloat16),
    Shape(2048, 16, 8, 256, torch.float32),
)


class Workload:
    """Random tensors of a shape, and every provider's way to rotate them."""

    def __init__(self, shape: Shape) -> None:
        size = (shape.s, shape.b, shape.h, shape.d)
        self.t = torch.randn(size, device="cuda", dtype=shape.dtype)
        self.grad = torch.randn_like(self.t)
        self.freqs = RotaryPositionEmbedding(shape.d).cuda()(shape.s)

    def providers(self, direction: str) -> dict[str, Callable[[], Tensor]]:
        """Provider -> a function that rotates once; what it needs beside its output is made here.

        PyTorch's backward is its autograd's, on a graph from outside the measurement.
        """
        t, grad, freqs, out = self.t, self.grad, self.freqs, torch.empty_like(self.t)
        eager, compiled = reference.apply_rotary_pos_emb, torch.compile(_apply_rotary_pos_emb)
        if direction == "forward":
            return {
                LIMIT: lambda: out.copy_(t),
                "PyTorch eager": lambda: eager(t, freqs),
                "torch.compile": lambda: compiled(t, freqs),
                "rope_kernels": lambda: rope_fw(t, freqs),
            }
        return {
            LIMIT: lambda: out.copy_(grad),
            "PyTorch eager": self._backward_of(eager),
            "torch.compile": self._backward_of(compiled),
            "rope_kernels": lambda: rope_bw(grad, freqs),
        }

    def expected(self, direction: str) -> Tensor:
        """The result in fp64."""
        source = self.t if direction == "forward" else self.grad
        transpose = direction == "backward"
        return reference.apply_rotary_pos_emb(source.double(), self.freqs, transpose=transpose)

    def _backward_of(self, function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Tensor]:
        leaf = self.t.detach().clone().requires_grad_()
        rotated = function(leaf, self.freqs)
        return lambda: torch.autograd.grad(rotated, leaf, self.grad, retain_graph=True)[0]


def relative_error(result: Tensor, expected: Tensor) -> float:
    """Norm of the difference over the norm of what is expected; both on the GPU."""
    return ((result.double() - expected).norm() / expected.norm()).item()


def _apply_rotary_pos_emb(t: Tensor, freqs: Tensor) -> Tensor:
    """The unfused function without its argument checks, as one would hand it to torch.compile."""
    cos, sin = freqs.cos().to(t.dtype), freqs.sin().to(t.dtype)
    first, second = t.chunk(2, dim=-1)
    return t * cos + torch.cat((-second, first), dim=-1) * sin
