"""The autograd.Function of `norm_rope`: one launch forward, two backward (with (h, d) more)."""

import torch
from torch import Tensor

from . import norm_launch, norm_reference
from .modes import has_memory, is_traced
from .norm_operators import norm_rope_backward_by_operator, norm_rope_by_operator
from .normalization import Normalization
from .rotation import Rotation


class NormRopeFunction(torch.autograd.Function):
    """y = rope(weight * x / rms(x)), or the norm after the rotation.

    Keeps x, and 1 / rms of each row. Second derivatives are those of `norm_reference.norm_rope`, by
    PyTorch.
    """

    @staticmethod
    def forward(ctx, q, k, q_weight, k_weight, q_sumsq, k_sumsq, rotation, norm):
        pairs = (q, k), (q_weight, k_weight), (q_sumsq, k_sumsq)
        tensors, weights, sumsqs = [[x for x in pair if x is not None] for pair in pairs]
        run = norm_rope_by_operator if is_traced() else norm_launch.norm_rope
        outs, rstds, positions = run(tensors, weights, sumsqs, rotation, norm, False, True)
        wants = any(ctx.needs_input_grad[0:6:2]), any(ctx.needs_input_grad[1:6:2])
        rows = zip(outs, wants, strict=False)
        ctx.mark_non_differentiable(*(out for out, wanted in rows if not wanted))
        ctx.save_for_backward(*tensors, *rstds, *weights, *sumsqs, positions, *rotation.tensors)
        ctx.counts = len(tensors), len(weights), len(sumsqs)
        ctx.options, ctx.norm = rotation.options, norm
        return outs

    @staticmethod
    def backward(ctx, *grads):
        tensors, weights, sumsqs = ctx.counts
        saved, norm = list(ctx.saved_tensors), ctx.norm
        kept, saved = saved[:tensors], saved[tensors:]
        rstds, saved = saved[:tensors], saved[tensors:]
        weights, saved = saved[:weights], saved[weights:]
        sumsqs, saved = saved[:sumsqs], saved[sumsqs:]
        positions, *tables = saved
        rotation = Rotation(*tables, *ctx.options)
        if not is_traced() and (torch.is_grad_enabled() or not all(map(has_memory, grads))):
            found = _differentiable(grads, kept, weights, sumsqs, rotation, norm)
        else:
            by_operator = norm_rope_backward_by_operator
            run = by_operator if is_traced() else norm_launch.norm_rope_backward
            given = grads, kept, rstds, positions, weights, rotation, norm
            found = run(*given, len(sumsqs) > 0, any(ctx.needs_input_grad[2:4]))
            of_sumsqs = [g.sum_to_size(x.shape) for g, x in zip(found[2], sumsqs, strict=True)]
            found = *found[:2], of_sumsqs
        of_q_and_k = [(*gradients, None, None)[:2] for gradients in found]
        return *of_q_and_k[0], *of_q_and_k[1], *of_q_and_k[2], None, None


def _differentiable(
    grads: tuple[Tensor, ...],
    kept: list[Tensor],
    weights: list[Tensor],
    sumsqs: list[Tensor],
    rotation: Rotation,
    norm: Normalization,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The gradients as PyTorch computes them: differentiable once more, and in batches."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # one may be computed from another: a view of its own ends each path
        kept, weights, sumsqs = ([x.view_as(x) for x in row] for row in (kept, weights, sumsqs))
        outs = norm_reference.norm_rope(kept, weights, sumsqs, rotation, norm)
    inputs = [x for x in (*kept, *weights, *sumsqs) if x.requires_grad]
    pairs = [pair for pair in zip(outs, grads, strict=True) if pair[0].requires_grad]
    outs, grads = ([pair[i] for pair in pairs] for i in (0, 1))
    found = iter(torch.autograd.grad(outs, inputs, grads, create_graph=create_graph))
    rows = kept, weights, sumsqs
    return tuple(tuple([next(found) if x.requires_grad else None for x in row]) for row in rows)
