"""What computes a call: the kernel, an operator that launches it, or plain PyTorch."""

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
    """What computes a call, and why it isn't the kernel."""

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
    """Choose the path of a checked call. The first condition that holds decides.

    Args:
        tensors: the call's tensors, except those of `rotation`.
        rotation: as `api.rotation_of` returned it.
        fused: the argument of the call.
        known: the cache entry that `api.rotation_of` returned.
    """
    table, sin = rotation.table, rotation.sin
    is_trained = table.requires_grad or (sin is not None and sin.requires_grad)
    if is_trained and torch.is_grad_enabled():
        return _TRAINED
    # The fast path: traced and transformed calls have no cache entry, and only compiled kernels are
    # cached, so the questions below need no answer.
    if known is not None and known.launch is not None and not count_modes():
        return KERNEL
    if not fused:
        return _UNFUSED
    if is_transformed():
        return _TRANSFORMED
    t = tensors[0]
    assert t is not None, "the first tensor is always there"
    if not runs_in_triton(t):
        return Path("pytorch", why_no_engine(t))
    if is_traced():
        return _TRACED
    if not have_memory((*tensors, *rotation.tensors)):
        return _NO_MEMORY
    return _WATCHED if is_watched() else KERNEL


def log_path(function: str, path: Path) -> None:
    """Log what computes a call that doesn't use the kernel."""
    by = "an operator, which launches the kernel" if path.by == "operator" else "plain PyTorch"
    log_once(function, by, path.reason)


def log_once(function: str, by: str, reason: str) -> None:
    """Log what computes a function's calls, at level INFO, once for each reason.

    Nothing is logged while PyTorch traces, because `torch.compile(fullgraph=True)` can't log.
    """
    if is_traced() or not _log.isEnabledFor(logging.INFO):
        return
    line = function, by, reason
    if line not in _logged:
        _logged.add(line)
        _log.info("%s is computed by %s: %s", *line)
