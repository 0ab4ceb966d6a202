"""Another row, position or stride: how what is read, and what is stored, is counted."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..spec import STRIDED, TAIL_AND_STRIDE
from .evidence import Evidence
from .guess import MASKED_HEAD, Guess, own, part, place, whole


def position(e: Evidence) -> Iterator[Guess]:
    """Angles of rows counted in another way than by position."""
    first = e.expected_with_angles(lambda x: x[:1].expand_as(x))
    yield whole("the wrong position: the angle is that of 0, the first position", first)
    floats = next((x for x, a in e.arguments if a.holds == "floats" and x.dim() == 4), None)
    table = next((x for x, a in e.arguments if a.holds == "angles"), None)
    if floats is None or table is None or e.expected.dim() != 4:
        return
    turned = torch.stack(
        [
            e.expected_with_angles(lambda x, p=p: x[p : p + 1].expand_as(x))
            for p in range(len(table))
        ]
    )
    s, b, h, _ = e.expected.shape
    row = torch.arange(s * b * h).view(s, b, h)
    at = row // (b * h)
    for words, others in {
        "the row's number": row,
        "the row's number divided by h alone": row // h,
        "the row's number divided by b alone": row // b,
        "the head's number": row % h,
        "the sequence's number": row // h % b,
        "the position plus 1": at + 1,
        "the position counted from the end of the table": at + len(table) - s,
    }.items():
        inside = others < len(table)  # beyond the table may be anything
        result = turned.gather(
            0, others.clamp(max=len(table) - 1)[None, ..., None].expand(1, *e.expected.shape)
        )[0]
        yield whole(
            f"the wrong position: the angle is that of {words}",
            torch.where(inside[..., None], result, e.got.to(result.dtype)),
        )


def row(e: Evidence) -> Iterator[Guess]:
    """The number of a row taken apart in another order."""
    for number, (x, argument) in enumerate(e.arguments):
        if argument.holds == "floats" and x.dim() == 4 and x.shape == e.expected.shape:
            other = x.transpose(1, 2).reshape(x.shape)
            words = "the wrong row: sequence and head are counted in the other order"
            yield whole(words, e.expected_with_input(number, other))


def head(e: Evidence) -> Iterator[Guess]:
    """What another head of the same position and sequence should have."""
    if e.expected.dim() != 4 or e.expected.shape[2] < 2 or e.got.shape != e.expected.shape:
        return
    s, b, h, _ = e.expected.shape
    row = torch.arange(s * b * h).view(s, b, h, 1)
    masked = e.expected.gather(2, (row & (h - 1)).expand_as(e.expected))
    yield whole(f"the wrong head: its number is the row's by a bit mask; {MASKED_HEAD}", masked)
    masked = e.expected[:, :, torch.arange(h) & (h - 1)]
    yield whole(f"the wrong head: its number is taken by a bit mask; {MASKED_HEAD}", masked)
    got, expected = (x.double().movedim(2, 0).flatten(1) for x in (e.got, e.expected))
    close = 1e-2 * expected.abs().max()
    others = (got[:, None] - expected).abs().amax(-1) <= close  # head, whose elements it has
    wrong = ~others.diagonal()
    if wrong.any() and others.any(1).all():
        which = others.int().argmax(1)
        pairs = [f"head {k} has those of head {which[k]}" for k in range(h) if wrong[k]]
        yield part(f"the wrong head: {', '.join(pairs[:3])}")


def strides_exchanged(e: Evidence) -> Iterator[Guess]:
    """Of the first three dimensions."""
    for number, (x, argument) in enumerate(e.arguments):
        if argument.holds != "floats" or x.dim() != 4 or not x.is_contiguous():
            continue
        for order, names in {
            (1, 0, 2): "s and b",
            (0, 2, 1): "b and h",
            (2, 1, 0): "s and h",
        }.items():
            strides = [*(x.stride(dimension) for dimension in order), x.stride(3)]
            memory = x.new_zeros(max(_reach(x.shape, strides) + 1, x.numel()))
            memory[: x.numel()] = x.flatten()
            result = e.expected_with_input(number, memory.as_strided(x.shape, strides))
            yield whole(f"a wrong stride: those of {names} have changed places", result)


def strides_of_the_input(e: Evidence) -> Iterator[Guess]:
    """The last one forgotten, or all of them, or the output laid down by them."""
    if e.written_beside:
        yield own(f"a wrong stride: it writes beside {e.written_beside}")
    if all(x.is_contiguous() for x in e.inputs):
        return
    if _mostly(e.spec(*map(_as_if_contiguous, e.inputs)), e):
        yield whole("a wrong stride: it reads the memory as if the tensor were contiguous")
    neighbors = [
        x.as_strided(x.shape, (*x.stride()[:-1], 1)) if a.holds == "floats" and x.stride(-1) else x
        for x, a in e.arguments
    ]
    forgotten = "a wrong stride: the last one is forgotten"
    yield whole(forgotten, e.spec(*neighbors))
    if e.has_angles:
        wrong = replace(e, inputs=neighbors)
        yield part(f"{forgotten} for the partner", e.cosines + wrong.sines)
        yield part(f"{forgotten} for the element itself", wrong.cosines + e.sines)
    for x, a in e.arguments:
        strided = a.holds == "floats" and not x.is_contiguous() and 0 not in x.stride()
        if strided and x.shape == e.expected.shape:
            memory = e.expected.new_zeros(max(1 + _reach(x.shape, x.stride()), x.numel()))
            memory.as_strided(x.shape, x.stride()).copy_(e.expected)
            stored = memory[: x.numel()].view(x.shape)
            yield whole("a wrong stride: the output is stored by the strides of its input", stored)


def _as_if_contiguous(x: Tensor) -> Tensor:
    memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())[x.storage_offset() :]
    missing = max(0, x.numel() - memory.numel())
    return torch.cat((memory, memory.new_zeros(missing)))[: x.numel()].view(x.shape)


def _reach(shape: torch.Size, strides: list[int]) -> int:
    """How far the last element is from the first."""
    return sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


def _mostly(guess: Tensor, e: Evidence) -> bool:
    """For memory that ends before the wrongly read tensor does."""
    if guess.shape != e.got.shape:
        return False
    close = torch.isclose(e.got.double(), guess.double(), rtol=1e-2, atol=1e-4)
    return bool(close.double().mean() > 0.5)


def case_alone(e: Evidence) -> Iterator[Guess]:
    """What only the case says, after simpler ones came out right."""
    if not e.earlier:
        return
    if e.case.name == "several sequences":
        yield place("the batch: right for one sequence, wrong for several")
    elif e.case.name == "a table longer than the sequence":
        yield place("the table's length: right for a table that ends with the sequence")
    elif e.case.name not in (*STRIDED, TAIL_AND_STRIDE):
        return
    elif not e.got.is_contiguous() and not e.spec.overwrites:
        yield place("a wrong stride: the output is not contiguous, because its input is not")
    elif e.only_in_tail:
        yield place("a wrong stride, in the tail: right where its elements are neighbors")
    else:
        yield place("a wrong stride: right for contiguous tensors, wrong for this one")


RULES = (position, row, head, strides_exchanged, strides_of_the_input, case_alone)
