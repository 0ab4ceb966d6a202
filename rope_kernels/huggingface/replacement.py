"""What takes the place of a function: ours where that gives what the function gives, else itself.

A function that was replaced is called through `replaced` from then on. Each call asks again whether
the model still rotates by the code that we know.
"""

import functools
from collections.abc import Callable
from types import CodeType, FunctionType

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from ..modes import is_traced
from .calls import log_own
from .digest import Replaceable, as_function, originals

# Questions of PyTorch's that have no types. The first is public, though torch.jit doesn't list it.
_is_tracing: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]  # see above
_has_global_hook: Callable[[], bool] = _has_any_global_hook

_OTHER_CODE = "the function, or one that it calls, has new code"
_HOOKED = "the rotation is a module with a hook"


def function_of(value: object) -> FunctionType:
    """The Python function that an object of a model stands for; `UnknownCode` if there is none.

    Where the package kernels is installed, transformers makes a module of each function that
    rotates: the `forward` of its class closes over this one function.
    """
    if isinstance(value, nn.Module):
        cells = getattr(type(value).forward, "__closure__", None) or ()
        held = [x.cell_contents for x in cells if isinstance(x.cell_contents, FunctionType)]
        if len(held) == 1:
            return held[0]
    return as_function(value)


def name_of(function: FunctionType) -> str:
    """The name of a model's function, as it is logged."""
    return f"{function.__module__}.{function.__qualname__}"


def is_hooked(module: nn.Module) -> bool:
    """Whether a call runs hooks, or a `__call__` of the class."""
    forward = module._forward_hooks or module._forward_pre_hooks
    backward = module._backward_hooks or module._backward_pre_hooks
    is_own = type(module).__call__ is not nn.Module.__call__
    return bool(forward or backward or is_own or _has_global_hook())


def has_code(function: FunctionType, code: CodeType) -> bool:
    """Whether this is still the function's code, or equal to it."""
    now = function.__code__
    return now is code or now == code  # to compare codes takes a microsecond


def replacement(original: Replaceable, ours: Callable[..., object]) -> Callable[..., object]:
    """Make the function that takes the place of `original`.

    It calls `ours` where the rotation is as it was, and `original` elsewhere. While PyTorch
    records, it calls `original`, too.

    The rotation has to run the code that it has now: it or a helper may be replaced later, or be
    given other code, as IPython's autoreload does, and a module be hooked. The `forward` that
    `kernelize` sets on a module rotates in place of the function, as we do: while that is patched
    the kernel takes its calls.

    Args:
        original: what is replaced, which rotates in the model.
        ours: what takes its calls.
    """
    function = function_of(original)
    code, variables = function.__code__, function.__globals__
    named = [(name, variables.get(name)) for name in code.co_names]
    helpers = [(name, x, x.__code__) for name, x in named if isinstance(x, FunctionType)]

    @functools.wraps(function)
    def replaced(*args: object, **kwargs: object) -> object:
        # A compiler fuses the function's own operators with those around them.
        if is_traced() or _is_tracing():
            return original(*args, **kwargs)
        has_its_helpers = all(
            [
                variables.get(name) is helper and has_code(helper, own_code)
                for name, helper, own_code in helpers
            ]
        )
        if not has_code(function, code) or not has_its_helpers:
            reason = _OTHER_CODE
        elif isinstance(original, nn.Module) and is_hooked(original):
            reason = _HOOKED
        else:
            return ours(*args, **kwargs)
        log_own(name_of(function), reason)
        return original(*args, **kwargs)

    originals[replaced] = original
    return replaced
