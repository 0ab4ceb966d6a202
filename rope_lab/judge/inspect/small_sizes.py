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
from ..attempt import same_bits
from ..check import clone, compare
from ..diagnose import UNKNOWN, kind_of_mistake
from ..diagnose.evidence import Evidence, Rank
from ..errors import failure_of, not_the_kernels_fault
from ..guests import TookTooLong, a_guest, device_of_the_lab
from ..refusals import launches_noted
from ..spec import Argument, Case, Spec
from ..verdict import HOW_TO_BEGIN, Fault, raised
from .offsets import wrapped_offset
from .watch import Watch

_MOST_ELEMENTS = 2**14  # of a result whose mistake is looked for
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
        `refused`, or `wrong`, `owner` and `looks_like`, as in an `Inspection`. If all is right,
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
        raise _Stops(wrong=f"{at}: {reason}", owner=owner, fault=fault) from None
    miss = _miss(found, expected, inputs, given.tolerance, watch)
    if miss.words:
        if Tuning.number:
            at += f", in configuration {Tuning.words}"
        looks_like = ""
        if miss.result is not None:
            looks_like = _looks_like(
                number=miss.result,
                found=found,
                expected=expected,
                reference=reference,
                inputs=inputs,
                watch=watch,
            )
        words = f"{at}: {miss.words}"
        raise _Stops(wrong=words, owner=miss.owner, looks_like=looks_like)
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
    result: int | None = None  # its number, if no cause is known


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
    for number, (label, x, want, has_to_stay) in enumerate(compared):
        if has_to_stay:
            return _Miss(f"an input is overwritten: {label}")
        verdict = compare(x, want, tolerance)
        if not verdict:
            at = verdict.compared.first_wrong_index if verdict.compared else None
            owner = (watch.owner_of(x, at) or "no program") if at is not None else ""
            words = f"{label}: {verdict.reason}"
            cause = raced or _masked_off(x, at, watch)
            cause = cause or (watch.by_tf32(x, want) if at is not None else "")
            if cause:
                return _Miss(f"{words}; {cause}", owner)
            return _Miss(words, owner, number if at is not None and number < len(wanted) else None)
    return _Miss(raced or next(iter(watch.tuned_in_place), ""))


def _masked_off(x: Tensor, at: tuple[int, ...] | None, watch: Watch) -> str:
    """Explain NaN from a load without `other`: the interpreter sets such elements to NaN."""
    if not watch.undefined or at is None or not x[at].isnan():
        return ""
    return "an element that is masked off is used: a load without `other` leaves it undefined"


def _looks_like(
    number: int, found: Called, expected: Called, reference: Callable, inputs: dict, watch: Watch
) -> str:
    """The mistake that explains a wrong result, as in an exercise; '' if none is known."""
    x, want = found[0][number], expected[0][number]
    floats = [name for name, x in inputs.items() if isinstance(x, Tensor) and x.is_floating_point()]
    if x.numel() > _MOST_ELEMENTS:
        return ""

    def of_one(*values: Tensor) -> Tensor:
        changed = inputs | dict(zip(floats, values, strict=True))
        return _called(reference, changed)[0][number]

    evidence = Evidence(
        spec=Spec(of_one, tuple(Argument(name, "floats", ()) for name in floats)),
        case=Case("the smallest that is wrong", {}, want.dtype),
        inputs=[inputs[name] for name in floats],
        got=x,
        expected=want,
        wrong=~torch.isclose(x, want, rtol=1e-2, atol=1e-3, equal_nan=True),
        trace=watch,
    )
    try:
        # where an element comes from is only useful for a rotation
        looks_like = kind_of_mistake([evidence], least=Rank.PLACE)
    except Exception:  # a rule may need what only an exercise has
        return ""
    return "" if looks_like == UNKNOWN else looks_like


def _same(x: object, y: object) -> bool:
    """Equal bits; True for anything that isn't a tensor."""
    return not isinstance(x, Tensor) or same_bits(x.reshape(-1), y.reshape(-1))
