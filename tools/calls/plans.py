"""What a call would launch, on memory that is never touched. Sizes cost nothing."""

from collections.abc import Callable

import rope_kernels
from rope_lab.compiler.plans import Launch, plans_with_backward

from .call import SPLIT, Call
from .make import QuickMaker, arguments_of


def bound(call: Call) -> tuple[Callable, list, dict]:
    """Its function with what that gets, by position and by keyword."""
    made = arguments_of(call, rope_kernels, QuickMaker(0, 0, "cpu"))
    has_backward = call.norm or call.function == SPLIT
    if has_backward and call.mode == "grad" and not call.inplace:
        for x in [*made.tensors, *made.weights]:
            if x is not None and x.is_leaf:
                x.requires_grad_()
    return getattr(rope_kernels, call.function), *made.given(made.tensors)


def plans_of(call: Call, engine) -> list[Launch]:
    """Every launch of the call, and of the backward of one that normalizes or splits.

    Raises:
        TypeError, ValueError: it is refused, or launches nothing.
    """
    function, arguments, options = bound(call)
    return plans_with_backward(engine, function, *arguments, **options)
