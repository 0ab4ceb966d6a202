"""An input has no effect, or it is the result as it came."""

import torch

from .evidence import Evidence


def unchanged(e: Evidence) -> str | None:
    """Nothing was done."""
    for x, argument in e.arguments:
        if argument.holds == "floats" and e.got_is(x):
            return f"unchanged: the result is {argument.name} as it came"
    return None


def gradient_ignored(e: Evidence) -> str | None:
    """The candidate runs once more, on another incoming gradient."""
    if e.got.isnan().all():
        return None
    for number, argument in enumerate(e.spec.arguments):
        if not argument.name.startswith("grad"):
            continue
        other = list(e.inputs)
        other[number] = torch.randn(other[number].shape).to(other[number].dtype)
        if e.close(e.run(*other), e.got):
            return "the gradient is ignored: another incoming gradient gives the same result"
    return None


def number_ignored(e: Evidence) -> str | None:
    """The same for a size, the base of the frequencies, or a rank."""
    for number, argument in enumerate(e.spec.arguments):
        if argument.holds != "number" or not e.inputs[number]:  # twice 0 is no other number
            continue
        other = list(e.inputs)
        other[number] *= 2
        try:
            result = e.run(*other)
        except Exception:  # it may refuse a number that does not fit the others, so it reads it
            continue
        if e.close(result, e.got):
            return f"{argument.name} is ignored: another one gives the same result"
    return None
