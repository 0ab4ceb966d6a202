"""The public functions that normalize and rotate, their checks, and the path of a call."""

from numbers import Real
from typing import get_args

import torch
from torch import Tensor

from .. import paths
from ..api import rotation_of
from ..check_call import Like
from ..checks import Named, bad, check_choice, check_flag, names_of, shown
from ..inplace import check_inplace
from ..launch import Known, checking
from ..paths import is_traced, is_watched, log_path, wants_grad
from ..rotation import (
    Call,
    CpOrder,
    Freqs,
    OutputPairing,
    Rotation,
    TensorFormat,
    compute_dtype,
)
from .definition import Norm, NormRounding, Tensors, Weights, normalize_and_rotate
from .gradients import by_kernel

NORM_ROUNDINGS = (None, *get_args(NormRounding))
_NO_OPERATOR = paths.Path("pytorch", "a graph records it, and a norm has no operator")


def norm_rope(
    t: Tensor,
    weight: Tensor | None,
    freqs: Freqs,
    tensor_format: TensorFormat | None = None,
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    norm_after: bool = False,
    rounding: NormRounding | None = None,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool | None = None,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int | None = None,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
) -> Tensor:
    """Normalize each row by its root mean square, multiply it by a weight, and rotate it.

    y = rope(x / sqrt(mean(x^2) + eps) * (weight_offset + weight)), in one kernel: x is read once,
    y is written once. The mean is over the whole head dimension, including elements that don't
    rotate. The result is differentiable in `t`, `weight` and `freqs` any number of times; plain
    PyTorch computes second derivatives and higher. Gradients of weights are summed in fp32 in a
    fixed order, so their bits are the same in every run on the same GPU. Under `torch.compile` and
    other traces, plain PyTorch computes everything. `apply_rotary_pos_emb` explains the keywords
    that are not listed here.

    Args:
        t: the tensor to normalize and rotate: (s, b, h, d), (b, s, h, d), (b, h, s, d) or
            (t, h, d), according to `tensor_format`, in fp32, fp16, bf16 or fp64, with any strides.
        weight: (d,), in the dtype of `t` or fp32. None: rows are not multiplied.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin). If a table requires a
            gradient, plain PyTorch computes everything.
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd'. It is required.
        eps: is added to the mean of squares; at least 0. With 0, a row of zeros becomes NaN, as in
            PyTorch.
        weight_offset: is added to the weight: 1 for Gemma 3, Qwen 3.5 and Qwen 3 Next.
        norm_after: True: rotate first, then normalize and multiply, as HunYuan, Llama 4 and
            NanoChat do.
        rounding: where values are rounded to the dtype of `t`. 'once', or None: in fp32 (fp64 for
            fp64 `t`); only the result is rounded. The others round where PyTorch's operators round
            in a model; docs/rounding.md lists the models. 'model': the normalized row is rounded,
            then its product with the weight, then the rotation as in `apply_rotary_pos_emb`.
            'model_cast_last', and 'model' with a `weight_offset`: before the rotation, only the
            product is rounded. As in PyTorch, an fp32 weight (with 'model') and (cos, sin) of
            another dtype than `t` promote products to fp32, which are rounded at the end. Squares
            are summed in another order than in PyTorch: 1 element in 10 000 may differ in bf16, 3
            in fp16, by one unit in the last place. Gradients are computed in fp32 with the same cos
            and sin, and rounded once. `fused=False` returns the model's bits, and its gradients
            pass through all roundings. Under Inductor, on any device, a model's bits are not
            promised: docs/compile.md.
        fused: False: plain PyTorch computes it, without a kernel.
        inplace: True: overwrite all of `t`, and return it. No tensor may require a gradient.

    Returns:
        A new tensor with the shape and dtype of `t`, and its strides in the same order, as from
        PyTorch's pointwise operators; or `t` itself with `inplace`.
        Tokens past `cu_seqlens[-1]` are padding: they are normalized, but not rotated. They count
        in the weight's gradient, so a NaN in one of them reaches it.

    Raises:
        TypeError, ValueError: as `apply_rotary_pos_emb`.

    Example:
        >>> t, weight = 100 * torch.randn(2, 1, 1, 8), torch.ones(8)
        >>> y = norm_rope(t, weight, RotaryPositionEmbedding(8), "sbhd")
        >>> torch.allclose(y.square().mean(-1), torch.ones(2, 1, 1))
        True

    Source: RMSNorm, https://arxiv.org/abs/1910.07467; on queries and keys, Qwen 3,
    https://arxiv.org/abs/2505.09388.
    """
    norm = norm_of(eps, weight_offset, norm_after, rounding)
    call = Call.__new__(
        Call,
        freqs=freqs,
        tensor_format=tensor_format,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=norm.rotation_rounding,
        fused=fused,
        inplace=inplace,
    )
    outs = normalize_by(
        norm,
        "norm_rope",
        tensors=(t,),
        weights=(weight,),
        call=call,
    )
    return outs[0]


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    freqs: Freqs,
    tensor_format: TensorFormat | None = None,
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    norm_after: bool = False,
    rounding: NormRounding | None = None,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool | None = None,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int | None = None,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
) -> tuple[Tensor, Tensor]:
    """Normalize and rotate queries and keys: one launch forward, two backward.

    If q and k require different gradients, each has its own backward launches. `norm_rope` explains
    `eps`, `weight_offset`, `norm_after`, `rounding` and `inplace`; `apply_rotary_pos_emb` explains
    all other keywords.

    Args:
        q: queries, as `t` in `norm_rope`.
        k: keys, like `q`, with any number of heads and any strides.
        q_weight, k_weight: as `weight` in `norm_rope`. If they differ in dtype, or one is None, q
            and k have a launch each.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin).
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd'. It is required.

    Returns:
        (q, k), each as `norm_rope` returns it. Only the order in which squares are summed depends
        on the number of heads, so the last bits of a row may differ.

    Raises:
        TypeError, ValueError: as `norm_rope`.

    Example:
        >>> q, k, weight = torch.randn(3, 1, 8, 64), torch.randn(3, 1, 2, 64), torch.ones(64)
        >>> q1, k1 = qk_norm_rope(q, k, weight, weight, RotaryPositionEmbedding(64), "sbhd")
        >>> q1.shape, k1.shape
        (torch.Size([3, 1, 8, 64]), torch.Size([3, 1, 2, 64]))
    """
    norm = norm_of(eps, weight_offset, norm_after, rounding)
    call = Call.__new__(
        Call,
        freqs=freqs,
        tensor_format=tensor_format,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=norm.rotation_rounding,
        fused=fused,
        inplace=inplace,
    )
    q, k = normalize_by(
        norm,
        "qk_norm_rope",
        tensors=(q, k),
        weights=(q_weight, k_weight),
        call=call,
    )
    return q, k


def normalize_by(
    norm: Norm, function: str, tensors: Tensors, weights: Weights, call: Call
) -> Tensors:
    """Check a call, and compute it with the kernels or in plain PyTorch.

    Args:
        norm: how rows are normalized; only its `rounding` is checked.
        function: the name to log if the call doesn't use the kernel.
        tensors: one or two tensors.
        weights: as many weights.
        call: all other arguments. Its `rounding` is `norm.rotation_rounding`.
    """
    names = ("weight",) if len(weights) == 1 else ("q_weight", "k_weight")
    named = tuple(zip(names, weights, strict=True))
    inputs = *tensors, *weights
    if call.inplace is True and wants_grad(inputs):
        came = "inplace is True, and a tensor requires a gradient"
        raise bad(came, "inplace=False, or a call within torch.no_grad()")
    rotation, known = rotation_of(call, tensors, *weights, "norm", *norm)
    if known is None or not known.is_checked:
        with checking():
            _check_norm(tensors, named, norm, rotation.options.tensor_format)
        if known is not None:
            known.is_checked = True
    if call.inplace:
        check_inplace(tensors, rotation, named)
    path = path_of(inputs, rotation, fused=call.fused, known=known)
    if path.by == "pytorch":
        log_path(function, path)
        outs = normalize_and_rotate(tensors, weights, rotation, norm)
    elif call.inplace and is_watched():
        # A TorchDispatchMode must see what is overwritten, so PyTorch's `copy_`, below, writes.
        outs = by_kernel(tensors, weights, rotation, norm, inplace=False, known=None)
    else:
        return by_kernel(tensors, weights, rotation, norm, inplace=call.inplace, known=known)
    if not call.inplace:
        return outs
    for t, out in zip(tensors, outs, strict=True):
        t.copy_(out)
    return tensors


def path_of(inputs: Weights, rotation: Rotation, *, fused: bool, known: Known | None) -> paths.Path:
    """As `paths.path_of`, but a norm has no operator: it is traced as plain PyTorch."""
    path = paths.path_of(inputs, rotation, fused=fused, known=known)
    if path.by != "operator":
        return path
    return _NO_OPERATOR if is_traced() else paths.KERNEL


def norm_of(eps: float, weight_offset: float, norm_after: bool, rounding: str | None) -> Norm:
    """Check `rounding`, convert real numbers of any type to floats, and return a `Norm`."""
    check_choice("rounding", rounding, NORM_ROUNDINGS)
    if type(eps) is not float or type(weight_offset) is not float:
        eps, weight_offset = _as_float(eps), _as_float(weight_offset)
    return Norm(eps, weight_offset, norm_after, rounding)


def _as_float(number: float) -> float:
    """A real number as a float. Anything else is returned as is, and the checks refuse it later."""
    if not isinstance(number, Real) or isinstance(number, bool):
        return number
    try:
        return float(number)
    except OverflowError:
        return number


def _check_norm(tensors: Tensors, named: Named, norm: Norm, tensor_format: str) -> None:
    """Check the arguments that a norm adds to those of a rotation, except `rounding`."""
    check_flag("norm_after", norm.norm_after)
    for name, number in (("eps", norm.eps), ("weight_offset", norm.weight_offset)):
        accepted = "a finite number of fp32" + (" from 0" if name == "eps" else "")
        if isinstance(number, bool) or not isinstance(number, Real):
            raise bad(f"{name} is {shown(number)}", accepted, TypeError)
        if not abs(number) <= torch.finfo(torch.float32).max or (name == "eps" and number < 0):
            raise bad(f"{name} is {shown(number)}", accepted)
    t_names = names_of(tensors, transpose=False)
    for (name, x), t_name, t in zip(named, t_names, tensors, strict=True):
        if isinstance(x, torch.nn.Module):
            accepted = f"torch.Tensor; pass {name}=norm.weight, and the module's eps by name"
            raise bad(f"{name} is of type {type(x).__name__}", accepted, TypeError)
        if x is not None:
            dtypes = tuple(dict.fromkeys((t.dtype, torch.float32, compute_dtype(t))))
            Like(t_name, t, tensor_format).check(name, x, dtypes, [(t.shape[-1],)])
