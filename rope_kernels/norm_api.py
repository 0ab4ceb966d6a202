"""The public functions that normalize and rotate in one kernel."""

from typing import Literal

import torch
from torch import Tensor

from . import norm_launch, norm_reference
from .api import KERNEL, PYTORCH, Route, choose_route, rotation_of, tables_of
from .call import Call, Freqs, OutputPairing
from .checks import bad, check_call, check_inplace, check_values
from .formats import TensorFormat, view_as_sbhd
from .modes import is_traced, wants_grad
from .norm_autograd import NormRopeFunction
from .norm_checks import NormCall, check_norm, check_save
from .norm_operators import norm_rope_by_operator
from .normalization import Normalization
from .plan import both
from .rotation import Rotation

Rounding = Literal["once", "model"]
Save = Literal["input", "output"]


def norm_rope(
    t: Tensor,
    weight: Tensor | None,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    norm_after: bool = False,
    rounding: Rounding = "once",
    save: Save = "input",
    sumsq: Tensor | None = None,
    norm_dim: int | None = None,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int = 0,
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
) -> Tensor:
    """Normalize each row by its root mean square, multiply it by a weight, and rotate it.

    y = rope(x / sqrt(mean(x^2) + eps) * (weight_offset + weight)), in one kernel: x is read once,
    y is written once. The mean is over the whole head dimension, elements that do not turn too.
    Differentiable in `t`, `weight`, `sumsq` and `freqs`, as often as you like. Gradients of weights
    are summed in fp32 in a fixed order: the bits are the same in every run on the same GPU.

    Args:
        t: as in `apply_rotary_pos_emb`; what is not named here is as there.
        weight: (d,), or (h, d) with a weight for each head; the dtype of `t`, or fp32. None: no
            product.
        freqs: as there. With one that requires a gradient all is computed in plain PyTorch.
        eps: is added to the mean of squares.
        weight_offset: is added to the weight: 1 for Gemma 3, Qwen 3.5 and Qwen 3 Next.
        norm_after: rotate first, then normalize and multiply, as HunYuan, Llama 4 and NanoChat do.
        rounding: 'once': fp32 math (fp64 for fp64 `t`), one rounding at the end. 'model': the
            normalized row, its product with the weight, cos, sin, and the rotation's products and
            sums are rounded to the dtype of `t`, as operators of PyTorch do in Hugging Face's
            Qwen 3. Gradients are computed in fp32 with the rounded cos and sin, and rounded once;
            with `fused=False` they go back through PyTorch's roundings.
        save: what the backward finds the normalized row from. 'output': y, which attention keeps
            anyway, and `t` can be freed. It needs a norm without weight, or `norm_after`; then no
            element of weight_offset + weight may be 0 (a zero gives NaN gradients), nor so small
            that elements of y lose digits in fp16. Nor may a pair's cos and sin both be 0. No
            second derivative.
        sumsq: sums of squares, fp32 (fp64 for fp64 `t`), of shape `t.shape[:-1]`, or with h = 1 if
            all heads share one. Then rows are divided by sqrt(sumsq / norm_dim + eps). For a norm
            over all heads, as in OLMo 2 and MiniMax: sum `sum_of_squares(t)` over heads, and over
            ranks if they share the heads.
        norm_dim: number of squares in `sumsq`; None: d.
        fused: False: plain PyTorch.
        inplace: overwrite `t`, all of it, and return it. Without gradients.

    Returns:
        A contiguous tensor of the shape and dtype of `t`, or `t` itself with `inplace`. Tokens past
        `cu_seqlens[-1]` come out normalized, but unrotated. They count in the weight's gradient, so
        a NaN in one of them reaches it.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor, number or bool where one is.
        ValueError: shapes, devices, values or options do not fit together.

    Source: RMSNorm, https://arxiv.org/abs/1910.07467; on queries and keys, Qwen 3,
    https://arxiv.org/abs/2505.09388.
    """
    rest = cu_seqlens, start_positions, position_ids, interleaved, cp_size, cp_rank, fused, inplace
    rest += rotary_dim, rotary_start, inverse, output_pairing
    norm = NormCall(
        *(("weight",), (weight,), (sumsq,)),
        *(eps, weight_offset, norm_after, rounding, save, norm_dim),
    )
    return norm_rope_call(Call(("t",), (t,), freqs, tensor_format, *rest), norm)[0]


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    norm_after: bool = False,
    rounding: Rounding = "once",
    save: Save = "input",
    sumsq: tuple[Tensor, Tensor] | None = None,
    norm_dim: int | None = None,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int = 0,
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
) -> tuple[Tensor, Tensor]:
    """Normalize and rotate queries and keys: one launch forward, two backward.

    Weights of shape (h, d) take a few launches more backward.

    Args:
        q: queries, as `t` in `norm_rope`; what is not named here is as there.
        k: keys, like `q` but for the number of heads and the strides.
        q_weight, k_weight: as `weight` there. If they differ in dtype or in number of dimensions,
            or one is None, q and k take a launch each.
        sumsq: sums of squares of q and of k, as there.

    Returns:
        (q, k), each as `norm_rope` returns it, bit for bit.

    Raises:
        TypeError, ValueError: as `norm_rope`.
    """
    rest = cu_seqlens, start_positions, position_ids, interleaved, cp_size, cp_rank, fused, inplace
    rest += rotary_dim, rotary_start, inverse, output_pairing
    if sumsq is None:
        sumsq = None, None
    elif not (isinstance(sumsq, (tuple, list)) and len(sumsq) == 2):
        raise bad(f"sumsq is {type(sumsq).__name__}", "None, or a pair of tensors", TypeError)
    norm = NormCall(
        *(("q_weight", "k_weight"), (q_weight, k_weight), tuple(sumsq)),
        *(eps, weight_offset, norm_after, rounding, save, norm_dim),
    )
    q, k = norm_rope_call(Call(("q", "k"), (q, k), freqs, tensor_format, *rest), norm)
    return q, k


def norm_rope_call(call: Call, norm: NormCall) -> tuple[Tensor, ...]:
    """What both functions do: check, describe, choose a route, normalize and rotate."""
    tensors, tables = call.tensors, tables_of(call.freqs)
    beside = *norm.weights, *norm.sumsqs
    route = choose_route(call.fused, (*tensors, *tables, *call.where, *beside))
    num_positions = check_call(call)
    check_norm(call, norm)
    rotation = rotation_of(call, tables, num_positions)
    check_save(norm, rotation)
    if rotation.looks_up_positions and rotation.table.is_cpu and not is_traced():
        check_values(rotation, view_as_sbhd(tensors[0], call.tensor_format).shape[0])
    if call.inplace:
        check_inplace(call.names, tensors, rotation, norm.named)
    if wants_grad((rotation.table, rotation.sin)):
        route = PYTORCH  # the kernels have no gradient of a table
    how = normalization_of(call, norm)
    if share_a_launch(tensors, norm.weights):
        beside = _given(norm.weights), _given(norm.sumsqs)
        return _norm_rope(tensors, *beside, rotation, how, route, call.inplace)
    outs = []
    for t, weight, sumsq in zip(tensors, norm.weights, norm.sumsqs, strict=True):
        beside = _given((weight,)), _given((sumsq,))
        alone = route if t.numel() else PYTORCH
        outs += _norm_rope((t,), *beside, rotation, how, alone, call.inplace)
    return tuple(outs)


def normalization_of(call: Call, norm: NormCall) -> Normalization:
    """How a checked call normalizes."""
    return Normalization(
        eps=norm.eps,
        weight_offset=norm.weight_offset,
        after=norm.norm_after,
        like_model=norm.rounding == "model",
        dim=norm.norm_dim or call.tensors[0].shape[-1],
        from_output=norm.save == "output",
    )


def share_a_launch(tensors: tuple[Tensor, ...], weights: tuple[Tensor | None, ...]) -> bool:
    """Whether one kernel suits all tensors: it has one kind of weight."""
    kinds = {None if w is None else (w.dtype, w.dim()) for w in weights}
    return len(kinds) == 1 and all(t.numel() for t in tensors)


def _given(tensors: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
    return tuple([x for x in tensors if x is not None])


def _norm_rope(
    tensors: tuple[Tensor, ...],
    weights: tuple[Tensor, ...],
    sumsqs: tuple[Tensor, ...],
    rotation: Rotation,
    norm: Normalization,
    route: Route,
    inplace: bool,
) -> tuple[Tensor, ...]:
    """Normalize and rotate checked tensors by the route chosen."""
    beside = weights, sumsqs, rotation, norm
    if route is PYTORCH:
        outs = norm_reference.norm_rope(tensors, *beside)
        if not inplace:
            return outs
        for t, out in zip(tensors, outs, strict=True):
            t.copy_(out)
        return tensors
    if wants_grad((*tensors, *weights, *sumsqs)):
        pairs = [both(x) if x else (None, None) for x in (tensors, weights, sumsqs)]
        inputs = [x for pair in pairs for x in pair]
        if route is not KERNEL:
            # torch.compile wants each input of a Function to be an object of its own
            inputs = [None if x is None else x.view_as(x) for x in inputs]
        return NormRopeFunction.apply(*inputs, rotation, norm)
    run = norm_launch.norm_rope if route is KERNEL else norm_rope_by_operator
    outs, _, _ = run(tensors, *beside, inplace, False)
    if inplace and route is KERNEL:
        torch.autograd.graph.increment_version([t for t in tensors if not t.is_inference()])
    return outs
