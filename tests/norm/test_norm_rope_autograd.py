"""Derivatives of `norm_rope`: gradcheck of every recipe; a second one is an error."""

import pytest
import torch
from torch.autograd import gradgradcheck

from inputs import angles, sequence_starts, shape_of
from norm_yardstick import norm_rope_fp64
from rope_kernels import RotaryPositionEmbedding, norm_rope, qk_norm_rope

S, B, D, D2 = 2, 2, 6, 4
FAST = {"fast_mode": True, "check_undefined_grad": False}  # along random directions, not one by one
RECIPES = {  # what models do, and what this package offers besides
    "qwen 3": {},
    "gemma 3": {"weight_offset": 1.0},
    "hunyuan": {"norm_after": True},
    "no weight": {"weight": None},
    "llama 4": {"weight": None, "norm_after": True},
    "after, with an offset": {"norm_after": True, "weight_offset": 1.0},
    "no weight, on the fly": {"weight": None, "freqs": "module"},
    "model": {"rounding": "model"},
}


class Problem:
    """A function of leaves, in fp64, and the same by the definition."""

    def __init__(self, recipe, tensor_format, device, heads=(2,), **options):
        options = {**RECIPES[recipe], **options}
        self.format, self.heads = tensor_format, heads
        self.weight = options.pop("weight", "(d,)")
        per_pair = options.pop("freqs", None) == "module"
        self.freqs = angles(S * B, D2, device)
        if per_pair:
            interleaved = options.get("interleaved", False)
            self.freqs = RotaryPositionEmbedding(D2, interleaved=interleaved).to(device)
        self.options = options
        self.where = {"cu_seqlens": sequence_starts(tensor_format, S, B, device)}
        shapes = [shape_of(tensor_format, S, B, h, D) for h in heads]
        self.leaves = [self.leaf(shape, device) for shape in shapes]
        if self.weight is not None:
            self.leaves += [self.leaf((D,), device) for _ in heads]

    def leaf(self, shape, device):
        return torch.randn(shape, device=device, dtype=torch.float64).requires_grad_()

    def split(self, leaves):
        """Tensors and weights."""
        n = len(self.heads)
        return leaves[:n], leaves[n:] or [None] * n

    def call(self, *leaves):
        tensors, weights = self.split(leaves)
        given = *tensors, *weights, self.freqs, self.format
        function = norm_rope if len(tensors) == 1 else qk_norm_rope
        return function(*given, **self.options, **self.where)

    def expected(self, *leaves):
        """Of the first tensor."""
        tensors, weights = self.split(leaves)
        options = {name: x for name, x in self.options.items() if name != "rounding"} | self.where
        return norm_rope_fp64(tensors[0], weights[0], self.freqs, self.format, **options)

    def sum_of_cubes(self, function):
        return lambda *leaves: (function(*leaves) ** 3).sum()


@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize("power", (1, 3))  # with 1 what comes back depends on no leaf
def test_a_second_derivative_is_an_error(power, device):
    """In every way to ask for it: it is never lost silently."""
    problem = Problem("qwen 3", "bshd", device, heads=(2, 1))
    loss = sum((out**power).sum() for out in problem.call(*problem.leaves))
    want = torch.autograd.grad(loss, problem.leaves, retain_graph=True)
    found = torch.autograd.grad(loss, problem.leaves, create_graph=True)
    torch.testing.assert_close([x.detach() for x in found], list(want))
    for x in found:
        penalty = loss + (x**2).sum()
        with pytest.raises(RuntimeError, match="fused=False has them all"):
            torch.autograd.grad(penalty, problem.leaves, retain_graph=True)
        with pytest.raises(RuntimeError, match="fused=False has them all"):
            penalty.backward(retain_graph=True)


def test_plain_pytorch_has_the_second_derivative(device):
    problem = Problem("qwen 3", "bshd", device, fused=False)
    assert gradgradcheck(problem.call, problem.leaves, **FAST)
