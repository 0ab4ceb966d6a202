"""Gradients of a function's definition in PyTorch, where a kernel's own will not do."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def gradients_by_pytorch(
    function: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """The gradients as PyTorch computes them: differentiable once more, and in batches.

    Args:
        function: of the inputs.
        inputs: None comes back for those that require no gradient.
        grads: of its outputs; None of what nobody used.
    """
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # one may be computed from another: a view of its own ends each path
        given = [x.view_as(x) for x in inputs]
        outs = function(*given)
    wanted = [x for x in given if x.requires_grad]
    pairs = zip(outs, grads, strict=True)
    pairs = [(out, grad) for out, grad in pairs if out.requires_grad and grad is not None]
    outs, grads = ([pair[i] for pair in pairs] for i in (0, 1))
    options = {"create_graph": create_graph, "allow_unused": True}
    found = iter(torch.autograd.grad(outs, wanted, grads, **options))
    return [next(found) if x.requires_grad else None for x in given]
