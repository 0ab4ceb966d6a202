"""`norm_rope` where plain PyTorch takes over: torch.func, gradients in batches and of tables."""

import pytest
import torch
from torch import func

from test_norm_rope_autograd import Problem

# torch.func: plain PyTorch


@pytest.mark.parametrize("transform", (func.jacrev, func.jacfwd, func.hessian))
def test_func_jacobians(transform, device):
    problem = Problem("qwen 3", "sbhd", device)
    leaves = [x.detach() for x in problem.leaves]
    wrap = problem.sum_of_cubes if transform is func.hessian else lambda function: function
    got, want = (transform(wrap(f), (0, 1))(*leaves) for f in (problem.call, problem.expected))
    torch.testing.assert_close(got, want)


def test_func_vmap_and_a_gradient_for_each_sample(device):
    problem = Problem("gemma 3", "bshd", device)
    t, weight = (x.detach() for x in problem.leaves)
    batch = torch.randn(4, *t.shape, device=device, dtype=torch.float64)
    got = func.vmap(problem.call, (0, None))(batch, weight)
    torch.testing.assert_close(got, torch.stack([problem.expected(t, weight) for t in batch]))
    gradient = func.grad(problem.sum_of_cubes(problem.call), argnums=1)
    want = func.grad(problem.sum_of_cubes(problem.expected), argnums=1)
    got = func.vmap(gradient, (0, None))(batch, weight)
    torch.testing.assert_close(got, torch.stack([want(t, weight) for t in batch]))


def test_forward_mode(device):
    problem = Problem("hunyuan", "thd", device)
    leaves = tuple(x.detach() for x in problem.leaves)
    tangents = tuple(torch.randn_like(x) for x in leaves)
    got, want = (func.jvp(f, leaves, tangents) for f in (problem.call, problem.expected))
    torch.testing.assert_close(got, want)


# a table that requires a gradient: plain PyTorch


@pytest.mark.parametrize("kind", ("angles", "cos and sin"))
def test_a_gradient_for_freqs(kind, device):
    problem = Problem("after, with an offset", "bshd", device)
    tables = [problem.freqs.double()]
    if kind == "cos and sin":
        tables = [x.flatten(1) for x in (tables[0].cos(), tables[0].sin())]
    tables = [x.requires_grad_() for x in tables]
    problem.freqs = tables[0] if kind == "angles" else tuple(tables)
    inputs = [*problem.leaves, *tables]
    got, want = (
        torch.autograd.grad(problem.sum_of_cubes(function)(*problem.leaves), inputs)
        for function in (problem.call, problem.expected)
    )
    torch.testing.assert_close(got, want)
    assert all(x.any() for x in got)


# gradients in batches


@pytest.mark.parametrize("recipe", ("qwen 3", "after, with an offset", "model"))
def test_gradients_in_batches(recipe, device):
    """As `torch.autograd.functional.jacobian(vectorize=True)` asks for them."""
    problem = Problem(recipe, "bshd", device, heads=(2, 1))
    outs = problem.call(*problem.leaves)
    batches = [torch.randn(3, *out.shape, device=device).to(out.dtype) for out in outs]
    got = torch.autograd.grad(
        outs, problem.leaves, batches, retain_graph=True, is_grads_batched=True
    )
    for i, grads in enumerate(zip(*batches, strict=True)):
        want = torch.autograd.grad(outs, problem.leaves, grads, retain_graph=True)
        torch.testing.assert_close([x[i] for x in got], list(want))
