"""Who computes a call: a kernel, an operator that launches it, or plain PyTorch."""

import logging
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .launch import Known
from .modes import (
    count_modes,
    have_memory,
    is_traced,
    is_transformed,
    is_watched,
    runs_in_triton,
    why_no_engine,
)
from .rotation import Rotation

_log = logging.getLogger("rope_kernels")
_logged: set[tuple[str, str, str]] = set()


class Path(NamedTuple):
    """Who computes a call, and why it isn't the kernel."""

    by: Literal["kernel", "operator", "pytorch"]  # an operator launches the same kernel
    reason: str = ""


KERNEL = Path("kernel")
_TRACED = Path("operator", "torch.compile, make_fx or FakeTensorMode records operators")
_WATCHED = Path("operator", "a TorchDispatchMode watches operators")
_TRAINED = Path("pytorch", "freqs requires a gradient, which the kernel doesn't compute")
_UNFUSED = Path("pytorch", "fused is False")
_TRANSFORMED = Path("pytorch", "torch.func, forward mode or torch.jit.trace transforms the call")
_NO_MEMORY = Path("pytorch", "a tensor overrides operators, has no memory, or is wrapped")


def path_of(
    tensors: Sequence[Tensor | None],
    rotation: Rotation,
    *,
    fused: bool,
    known: Known | None,
) -> Path:
    """The path of a checked call. The first line that is true decides.

    Args:
        tensors: all but the rotation's.
        rotation: as it is completed.
        fused: an argument of the call.
        known: what `api.rotation_of` has returned.
    """
    table, sin = rotation.table, rotation.sin
    is_trained = table.requires_grad or (sin is not None and sin.requires_grad)
    if is_trained and torch.is_grad_enabled():
        return _TRAINED
    # A call that is traced or transformed has no `Known`, and only launches of compiled kernels are
    # remembered.
    if known is not None and known.launch is not None and not count_modes():
        return KERNEL
    if not fused:
        return _UNFUSED
    if is_transformed():
        return _TRANSFORMED
    t = tensors[0]
    assert t is not None, "one that turns comes first"
    if not runs_in_triton(t):
        return Path("pytorch", why_no_engine(t))
    if is_traced():
        return _TRACED
    if not have_memory((*tensors, *rotation.tensors)):
        return _NO_MEMORY
    return _WATCHED if is_watched() else KERNEL


def log_path(function: str, path: Path) -> None:
    """Log who computes a call that does not take the kernel."""
    by = "an operator, which launches the kernel" if path.by == "operator" else "plain PyTorch"
    log_once(function, by, path.reason)


def log_once(function: str, by: str, reason: str) -> None:
    """Log who computes the calls of a function, once for each reason, at the level INFO.

    Nothing is logged while PyTorch traces: `torch.compile(fullgraph=True)` refuses to log.
    """
    if is_traced() or not _log.isEnabledFor(logging.INFO):
        return
    line = function, by, reason
    if line not in _logged:
        _logged.add(line)
        _log.info("%s is computed by %s: %s", *line)
