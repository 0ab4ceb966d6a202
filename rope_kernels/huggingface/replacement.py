"""The function that replaces a model's: it uses the kernel, or calls the original.

Every call checks again that the model's function and its helpers still have the code that was
recognized.
"""

import functools
from collections.abc import Callable
from types import CodeType, FunctionType

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from ..paths import has_hooks, is_traced
from .calls import log_own
from .digest import Replaceable, as_function, originals

# Functions of PyTorch without types. The first is public, although torch.jit doesn't export it.
_is_tracing: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]  # see above
_has_global_hook: Callable[[], bool] = _has_any_global_hook

_OTHER_CODE = "the function, or one that it calls, has new code"
_HOOKED = "the rotation is a module with a hook"


def function_of(value: object) -> FunctionType:
    """The Python function of a function or module. Raises `UnknownCode` if there is none.

    If the package kernels is installed, transformers turns each function that rotates into a
    module. The `forward` of its class is a closure over this one function.
    """
    if isinstance(value, nn.Module):
        cells = getattr(type(value).forward, "__closure__", None) or ()
        held = [x.cell_contents for x in cells if isinstance(x.cell_contents, FunctionType)]
        if len(held) == 1:
            return held[0]
    return as_function(value)


def name_of(function: FunctionType) -> str:
    """The name of a model's function in the log."""
    return f"{function.__module__}.{function.__qualname__}"


def is_hooked(module: nn.Module) -> bool:
    """Whether a call runs hooks, or the class overrides `__call__`."""
    is_own = type(module).__call__ is not nn.Module.__call__
    return has_hooks(module) or is_own or _has_global_hook()


def has_code(function: FunctionType, code: CodeType) -> bool:
    """Whether the function still has this code, or equal code."""
    now = function.__code__
    return now is code or now == code  # `==` takes a microsecond


def replacement(original: Replaceable, ours: Callable[..., object]) -> Callable[..., object]:
    """Create the function that replaces `original`.

    It calls `ours`, or `original` if something has changed: the function or a helper was replaced,
    or has new code, as after IPython's autoreload; or the module got a hook. While PyTorch traces,
    it also calls `original`. A `forward` that `kernelize` sets on a module doesn't count as a
    change: while the module is patched, `ours` is called instead.

    Args:
        original: the model's function or module.
        ours: a form with its first arguments bound.
    """
    function = function_of(original)
    code, variables = function.__code__, function.__globals__
    named = [(name, variables.get(name)) for name in code.co_names]
    helpers = [(name, x, x.__code__) for name, x in named if isinstance(x, FunctionType)]

    @functools.wraps(function)
    def replaced(*args: object, **kwargs: object) -> object:
        # A compiler can fuse the original's operators with those around them.
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
