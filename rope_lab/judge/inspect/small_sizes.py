"""What a function does at small sizes in Triton's interpreter."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import unwrap
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ...interpreter.functions import cannot_be_interpreted
from ...interpreter.tuners import Tuning, configuration
from ..attempt import Attempt, same_bits
from ..check import clone, compare
from ..errors import failure_of, not_the_kernels_fault
from ..guests import TookTooLong, a_guest, device_of_the_lab
from ..refusals import launches_noted
from ..spec import Argument, Case, Spec
from ..verdict import HOW_TO_BEGIN, Evidence, Fault, raised
from ..why import why
from .offsets import wrapped_offset
from .watch import Watch

_MOST_ELEMENTS = 2**16  # of an input, for evidence
Called = tuple[list[Tensor], list]  # what a function returned, and its inputs after the call


@dataclass(frozen=True)
class Given:
    """What `inspect` got."""

    function: Callable
    reference: Callable
    make: Callable
    tolerance: tuple[float, float] | None


def found_at(sizes: list[int], large: int, given: Given) -> dict:
    """What a function does at each of the sizes, up to the first where something is wrong.

    Then whether its offsets fit into their integers at the large size.

    Returns:
        `refused`, or `wrong`, `owner` and `evidence`, as in an `Inspection`. If all is right,
        `atomics`, `locks` and `unchecked`, and `counts`: those of each launch for each size.
        Always `launches`, for the compiler.
    """
    Tuning.most, number, found = 1, 0, {}
    with launches_noted() as launches, device_of_the_lab("cpu", given.function):
        while number < Tuning.most and "wrong" not in found:
            with configuration(number):
                in_this = _found_in_a_configuration(sizes, large, given)
            is_passed_over = in_this.pop("fault", None) == Fault.PASSED_OVER
            if not found or ("wrong" in in_this and not is_passed_over):
                found = {} if is_passed_over and number + 1 < Tuning.most else in_this
            number += 1
    return found | {"launches": [*launches.values()]}


class _Stops(Exception):
    """Why nothing more is looked for; `found` is what `found_at` returns."""

    def __init__(self, **found: object) -> None:
        super().__init__()
        self.found = found


def _found_in_a_configuration(sizes: list[int], large: int, given: Given) -> dict:
    """What `found_at` returns, where tuners take the configuration that is set now."""
    counts, locks, at = [], [], ""
    try:
        for size in sizes:
            at = f"size {size}"
            watch = _watched(size, given)
            counts.append(watch.counts)
            locks += watch.locks
        at = f"the size {large}, without memory,"
        with a_guest():
            found = wrapped_offset(given.function, given.make, large)
    except _Stops as stop:
        return stop.found
    except TookTooLong as late:
        words = f"{at} {late} in the interpreter: choose smaller sizes; a program that waits for a "
        return {"refused": f"{words}later one never ends there"}
    if "wrong" in found:
        return found
    return {"counts": counts, "atomics": watch.added, "locks": next(iter(locks), "")} | found


def _watched(size: int, given: Given) -> Watch:
    """What a function does at a size, where all is right."""
    at, reference = f"at size {size}", given.reference
    try:
        with a_guest():
            inputs = _named(reference, _made(given.make, size))
            expected = _expected(reference, inputs)
    except NotImplementedError as error:  # a stub's
        raise _Stops(refused=str(error) or f"the reference or make {raised(error)}") from None
    except (Exception, SystemExit) as error:  # whatever they may raise
        raise _Stops(refused=f"{at} the reference or make {raised(error)}") from None
    try:
        with Watch() as watch, a_guest():
            found = _called(given.function, inputs)
    except NotImplementedError as error:
        raise _Stops(refused=str(error) or HOW_TO_BEGIN) from None
    except (Exception, SystemExit) as error:  # whatever a function may raise
        if reason := cannot_be_interpreted(error) or not_the_kernels_fault(error):
            raise _Stops(refused=reason) from None
        reason, owner, fault = failure_of(error)
        if fault == Fault.OTHER:
            raise _Stops(refused=f"{at} {reason}") from None
        found = {"owner": owner, "evidence": _evidence(given, inputs), "fault": fault}
        raise _Stops(wrong=f"{at}: {reason}", **found) from None
    miss = _miss(found, expected, inputs, given.tolerance, watch)
    if miss.words:
        if Tuning.number:
            at += f", in configuration {Tuning.words}"
        seen = _evidence(given, inputs) if miss.has_no_cause else Evidence()
        words = f"{at}: {miss.words}"
        raise _Stops(wrong=words, owner=miss.owner, evidence=seen)
    return watch


def _made(make: Callable, size: int) -> list:
    torch.manual_seed(0)
    inputs = make(size, "cpu")
    if not isinstance(inputs, tuple | list):
        raise TypeError(f"make returns a {type(inputs).__name__}; accepted: a tuple or a list")
    return list(inputs)


def _named(function: Callable, inputs: list) -> dict[str, object]:
    """By the names of the function's arguments, where it has as many."""
    code, count = getattr(unwrap(function), "__code__", None), len(inputs)
    has_names = code is not None and code.co_argcount == count
    names = code.co_varnames if has_names else [f"input {k}" for k in range(count)]
    return dict(zip(names, inputs, strict=False))


def _called(function: Callable, inputs: dict[str, object]) -> Called:
    own = [clone(x) for x in inputs.values()]
    torch.manual_seed(1)
    return [x for x in tree_leaves(function(*own)) if isinstance(x, Tensor)], own


def _expected(reference: Callable, inputs: dict[str, object]) -> Called:
    """Computed in fp64 and rounded once, unless the reference asks for a dtype."""
    results, after = _called(reference, inputs)
    if not results and all(map(_same, inputs.values(), after)):
        raise TypeError("the reference returns no tensor and overwrites none")
    floats = {
        name: x.double()
        for name, x in inputs.items()
        if isinstance(x, Tensor) and x.is_floating_point()
    }
    try:
        exact, exact_after = _called(reference, inputs | floats)
    except (RuntimeError, TypeError, ValueError):
        return results, after
    if len(exact) != len(results):
        return results, after
    return [*map(_rounded, exact, results)], [*map(_rounded, exact_after, after)]


def _rounded(exact: object, want: object) -> object:
    """The exact result in the dtype of `want`; `want` if that isn't a tensor of this shape."""
    if not isinstance(want, Tensor) or exact.shape != want.shape:
        return want
    return exact.to(want.dtype)


class _Miss(NamedTuple):
    """The first thing that is wrong."""

    words: str  # '' if nothing is
    owner: str = ""  # the program that stored the first wrong element
    has_no_cause: bool = False  # elements are wrong, and it isn't known why


def _miss(
    found: Called, expected: Called, inputs: dict, tolerance: tuple | None, watch: Watch
) -> _Miss:
    got, given = found
    wanted, after = expected
    compared = []  # label, result, expected result, and must it stay unchanged?
    if wanted:  # otherwise only the inputs are compared, and it may return anything
        if len(got) != len(wanted):
            return _Miss(f"{len(got)} results came back, {len(wanted)} are expected")
        for k, (x, want) in enumerate(zip(got, wanted, strict=True)):
            compared.append((f"result {k}", x, want, False))
    for (name, before), x, want in zip(inputs.items(), given, after, strict=True):
        if not _same(x, want):
            compared.append((name, x, want, _same(before, want)))
    raced = next(iter(watch.races + watch.collisions + watch.lane_races), "")
    for label, x, want, has_to_stay in compared:
        if has_to_stay:
            return _Miss(f"an input is overwritten: {label}")
        verdict = compare(x, want, tolerance)
        if not verdict:
            at = verdict.compared.first_wrong_index if verdict.compared else None
            owner = (watch.owner_of(x, at) or "no program") if at is not None else ""
            words = f"{label}: {verdict.reason}"
            cause = raced or (watch.by_tf32(x, want) if at is not None else "")
            if cause:
                return _Miss(f"{words}; {cause}", owner)
            return _Miss(words, owner, has_no_cause=at is not None)
    return _Miss(raced or next(iter(watch.tuned_in_place), ""))


@dataclass(frozen=True)
class _Of(Spec):
    """A reference and the inputs of one size, as the specification of an exercise."""

    given: tuple[Tensor, ...] = ()

    def inputs(self, case: Case, device: str = "cpu") -> list[Tensor]:
        return [clone(x) for x in self.given]


def _evidence(given: Given, inputs: dict[str, object]) -> Evidence:
    """Of a wrong result, as in an exercise; none if the inputs are not tensors of floats first."""
    tensors = tuple(inputs.values())
    if not all(isinstance(x, Tensor) for x in tensors) or not tensors[0].is_floating_point():
        return Evidence()
    if max(x.numel() for x in tensors) > _MOST_ELEMENTS:
        return Evidence()
    _, after = _called(given.reference, inputs)
    pairs = zip(inputs.items(), after, strict=True)
    changed = tuple(name for (name, before), x in pairs if not _same(before, x))

    def results(*values: Tensor) -> object:
        own = dict(zip(inputs, (x.clone() for x in values), strict=True))  # keeps gradients
        returned = given.reference(*own.values())
        if changed:
            return tuple(own[name] for name in changed)
        return tuple(x for x in tree_leaves(returned) if isinstance(x, Tensor))

    arguments = tuple(
        Argument(name, "floats" if x.is_floating_point() else "integers", _letters(x))
        for name, x in inputs.items()
    )
    wanted = _Of(results, arguments, overwrites=changed, given=tensors)
    case = Case("the smallest that is wrong", {})
    try:
        attempt = Attempt(given.function, wanted, case, [], configuration=Tuning.number)
        outcome = attempt.outcome()
        return Evidence() if outcome is None else why(attempt, outcome)
    except (Exception, SystemExit):  # whatever a function may raise
        return Evidence()


def _letters(x: Tensor) -> tuple[str, ...]:
    """Rows, and the columns of a row, as far as that can be known."""
    return (*(f"row {k}" for k in range(x.dim() - 1)), "d")[-x.dim() :] if x.dim() else ()


def _same(x: object, y: object) -> bool:
    """Equal bits; True for anything that isn't a tensor."""
    return not isinstance(x, Tensor) or same_bits(x.reshape(-1), y.reshape(-1))
