"""Evidence from numbers: what multiplies an element, what is rounded, and one-line formulas."""

import itertools
import math
import re
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..attempt import as_tuple
from ..verdict import Evidence
from .changes import Changes, Index
from .experiments import TESTED, Element, Experiments
from .formulas import (
    fitting,
    of_logsumexp,
    of_norms,
    of_transposed_maps,
    of_weights,
    ratio_in_words,
)
from .found import of_masks, proof
from .words import evidence, listed, shown, where


def not_finite(e: Experiments) -> Evidence | None:
    """The first name of the kernel that becomes NaN or infinite."""
    if e.got[e.first].isfinite() or not e.expected[e.first].isfinite():
        return None
    largest = max(float(x.abs().max()) for x in e.inputs() if x.is_floating_point())
    for changes in (Changes(fill=("", 0.0)), Changes()):
        named: dict[str, float] = {}
        for one in e.followed(changes).named:
            if one.kind != "f" or not one.line:
                continue
            bad = one.block[np.isnan(one.block) | ((one.block == math.inf) & (largest < math.inf))]
            if bad.size:
                words = f"`{one.name}` is the first that becomes {float(bad.flat[0])}"
                behind = e.names_behind(one.line, deep=0)
                there = ", ".join(f"`{x}` {value:.3g}" for x, value in named.items() if x in behind)
                more = f"; there, the smallest {there}" if there else ""
                largest_is = f"The largest element of the inputs is {largest:.3g}."
                return evidence("not finite", f"{words}{more}.", largest_is, lines=(one.line,))
            named[one.name] = float(one.block.min())
    return evidence("not finite", f"{shown(e)} is {float(e.got[e.first])}.", lines=_stored(e))


def formula(e: Experiments) -> Evidence | None:
    """A norm or a logarithm with one thing changed."""
    inputs, computed = _specified(e)
    right = computed(inputs)
    lanes = max((one.shape[-1] for one in e.record.noted if one.shape), default=0)
    guesses = itertools.chain(
        of_weights(inputs, computed), of_norms(inputs, right, lanes), of_logsumexp(inputs, lanes)
    )
    words = fitting(e.got.double(), right, guesses)
    floats = [a.name for a in e.wanted.arguments if a.holds == "floats"]
    if not words and not all(is_linear(e, name) for name in floats):
        words = ratio_in_words(e.got.double(), e.expected.double(), lanes)
    return _fits(e, words)


def transposed(e: Experiments) -> Evidence | None:
    """A gradient that is rotated by another map."""
    inputs, computed = _specified(e)
    guesses = of_transposed_maps(inputs, computed)
    return _fits(e, fitting(e.got.double(), computed(inputs), guesses))


def _specified(e: Experiments) -> tuple[dict[str, Tensor], Callable[[dict[str, Tensor]], Tensor]]:
    """The inputs in fp64, and the specification of the result, from such inputs."""
    inputs = dict(zip(e.wanted.names, (x.double() for x in e.inputs()), strict=True))
    return inputs, lambda changed: as_tuple(e.wanted(*changed.values()))[e.number]


def _fits(e: Experiments, words: str) -> Evidence | None:
    if not words:
        return None
    return evidence("formula", f"{words[0].upper()}{words[1:]}.", lines=_computed(e))


def rounding(e: Experiments) -> Evidence | None:
    got, want = e.got.double(), e.expected.double()
    eps = max(torch.finfo(dtype).eps for dtype in (torch.float16, e.expected.dtype))
    is_finite = want.isfinite()
    largest = want[is_finite].abs().amax() if is_finite.any() else 0.0
    is_near = ((got - want).abs() <= 4 * eps * largest) | (got == want)
    if not is_near.all():
        return None
    words = f"Only the last digits are wrong: {_digits(e)}."
    narrow = next((one for one in e.record.named if one.dtype in ("fp16", "bf16")), None)
    if narrow and e.expected.dtype == torch.float32:
        return evidence(
            "rounding", words, f"`{narrow.name}` is {narrow.dtype}.", lines=(narrow.line,)
        )
    more = "Something is rounded to fewer digits than fp32 has, or a small number is missing."
    return evidence("rounding", words, more, lines=_stored(e))


def too_narrow(e: Experiments) -> Evidence:
    """Right in fp32, and wrong in 16 bits."""
    dtype = str(e.expected.dtype).removeprefix("torch.")
    begin = f"With the same numbers in fp32, all is right; in {dtype}"
    if rounding(e):
        words = f"{begin}, only the last digits are wrong."
        return evidence(
            "rounding", words, "Convert what is loaded to fp32, and let the store round once."
        )
    largest = max(float(x.abs().max()) for x in e.inputs() if x.is_floating_point())
    words = f"{begin}, {_digits(e)}."
    more = f"The largest element of the inputs is {largest:.3g}, and float16 ends at 65504."
    return evidence("too narrow", words, more)


def factors(e: Experiments) -> Evidence | None:
    """What multiplies each needed element, for inputs that the right result is proportional to."""
    if e.record.launched and (proved := proof(e, of_masks)):
        return proved
    names, at = e.wanted.names, e.first
    inputs = dict(zip(names, e.inputs(), strict=True))
    angles = {a.name: inputs[a.name] for a in e.wanted.arguments if a.holds == "angles"}
    own = [element for element in sorted(e.needs(at)) if element[0] in angles]
    words = []
    for name in filter(lambda name: is_linear(e, name), names):
        number = names.index(name)
        none = e.value(Changes(inputs=lambda given, k=number: given[k].zero_()))
        if abs(none) > 1e-5:
            told = f"With zeros in {name}, {shown(e)} should be 0, and is {none:.4g}:"
            more = f"a part of it is not multiplied by {name}."
            return evidence("factor", told, more, lines=_stored(e))
        for element in sorted(x for x in e.needs(at) if x[0] == name)[:TESTED]:
            alone = _alone(number, element[1], 1.0)
            got, want = e.value(alone), float(e.right(alone)[at])
            for times in (2.0, 0.3):
                part = e.value(_alone(number, element[1], times))
                if not math.isclose(part, times * got, rel_tol=1e-3, abs_tol=1e-5):
                    told = f"{shown(e)} is not proportional to {listed([element])}, and should be:"
                    more = "it is multiplied by itself, or rounded."
                    return evidence("factor", told, more, lines=_stored(e))
            if not math.isclose(got, want, rel_tol=1e-3, abs_tol=1e-4) and len(words) < 2:
                is_by, should = meaning(got, angles, own), meaning(want, angles, own)
                words.append(
                    f"{listed([element])} is multiplied by {is_by}, and should be by {should}"
                )
    if not words:
        return None
    return evidence("factor", f"In {shown(e)}, {'; '.join(words)}.", where(e), lines=_stored(e))


def _alone(number: int, index: Index, size: float) -> Changes:
    """One element of an input, and zeros."""

    def change(given: list[Tensor]) -> None:
        given[number].zero_()[index] = size

    return Changes(inputs=change)


def is_linear(e: Experiments, name: str) -> bool:
    """Whether the right result is proportional to an input."""
    number = e.wanted.names.index(name)
    if not e.given[number].is_floating_point():
        return False
    one, *others = (
        e.right(Changes(inputs=lambda given, by=by: given[number].mul_(by))) for by in (1, 2, -1, 0)
    )
    return all(
        torch.allclose(x, by * one, rtol=1e-4, atol=1e-5, equal_nan=True)
        for x, by in zip(others, (2, -1, 0), strict=True)
    )


def meaning(x: float, angles: dict[str, Tensor], own: list[Element]) -> str:
    """'-sin(freqs[0, 0, 0, 1])', if a number is one of these."""
    for c in (0.0, 1.0, -1.0, 2.0, -2.0, 0.5):
        if math.isclose(x, c, abs_tol=1e-5):
            return f"{c:g}"
    functions = {"cos": math.cos, "sin": math.sin, "": lambda a: a}
    changes = {
        "{}": 1.0,
        "2 * {}": 2.0,
        "{} / 2": 0.5,
        "{} in degrees": math.pi / 180,
        "{} * 180 / pi": 180 / math.pi,
    }
    small = ((name, table) for name, table in angles.items() if table.numel() < 2000)
    every = [(name, i) for name, table in small for i in np.ndindex(*table.shape)]
    for places, times_of in ((own, changes), (every, {"{}": 1.0})):
        for words, times in times_of.items():
            for name, index in places:
                angle = float(angles[name][index]) * times
                inside = words.format(listed([(name, index)]))
                for function, of in functions.items():
                    for sign, s in (("", 1), ("-", -1)):
                        if math.isclose(x, s * of(angle), rel_tol=1e-4, abs_tol=1e-5):
                            return f"{sign}{function}({inside})" if function else f"{sign}{inside}"
    return f"{x:.4g}"


def another_number(e: Experiments) -> Evidence:
    words = f"{shown(e)} is made of all that it needs, and is another number."
    if e.record.launched and (proved := proof(e, of_masks)):
        return proved
    return evidence("unknown", words, where(e), lines=_stored(e))


def _digits(e: Experiments) -> str:
    got, want = (float(x[e.first]) for x in (e.got, e.expected))
    return f"{shown(e)} is {got:.6g} and should be {want:.6g}"


def _stored(e: Experiments) -> tuple[str, ...]:
    return tuple(store.line for store, _ in e.stores(e.first)[-1:])


def _computed(e: Experiments) -> tuple[str, ...]:
    """The line that computes a sum or a root, and the store."""
    stored = _stored(e)
    found = re.findall(r"^\s*(\w+ = .*tl\.(?:rsqrt|sqrt|sum)\(.*)$", e.source, re.MULTILINE)
    return (*found[-1:], *stored)
