"""What `norm_rope` and `qk_norm_rope` accept beyond the rotation, and the errors for the rest."""

import torch

from ..machine.modes import wants_grad
from .arguments import NORM_ROUNDINGS, Call
from .checks import as_read, bad, check_call, check_flag, check_tensor

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
    for i, (name, weight) in enumerate(norm.named):
        if weight is not None:
            _check_weight(name, weight, call, i)
    if call.inplace and wants_grad((*call.tensors, *norm.weights)):
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
    d = t.shape[-1]
    if x.dim() != 1 or x.shape[0] != d:
        read = as_read(call.names[i], t, call.tensor_format)
        raise bad(f"{name} has shape {tuple(x.shape)}", f"({d},); {read}")
    if x.device != t.device:
        accepted = f"it must be on the rotated tensor's, {t.device}"
        raise ValueError(f"{name} is on {x.device}; {accepted}")
