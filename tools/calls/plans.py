"""What a call would launch, on memory that is never touched. Sizes cost nothing."""

from collections.abc import Callable, Sequence
from functools import partial

import rope_kernels
from rope_kernels.machine.engine import Engine
from rope_lab.compiler.plans import Launch, plans_with_backward

from .call import Call
from .make import QuickMaker, arguments_of


def bound(call: Call | partial) -> tuple[Callable, Sequence, dict]:
    """Its function with what that gets, by position and by keyword."""
    if isinstance(call, partial):
        return call.func, call.args, call.keywords
    made = arguments_of(call, rope_kernels, QuickMaker(0, 0, "cpu"))
    if call.norm and call.mode == "grad" and not call.inplace:
        for x in [*made.tensors, *made.weights, *made.sums]:
            if x is not None and x.is_leaf:
                x.requires_grad_()
    return getattr(rope_kernels, call.function), *made.given(rope_kernels, made.tensors)


def plans_of(call: Call | partial, engine: Engine) -> list[Launch]:
    """Every launch of the call, and of the backward of one that normalizes.

    Raises:
        TypeError, ValueError: it is refused, or launches nothing.
    """
    function, arguments, options = bound(call)
    return plans_with_backward(engine, function, *arguments, **options)
