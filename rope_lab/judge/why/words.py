"""Evidence in words: elements, steps of an address, and where a result is wrong."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch

from ..verdict import Evidence
from .changes import Index, Noted
from .experiments import MOST, Element, Experiments
from .intended import dimensions, letters_of

RIGHT_THEN = "With that, every element is right."


def evidence(kind: str, *sentences: str, lines: tuple[str, ...] = ()) -> Evidence:
    """From sentences, of which some may be empty, and lines."""
    known = dict.fromkeys(line for line in lines if line)
    return Evidence(kind, " ".join(filter(None, sentences)), tuple(known))


def elements(count: int) -> str:
    return f"{count} element{'s' * (abs(count) != 1)}"


def listed(found: "set[Element] | list[Element]") -> str:
    """'t[0, 0, 0, 1] and t[0, 0, 0, 5]'."""
    words = [one_of(element) for element in sorted(found, key=str)]
    more = f" and {len(words) - MOST} more" if len(words) > MOST else ""
    return " and ".join(words) if len(words) < 3 else ", ".join(words[:MOST]) + more


def one_of(element: Element) -> str:
    name, index = element
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def shown(e: Experiments, at: Index | None = None, number: int | None = None) -> str:
    """'result[0, 0, 1, 0]'."""
    number = e.number if number is None else number
    if e.wanted.overwrites:
        label = e.wanted.overwrites[number]
    else:
        label = "result" if len(e.outs) == 1 else f"result {number}"
    return f"{label}[{', '.join(map(str, e.first if at is None else at))}]"


def where(e: Experiments) -> str:
    """Which elements are wrong, if they are the product of a few ranges."""
    wrong, words = e.wrong, []
    if wrong.all():
        return "Every element is wrong."
    kept = torch.ones_like(wrong)
    for k, name in enumerate(dimensions(letters_of(e))):
        some = wrong.movedim(k, 0).reshape(wrong.shape[k], -1).any(1)
        if not some.all():
            words.append(f"{name} {ranges(some.nonzero().flatten().tolist())}")
            kept &= some.view([-1 if axis == k else 1 for axis in range(wrong.dim())])
    share = "" if torch.equal(kept, wrong) else "some of "
    places = f": {share}{', '.join(words)}" if words and len("".join(words)) < 60 else ""
    return f"{int(wrong.sum())} of {wrong.numel()} elements are wrong{places}."


def ranges(numbers: list[int]) -> str:
    """'0 to 3, 8'."""
    found: list[list[int]] = []
    for n in numbers:
        if found and found[-1][-1] == n - 1:
            found[-1][1:] = [n]
        else:
            found.append([n])
    return ", ".join(" to ".join(map(str, one)) for one in found)


def step(
    e: Experiments, line: str, at: Index, was: dict[Index, int], should: dict[Index, int]
) -> str:
    """How far an address moves to a neighboring element, and how far it should.

    Args:
        line: of the kernel, which computes the address.
        at: a place where it is wrong.
        was, should: the address in bytes, at places of the result.
    """
    if was[at] == should[at]:
        return ""
    size = e.size_at(should[at])
    for k in reversed(range(len(at))):
        for sign in (-1, 1):
            other = (*at[:k], at[k] + sign, *at[k + 1 :])
            if other not in was or (was[other] - should[other]) == (was[at] - should[at]):
                continue
            moves, right = (sign * (x[other] - x[at]) // size for x in (was, should))
            first, second = sorted((at[k], other[k]))
            words = f"From {dimensions(letters_of(e))[k]} {first} to {second}, it moves by"
            now = valued(e, moves, e.names_behind(line, deep=0))
            return f"{words} {now}, and should by {valued(e, right, e.names_behind(line, deep=2))}."
    off = (was[at] - should[at]) // size
    return f"It is {elements(abs(off))} too {'far' if off > 0 else 'near'}."


def valued(e: Experiments, number: int, among: list[str]) -> str:
    """'stride_h, 8': with the one argument, or product of two, that has this value.

    `among`: names of arguments; any stride may be missing.
    """
    numbers = {
        n: x for n, x in _sizes(e) if x > 1 and (n.partition("[")[0] in among or "stride" in n)
    }
    products = numbers | {f"2 * {name}": 2 * x for name, x in numbers.items()}
    pairs = itertools.combinations(numbers, 2)
    products |= {f"{a} * {b}": numbers[a] * numbers[b] for a, b in pairs}
    names = [name for name, x in numbers.items() if x == number]
    if len(names) != 1 or "stride" not in names[0]:
        names = [name for name, x in products.items() if x == number]
    return f"{names[0]}, {number}" if len(names) == 1 else f"{number}"


def _sizes(e: Experiments) -> Iterator[tuple[str, int]]:
    """The launch's integers, those in its tuples as 'strides[0]'."""
    yield from e.numbers.items()
    for name, x in e.launch.arguments.items() if e.launch else ():
        for k, value in enumerate(x if isinstance(x, tuple) else ()):
            if isinstance(value, int):
                yield f"{name}[{k}]", value


def along_the_block(one: Noted) -> str:
    """How far an address moves from lane to lane, unless lanes are neighbors."""
    axes = ("lane",) if len(one.shape) == 1 else ("row", "column")
    steps = [
        np.unique(np.diff(one.access.addresses, axis=k) // one.access.size)
        for k in range(len(one.shape))
    ]
    words = [
        f"by {elements(int(x[0]))} from one {name} to the next"
        for name, x in zip(axes, steps, strict=False)
        if len(x) == 1
    ]
    is_plain = all(len(x) == 1 and x[0] == 1 for x in steps)
    if is_plain or not words:
        return ""
    return f"In its block, this address moves {' and '.join(words)}."
