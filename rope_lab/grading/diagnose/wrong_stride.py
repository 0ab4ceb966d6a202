"""A wrong stride: exchanged, forgotten, or another tensor's."""

from dataclasses import replace

import torch
from torch import Tensor

from ..spec import STRIDED, TAIL_AND_STRIDE
from .evidence import Evidence


def strides_exchanged(e: Evidence) -> str | None:
    """Of the first three dimensions."""
    for x, argument in e.arguments:
        if argument.holds != "floats" or x.dim() != 4 or e.case.name in STRIDED:
            continue
        for order, names in (
            ((1, 0, 2), "s and b"),
            ((0, 2, 1), "b and h"),
            ((2, 1, 0), "s and h"),
        ):
            strides = [*(x.stride(dimension) for dimension in order), x.stride(3)]
            reach = sum((size - 1) * step for size, step in zip(x.shape, strides, strict=True))
            memory = x.new_zeros(max(reach + 1, x.numel()))
            memory[: x.numel()] = x.flatten()
            wrong = memory.as_strided(x.shape, strides)
            inputs = [wrong if y is x else y for y in e.inputs]
            if x.is_contiguous() and e.got_is(e.spec(*inputs)):
                return f"a wrong stride: those of {names} have changed places"
    return None


def strides_ignored(e: Evidence) -> str | None:
    """Inputs read as if they were contiguous, or a result laid down like a strided input."""
    inputs = []
    for x, argument in e.arguments:
        if argument.holds == "number":
            inputs.append(x)
            continue
        memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())[x.storage_offset() :]
        missing = x.numel() - memory.numel()
        if missing > 0:
            memory = torch.cat((memory, memory.new_zeros(missing)))
        inputs.append(memory[: x.numel()].view(x.shape))
    strided = any(isinstance(x, Tensor) and not x.is_contiguous() for x in e.inputs)
    if strided and _mostly(e.spec(*inputs), e):
        return "a wrong stride: it reads the memory as if the tensor were contiguous"
    if e.case.name in (*STRIDED, TAIL_AND_STRIDE) and e.earlier:
        found = _last_stride(e) or _laid_out_like_its_input(e)
        if found:
            return found
        if not e.got.is_contiguous() and not e.spec.overwrites:
            return "a wrong stride: the output is not contiguous, because its input is not"
        if e.only_in_tail:
            return "a wrong stride, in the tail: right where its elements are neighbors"
        return "a wrong stride: right for contiguous tensors, wrong for this one"
    return None


def _mostly(guess: Tensor, e: Evidence) -> bool:
    """For memory that ends before the wrongly read tensor does."""
    if guess.shape != e.got.shape:
        return False
    close = torch.isclose(e.got.double(), guess.double(), rtol=1e-2, atol=1e-4)
    return bool(close.double().mean() > 0.5)


def _last_stride(e: Evidence) -> str | None:
    """Forgotten: elements of a row are read as if they were side by side."""
    if e.case.layout != STRIDED[-1]:
        return None
    inputs = [
        x.as_strided(x.shape, (*x.stride()[:-1], 1)) if argument.holds == "floats" else x
        for x, argument in e.arguments
    ]
    if e.got_is(e.spec(*inputs)):
        return "a wrong stride: the last one is forgotten"
    if not e.has_angles:
        return None
    cosines, sines = e.cosine_and_sine_parts()
    own_wrong, partner_wrong = replace(e, inputs=inputs).cosine_and_sine_parts()
    if e.got_is(cosines + partner_wrong):
        return "a wrong stride: the last one is forgotten for the partner"
    if e.got_is(own_wrong + sines):
        return "a wrong stride: the last one is forgotten for the element itself"
    return None


def _laid_out_like_its_input(e: Evidence) -> str | None:
    """A contiguous output, stored by the strides of an input that is not contiguous."""
    for x, argument in e.arguments:
        if argument.holds != "floats" or x.shape != e.expected.shape or x.is_contiguous():
            continue
        reach = 1 + sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
        memory = e.expected.new_zeros(max(reach, x.numel()))
        memory.as_strided(x.shape, x.stride()).copy_(e.expected)
        if e.got_is(memory[: x.numel()].view(x.shape)):
            return "a wrong stride: the output is stored by the strides of its input"
    return None
