"""What `norm_rope` and `qk_norm_rope` accept beyond the rotation, and the errors for the rest."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .call import Call
from .checks import bad, check_flag, check_integer, check_tensor
from .formats import view_as_sbhd
from .modes import wants_grad
from .rotation import Rotation

MOST = torch.finfo(torch.float32).max
ROUNDINGS = "once", "model"
SAVES = "input", "output"


@dataclass(slots=True)
class NormCall:
    """The arguments that say how rows are normalized, as they came."""

    weight_names: tuple[str, ...]
    weights: tuple[Tensor | None, ...]  # as many as tensors
    sumsqs: tuple[Tensor | None, ...]  # as many as tensors
    eps: float
    weight_offset: float
    norm_after: bool
    rounding: str
    save: str
    norm_dim: int | None

    @property
    def named(self) -> list[tuple[str, Tensor | None]]:
        """Weights and sums, by the names of their arguments."""
        sums = ("sumsq",) if len(self.sumsqs) == 1 else ("sumsq[0]", "sumsq[1]")
        rows = (self.weight_names, self.weights), (sums, self.sumsqs)
        return [pair for row in rows for pair in zip(*row, strict=True)]


def check_norm(call: Call, norm: NormCall) -> None:
    """Check everything but the values of tensors, of a call that `check_call` has passed.

    Raises:
        TypeError: a dtype that is not accepted, or not a tensor, number or bool where one is.
        ValueError: shapes, devices or options that do not fit together.
    """
    check_flag("norm_after", norm.norm_after)
    for name, value, least in (("eps", norm.eps, 0), ("weight_offset", norm.weight_offset, None)):
        _check_number(name, value, least)
    for name, value, accepted in (
        ("rounding", norm.rounding, ROUNDINGS),
        ("save", norm.save, SAVES),
    ):
        if not (isinstance(value, str) and value in accepted):
            raise bad(f"{name} is {value!r}", ", ".join(accepted))
    for t, weight, name in zip(call.tensors, norm.weights, norm.weight_names, strict=True):
        if weight is not None:
            _check_weight(name, weight, t, call.tensor_format)
    _check_sumsqs(call, norm)
    if call.inplace and wants_grad((*call.tensors, *norm.weights, *norm.sumsqs)):
        came = "inplace is True, and a tensor requires a gradient"
        raise bad(came, "inplace=False; or a call within torch.no_grad()")


def check_save(norm: NormCall, rotation: Rotation) -> None:
    """Check that a backward can find the normalized row again in the output."""
    if norm.save == "input":
        return
    weighted = any(w is not None for w in norm.weights)
    if weighted and not norm.norm_after:
        came = "save is 'output' with a weight before the rotation"
        why = (
            "the output is rounded, and dividing it by the weight would ruin the weight's gradient"
        )
        raise ValueError(f"{came}: {why}; accepted: save='input', norm_after=True or no weight")
    if not norm.norm_after and not (rotation.on_the_fly or rotation.one_per_pair):
        came = "save is 'output' with a table of an angle for each element"
        why = "where the members of a pair differ in angle, the transposed map does not undo it"
        accepted = "save='input', a module, or a table of an angle for each pair (rotary_dim)"
        raise ValueError(f"{came}: {why}; accepted: {accepted}")
    if norm.rounding == "model":
        came = "save is 'output' with rounding='model', which rounds three times more"
        raise bad(came, "save='input' or rounding='once'")


def _check_number(name: str, value: object, least: float | None) -> None:
    accepted = (
        "a finite number of fp32" if least is None else f"a finite number of fp32 from {least}"
    )
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise bad(f"{name} is {value!r}", accepted, TypeError)
    if not abs(value) <= MOST or (least is not None and value < least):
        raise bad(f"{name} is {value!r}", accepted)


def _check_weight(name: str, weight: object, t: Tensor, tensor_format: str) -> None:
    exact = torch.promote_types(t.dtype, torch.float32)
    x = check_tensor(name, weight, tuple(dict.fromkeys((t.dtype, torch.float32, exact))))
    heads, d = view_as_sbhd(t, tensor_format).shape[2:]
    if tuple(x.shape) not in ((d,), (heads, d)):
        accepted = f"({d},), or ({heads}, {d}) for a weight of each head"
        raise bad(f"{name} has shape {tuple(x.shape)}", accepted)
    _check_device(name, x, t)


def _check_sumsqs(call: Call, norm: NormCall) -> None:
    given = [x for x in norm.sumsqs if x is not None]
    head_dim = call.tensors[0].shape[-1]
    if norm.norm_dim is not None:
        check_integer("norm_dim", norm.norm_dim, 1, 2**31 - 1, "an integer from 1, below 2^31")
        if not given and norm.norm_dim != head_dim:
            came = f"norm_dim is {norm.norm_dim} without sumsq"
            raise bad(came, f"None, or the head dimension, {head_dim}")
    if given and len(given) < len(call.tensors):
        raise bad("sumsq has one None", "None, or a sum of squares for q and for k")
    if not given:
        return
    names = ("sumsq",) if len(given) == 1 else ("sumsq[0]", "sumsq[1]")
    for name, x, t in zip(names, norm.sumsqs, call.tensors, strict=True):
        check_tensor(name, x, (torch.promote_types(t.dtype, torch.float32),))
        heads = call.tensor_format.index("h")
        rows = tuple(t.shape[:-1])
        shared = *rows[:heads], 1, *rows[heads + 1 :]
        if tuple(x.shape) not in (rows, shared):
            raise bad(f"{name} has shape {tuple(x.shape)}", f"{rows}, or {shared} for all heads")
        _check_device(name, x, t)


def _check_device(name: str, x: Tensor, t: Tensor) -> None:
    if x.device != t.device:
        raise ValueError(f"{name} is on {x.device}; it must be on the rotated tensor's, {t.device}")
