"""The public functions that normalize and rotate in one kernel."""

from typing import Unpack

import torch
from torch import Tensor

from . import reference
from .api import KERNEL, OPERATOR, PYTORCH, Route, choose_route, rotation_of, tables_of
from .autograd.norm_function import Rows, Tensors, apply_to_plain_tensors, inputs_of
from .autograd.norm_operator import norm_rope_backward_by_operator, norm_rope_by_operator
from .call.arguments import (
    CAST_LAST,
    LIKE_MODELS,
    Call,
    Freqs,
    SharedOptions,
    refuse_unknown,
    shows_options,
)
from .call.checks import bad, check_call, check_inplace, check_values
from .call.formats import TensorFormat, view_as_sbhd
from .call.norm_checks import NORM_ROUNDINGS, NormCall, NormRounding, check_norm
from .call.normalization import Normalization
from .call.rotation import Rotation
from .launch import fastpath, launch_norm
from .machine.modes import is_dtensor, is_traced, wants_grad


@shows_options(SharedOptions)
def norm_rope(
    t: Tensor,
    weight: Tensor | None,
    freqs: Freqs,
    tensor_format: TensorFormat = "sbhd",
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    norm_after: bool = False,
    rounding: NormRounding | None = None,
    sumsq: Tensor | None = None,
    norm_dim: int | None = None,
    **options: Unpack[SharedOptions],
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
        rounding: 'once', or None: fp32 math (fp64 for fp64 `t`), one rounding. The others round to
            the dtype of `t` where PyTorch's operators do in a model; docs/kernels.md names the
            models. 'model': the normalized row and its product with the weight, then as in
            `apply_rotary_pos_emb`. 'model_cast_last', and 'model' with a `weight_offset`: the
            product alone. As in PyTorch, a weight in fp32 (with 'model') and (cos, sin) of another
            dtype than `t` promote what they meet to fp32, which is rounded at the end. Squares are
            added in another order than PyTorch's: of 10 000 elements 1 may differ in bf16, 3 in
            fp16, by one unit. Gradients are computed in fp32 with the same cos and sin, and rounded
            once. `fused=False` has the model's bits; its gradients go back through all roundings.
        sumsq: sums of squares, fp32 (fp64 for fp64 `t`), of shape `t.shape[:-1]`, or with h = 1 if
            all heads share one. Then rows are divided by sqrt(sumsq / norm_dim + eps). For a norm
            over all heads, as in OLMo 2 and MiniMax: sum `sum_of_squares(t)` over heads, and over
            ranks if they share the heads.
        norm_dim: number of squares in `sumsq`; None: d, unless all heads share a sum.
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
    refuse_unknown(norm_rope, options, SharedOptions)
    call = Call(
        tensors=(t,), freqs=freqs, tensor_format=tensor_format, rounding=rounding, **options
    )
    norm = NormCall(
        weights=(weight,),
        sumsqs=(sumsq,),
        eps=eps,
        weight_offset=weight_offset,
        norm_after=norm_after,
        norm_dim=norm_dim,
    )
    return norm_rope_call(call, norm)[0]


@shows_options(SharedOptions)
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
    rounding: NormRounding | None = None,
    sumsq: tuple[Tensor, Tensor] | None = None,
    norm_dim: int | tuple[int, int] | None = None,
    **options: Unpack[SharedOptions],
) -> tuple[Tensor, Tensor]:
    """Normalize and rotate queries and keys: one launch forward, at most two backward.

    Backward it may be three where weights have shape (h, d), and q and k take launches of their own
    where autograd wants other gradients of q than of k.

    Args:
        q: queries, as `t` in `norm_rope`; what is not named here is as there.
        k: keys, like `q` but for the number of heads and the strides.
        q_weight, k_weight: as `weight` there. If they differ in dtype or in number of dimensions,
            or one is None, q and k take a launch each.
        sumsq: sums of squares of q and of k, as there.
        norm_dim: one number for both, or a pair, which q and k with shared sums and other numbers
            of heads need. With two different numbers they take a launch each.

    Returns:
        (q, k), each as `norm_rope` returns it, but for the order in which squares are added: a tile
        depends on the number of heads. So the last bits of a row may differ.

    Raises:
        TypeError, ValueError: as `norm_rope`.
    """
    if sumsq is None:
        sumsq = None, None
    elif not (isinstance(sumsq, (tuple, list)) and len(sumsq) == 2):
        raise bad(f"sumsq is {type(sumsq).__name__}", "None, or a pair of tensors", TypeError)
    refuse_unknown(qk_norm_rope, options, SharedOptions)
    call = Call(
        tensors=(q, k), freqs=freqs, tensor_format=tensor_format, rounding=rounding, **options
    )
    norm = NormCall(
        weights=(q_weight, k_weight),
        sumsqs=tuple(sumsq),
        eps=eps,
        weight_offset=weight_offset,
        norm_after=norm_after,
        norm_dim=norm_dim,
    )
    q, k = norm_rope_call(call, norm)
    return q, k


def norm_rope_call(call: Call, norm: NormCall) -> tuple[Tensor, ...]:
    """What both functions do: check, describe, choose a route, normalize and rotate."""
    tensors, tables = call.tensors, tables_of(call.freqs)
    beside = *norm.weights, *norm.sumsqs
    recorded = wants_grad((*tensors, *beside))
    entry = fastpath.entry_of_call(call, tables, (recorded, *norm.options), beside)
    if known := entry is not None and entry.launch is not None:
        route, num_positions = KERNEL, entry.num_positions
    else:
        if entry is None and any(map(is_dtensor, (*tensors, *tables, *call.where, *beside))):
            from .sharded.calls import norm_rope_shards  # loads torch.distributed.tensor

            return norm_rope_shards(call, norm, norm_rope_call)
        route = choose_route(call.fused, (*tensors, *tables, *call.where, *beside))
        num_positions = check_call(call, NORM_ROUNDINGS)
        check_norm(call, norm)
    rotation = rotation_of(call, tables, num_positions)
    if rotation.table.is_cpu and rotation.looks_up_positions and not is_traced():
        check_values(rotation, view_as_sbhd(tensors[0], call.tensor_format).shape[0])
    if call.inplace:
        check_inplace(call.names, tensors, rotation, norm.named)
    if wants_grad((rotation.table, rotation.sin)):
        route = PYTORCH  # the kernels have no gradient of a table
    if known:
        rows = tensors, _given(norm.weights), _given(norm.sumsqs)
        return _norm_rope(
            rows, rotation, entry.norm, route, inplace=call.inplace, recorded=recorded, entry=entry
        )
    launches = launches_of(call, norm)
    if entry is not None:
        entry.num_positions, entry.norm = num_positions, launches[0][1]
    outs = []
    for rows, how in launches:
        alone = entry if len(launches) == 1 else None
        outs += _norm_rope(
            rows, rotation, how, route, inplace=call.inplace, recorded=recorded, entry=alone
        )
    return tuple(outs)


def launches_of(call: Call, norm: NormCall) -> list[tuple[Rows, Normalization]]:
    """What a checked call normalizes in one launch: q and k together, unless they differ.

    A kernel has one kind of weight, and divides sums by one number.
    """
    hows = [normalization_of(call, norm, i) for i in range(len(call.tensors))]
    kinds = {None if w is None else (w.dtype, w.dim()) for w in norm.weights}
    rows = zip(call.tensors, norm.weights, norm.sumsqs, strict=True)
    groups = [[row] for row in rows]
    if len(kinds) == 1 and hows[0] == hows[-1]:
        groups, hows = [[row for group in groups for row in group]], hows[:1]
    launches = [Rows(*(_given(column) for column in zip(*group, strict=True))) for group in groups]
    return list(zip(launches, hows, strict=True))


def normalization_of(call: Call, norm: NormCall, i: int) -> Normalization:
    """How a checked call normalizes its tensor number `i`."""
    # no model rounds before it multiplies by a weight with an offset
    with_offset = call.rounding == "model" and norm.weight_offset != 0
    casts_last = with_offset or call.rounding == CAST_LAST
    return Normalization(
        eps=norm.eps,
        weight_offset=norm.weight_offset,
        after=norm.norm_after,
        like_model=call.rounding in LIKE_MODELS,
        casts_last=casts_last,
        dim=norm.norm_dims[i] or call.tensors[i].shape[-1],
    )


def _given(tensors: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
    return () if tensors[0] is None else tensors  # of one launch: all of them, or none


def _norm_rope(
    rows: tuple[Tensors, Tensors, Tensors],
    rotation: Rotation,
    norm: Normalization,
    route: Route,
    inplace: bool,
    recorded: bool,
    entry: fastpath.Entry | None,
) -> tuple[Tensor, ...]:
    """Normalize and rotate checked tensors by the route chosen."""
    if route is PYTORCH:
        outs = reference.norm_rope(*rows, rotation, norm)
        if not inplace:
            return outs
        for t, out in zip(rows[0], outs, strict=True):
            t.copy_(out)
        return rows[0]
    if route is OPERATOR:
        return norm_rope_by_operator(*rows, rotation, norm, inplace)
    if recorded and wants_grad([x for row in rows for x in row]):  # else another launch's
        return apply_to_plain_tensors(*inputs_of(rows), rotation, norm, entry, _backward)
    outs, _, _ = launch_norm.norm_rope(*rows, rotation, norm, inplace, False, entry)
    if inplace:
        torch.autograd.graph.increment_version([t for t in outs if not t.is_inference()])
    return outs


def _backward(*given):
    """A backward may be traced when the forward was not."""
    run = norm_rope_backward_by_operator if is_traced() else launch_norm.norm_rope_backward
    return run(*given)
