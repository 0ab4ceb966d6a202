"""What notebook 11 measures, at the size of Qwen3-8B: inputs on the GPU, and calls of q and k."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import rms_norm

from rope_kernels import RotaryPositionEmbedding, rope_qk
from rope_kernels.norms import qk_norm_rope

S, Q_HEADS, K_HEADS, D = 8192, 32, 8, 128  # tokens, heads, head dimension; in bf16
Table = tuple[Tensor, Tensor]


def layer() -> tuple[tuple[Tensor, ...], Table, Table]:
    """q, k and their weights; fp32 tables with a column for each pair; bf16 ones as in a model."""
    q, k = (torch.randn(S, 1, h, D, device="cuda").bfloat16() for h in (Q_HEADS, K_HEADS))
    weights = [(1 + 0.1 * torch.randn(D, device="cuda")).bfloat16() for _ in "qk"]
    half = RotaryPositionEmbedding(D).cuda()(S)[..., : D // 2]
    narrow = half.cos(), half.sin()
    cos, sin = (torch.cat((table, table), -1).bfloat16() for table in narrow)
    return (q, k, *weights), narrow, (cos, sin)


def gradient_call(function: Callable, inputs: tuple[Tensor, ...], tables: Table) -> Callable:
    """A call that computes the gradients of the inputs, each time it is called."""
    from torch._functorch import config

    config.donated_buffer = False  # a graph that runs again keeps its buffers
    leaves = [x.detach().requires_grad_() for x in inputs]
    outs = function(*leaves, *tables)
    grads = [torch.randn_like(y) for y in outs]
    return partial(torch.autograd.grad, outs, leaves, grads, retain_graph=True)


def of_both(function: Callable) -> Callable:
    """The function of x, weight and tables for q and for k."""

    def q_and_k(q, k, q_weight, k_weight, *tables):
        return function(q, q_weight, *tables), function(k, k_weight, *tables)

    return q_and_k


norms = of_both(lambda x, weight: rms_norm(x, (D,), weight, 1e-6))


def two_kernels(norms, q, k, q_weight, k_weight, cos, sin) -> tuple[Tensor, Tensor]:
    """Normalized by `norms`, then rotated by a second kernel."""
    q, k = norms(q, k, q_weight, k_weight)
    return rope_qk(q, k, (cos[:, 0, 0], sin[:, 0, 0]), "sbhd", rotary_dim=D)


def one_kernel(q, k, q_weight, k_weight, cos, sin) -> tuple[Tensor, Tensor]:
    """The package's kernel for both."""
    table = cos[:, 0, 0], sin[:, 0, 0]
    return qk_norm_rope(q, k, q_weight, k_weight, table, "sbhd", rotary_dim=D)
