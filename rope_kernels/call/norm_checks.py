"""What `norm_rope` and `qk_norm_rope` accept beyond the rotation, and the errors for the rest."""

import torch
from torch import Tensor

from ..machine.modes import wants_grad
from .arguments import NORM_ROUNDINGS, Call, NormCall
from .checks import as_read, bad, check_call, check_flag, check_integer, check_tensor
from .formats import view_as_sbhd

MOST = torch.finfo(torch.float32).max


def check_norm_call(call: Call) -> int | None:
    """Check everything about a call that normalizes but the values of its tensors.

    Returns:
        The number of positions, as `check_call`.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor, number or bool where one is.
        ValueError: shapes, devices or options that do not fit together.
    """
    num_positions, norm = check_call(call, NORM_ROUNDINGS), call.norm
    check_flag("norm_after", norm.norm_after)
    for name, value, least in (("eps", norm.eps, 0), ("weight_offset", norm.weight_offset, None)):
        _check_number(name, value, least)
    for i, (name, weight) in enumerate(zip(norm.weight_names, norm.weights, strict=True)):
        if weight is not None:
            _check_weight(name, weight, call, i)
    _check_sumsqs(call, norm)
    if call.inplace and wants_grad((*call.tensors, *norm.tensors)):
        came = "inplace is True, and a tensor requires a gradient"
        raise bad(came, "inplace=False; or a call within torch.no_grad()")
    return num_positions


def _check_number(name: str, value: object, least: float | None) -> None:
    accepted = (
        "a finite number of fp32" if least is None else f"a finite number of fp32 from {least}"
    )
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise bad(f"{name} is {value!r}", accepted, TypeError)
    if not abs(value) <= MOST or (least is not None and value < least):
        raise bad(f"{name} is {value!r}", accepted)


def _check_weight(name: str, weight: object, call: Call, i: int) -> None:
    """Check the weight of the call's tensor number `i`."""
    t = call.tensors[i]
    exact = torch.promote_types(t.dtype, torch.float32)
    x = check_tensor(name, weight, tuple(dict.fromkeys((t.dtype, torch.float32, exact))))
    heads, d = view_as_sbhd(t, call.tensor_format).shape[2:]
    # `in` compares no sizes that torch.compile leaves open
    fits = x.dim() in (1, 2) and x.shape[-1] == d and (x.dim() == 1 or x.shape[0] == heads)
    if not fits:
        accepted = f"({d},), or ({heads}, {d}) for a weight of each head"
        read = as_read(call.names[i], t, call.tensor_format)
        raise bad(f"{name} has shape {tuple(x.shape)}", f"{accepted}; {read}")
    _check_device(name, x, t)


def _check_sumsqs(call: Call, norm: NormCall) -> None:
    given = [x for x in norm.sumsqs if x is not None]
    head_dim, accepted = call.tensors[0].shape[-1], "an integer from 1, below 2^31"
    if len(call.tensors) == 2:
        accepted += ", or a pair of them for q and k"
    if len(norm.norm_dims) != len(call.tensors):
        raise bad(f"norm_dim is {norm.norm_dim!r}", accepted)
    for dim in norm.norm_dims:
        if dim is None and norm.norm_dim is None:
            continue
        check_integer("norm_dim", dim, 1, 2**31 - 1, accepted)
        if not given and dim != head_dim:
            came = f"norm_dim is {norm.norm_dim} without sumsq"
            raise bad(came, f"None, or the head dimension, {head_dim}")
    if given and len(given) < len(call.tensors):
        raise bad("sumsq has one None", "None, or a sum of squares for q and for k")
    if not given:
        return
    names = ("sumsq",) if len(given) == 1 else ("sumsq[0]", "sumsq[1]")
    heads, shared = call.tensor_format.index("h"), []
    for name, x, t_name, t in zip(names, norm.sumsqs, call.names, call.tensors, strict=True):
        check_tensor(name, x, (torch.promote_types(t.dtype, torch.float32),))
        rows = tuple(t.shape[:-1])
        one = *rows[:heads], 1, *rows[heads + 1 :]
        if tuple(x.shape) not in (rows, one):
            accepted = rows if rows == one else f"{rows}, or {one} for all heads"
            read = as_read(t_name, t, call.tensor_format)
            raise bad(f"{name} has shape {tuple(x.shape)}", f"{accepted}; {read}")
        _check_device(name, x, t)
        if x.shape[heads] != t.shape[heads]:
            shared.append(name)
    if shared:
        _check_norm_dim_of_shared_sums(shared, norm, [t.shape[heads] for t in call.tensors])


def _check_norm_dim_of_shared_sums(shared: list[str], norm: NormCall, heads: list[int]) -> None:
    """A sum that several heads share is divided by a number that was meant for it, never by d."""
    if norm.norm_dim is None:
        came = f"norm_dim is None, and {shared[0]} has one sum for all heads"
        raise bad(came, "the number of squares in a sum, those of other ranks too")
    if isinstance(norm.norm_dim, tuple):
        return
    accepted = "a pair, the number of squares in a sum of q and in one of k"
    if heads[0] != heads[-1]:
        came = f"norm_dim is {norm.norm_dim}, and q and k have {heads[0]} and {heads[1]} heads"
        raise bad(came, accepted)
    if len(shared) < len(heads):
        raise bad(f"norm_dim is {norm.norm_dim}, and only {shared[0]} is shared by heads", accepted)


def _check_device(name: str, x: Tensor, t: Tensor) -> None:
    if x.device != t.device:
        raise ValueError(f"{name} is on {x.device}; it must be on the rotated tensor's, {t.device}")
