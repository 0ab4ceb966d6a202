"""How a call is computed: by a kernel, by an operator that launches it, or by plain PyTorch."""

from collections import Counter
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .checks import shown
from .launch import Known
from .modes import (
    Engine,
    count_modes,
    engine_of,
    have_memory,
    is_traced,
    is_transformed,
    is_watched,
    runs_in_triton,
    why_no_engine,
)
from .rotation import Rotation


class Way(NamedTuple):
    """How a call is computed, and why.

    Attributes:
        path: 'kernel'; 'operator', which launches the same kernel and is seen by what records
            operators; 'pytorch', which is slower. Of a function that `huggingface.patch` has
            replaced also 'original': that function took the call.
        reason: a sentence's worth of words.

    Example:
        >>> print(Way("pytorch", "fused is False"))
        pytorch: fused is False
    """

    path: Literal["kernel", "operator", "pytorch", "original"]
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


_BY_KERNEL = {engine: Way("kernel", engine.value) for engine in Engine}
# Only launches of compiled kernels are remembered. So a call that has one needs no look at engines.
_LAUNCHED = _BY_KERNEL[Engine.NVIDIA if torch.version.hip is None else Engine.AMD]
_RECORDED = Way("operator", "torch.compile, make_fx or FakeTensorMode records operators")
_WATCHED = Way("operator", "a TorchDispatchMode watches operators")
_TRAINED = Way("pytorch", "freqs requires a gradient, and a kernel has none of it")
_UNFUSED = Way("pytorch", "fused is False")
_TRANSFORMED = Way("pytorch", "torch.func, forward mode or torch.jit.trace transforms the call")
_NO_OPERATOR = Way("pytorch", "torch.compile or make_fx records it, and a norm has no operator")
_NO_MEMORY = Way("pytorch", "a tensor overrides operators, has no memory, or torch.func wraps it")
_EMPTY = Way("pytorch", "there are no tokens, or no slots")


def way_of(
    tensors: Sequence[Tensor | None],
    rotation: Rotation,
    *,
    fused: bool,
    known: Known | None,
    has_operator: bool = True,
    is_empty: bool = False,
    ways: Counter[Way] | None = None,
) -> Way:
    """The way of a checked call. All functions that rotate ask this, and take it.

    Args:
        tensors: all but the rotation's.
        rotation: as it is completed.
        fused: as in `api.prepare`.
        known: what `api.prepare` has returned.
        has_operator: whether the function has an operator; norms have none.
        is_empty: whether the call has nothing that a kernel could do.
        ways: counts the way that is taken.
    """
    if _is_trained(rotation):
        way = _TRAINED
    elif known is not None and known.launch is not None and not (has_operator and count_modes()):
        way = _LAUNCHED  # Calls that are traced or transformed have no `Known`.
    else:
        way = _way_of_a_new_call(
            tensors, rotation, fused=fused, has_operator=has_operator, is_empty=is_empty
        )
    if _asking and get_ident() in _asking:
        raise _Answer(way)
    if ways is not None:
        ways[way] += 1
    return way


def _is_trained(rotation: Rotation) -> bool:
    """Whether a gradient of the table is wanted: `wants_grad` in fewer steps, for every call."""
    sin = rotation.sin
    trained = rotation.table.requires_grad or (sin is not None and sin.requires_grad)
    return trained and torch.is_grad_enabled()


def _way_of_a_new_call(
    tensors: Sequence[Tensor | None],
    rotation: Rotation,
    *,
    fused: bool,
    has_operator: bool,
    is_empty: bool,
) -> Way:
    """The first line that is true decides."""
    t = tensors[0]
    assert t is not None, "one that turns comes first"
    if not fused:
        return _UNFUSED
    if is_transformed():
        return _TRANSFORMED
    if not runs_in_triton(t):
        return Way("pytorch", why_no_engine(t))
    if is_empty:
        return _EMPTY
    if is_traced():
        return _RECORDED if has_operator else _NO_OPERATOR
    if not have_memory((*tensors, *rotation.tensors)):
        return _NO_MEMORY
    if has_operator and is_watched():
        return _WATCHED
    return _BY_KERNEL[engine_of(t)]


# Threads that ask which way a call would take. Such a call is made, up to where its way is chosen.
_asking: set[int] = set()


class _Answer(BaseException):
    """Ends a call that only asks. No `except Exception` on the way may catch it."""

    def __init__(self, way: Way) -> None:
        super().__init__(way)
        self.way = way


def which_way(function: Callable[..., object], /, *arguments: object, **options: object) -> Way:
    """Say whether a call would run our kernel, and why, without computing anything.

    The call is checked and raises what it would raise. Then nothing is launched, and nothing is
    written. The answer is that of the code which decides: modes that are active here, gradients
    that are wanted and the devices of tensors count. It speaks of the call itself. Its backward is
    a call of its own, with the same answer unless it runs under other modes.

    Args:
        function: a function of this package that rotates, such as `rope_qk`; or one that calls it,
            such as a model's layer: then its first call counts.
        arguments, options: what it would be called with.

    Returns:
        A named tuple (path, reason), with path 'kernel', 'operator' or 'pytorch'. 'operator' is the
        kernel, too. PyTorch sees it as an operator where something records or watches operators.

    Raises:
        ValueError: `function` returned without a call that rotates.
        Exception: what the call raises.

    Example:
        >>> t, rope = torch.randn(3, 1, 2, 8), RotaryPositionEmbedding(8)
        >>> which_way(apply_rotary_pos_emb, t, rope, fused=False)
        Way(path='pytorch', reason='fused is False')
    """
    thread = get_ident()
    _asking.add(thread)
    try:
        function(*arguments, **options)
    except _Answer as answer:
        return answer.way
    finally:
        _asking.discard(thread)
    name = getattr(function, "__name__", None) or shown(function)
    raise ValueError(f"function is {name}, which rotated nothing; accepted: one that rotates")
