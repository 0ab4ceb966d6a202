"""Mistakes as lines of a kernel, and the judge, which finds them behind a wrong address."""

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

import triton
import triton.language as tl

import rope_lab as lab
from rope_lab.judge.definitions import rope
from rope_lab.judge.lines import copy_by_lines, rope_by_lines, rotate_half_by_lines
from rope_lab.judge.spec import laid_out_alike, spec
from rope_lab.n03.exercises import rotate_half_of_rows
from rope_lab.n04.exercises import rope_of_whole_heads, strided_copy

BY_LINES = {
    "rotate_half": (rotate_half_by_lines(), rotate_half_of_rows),
    "copy": (copy_by_lines(), strided_copy),
    "rope": (rope_by_lines(), rope),
}


@pytest.mark.parametrize("name", BY_LINES)
def test_without_another_line_all_is_right(name):
    by_lines, wanted = BY_LINES[name]
    for case in wanted.cases:
        inputs = [laid_out_alike(x, torch.float64) for x in wanted.inputs(case)]
        torch.testing.assert_close(by_lines(*inputs), wanted(*inputs), msg=case.name)


@pytest.mark.parametrize("wanted", (rotate_half_of_rows, strided_copy, rope_of_whole_heads))
def test_every_mistake_differs_from_every_other_one_in_some_case(wanted):
    made = {}
    for words, mistaken in wanted.mistakes.items():
        results = [
            mistaken(*(laid_out_alike(x, torch.float64) for x in wanted.inputs(case)))
            for case in wanted.cases
        ]
        made[words] = torch.cat([result.flatten() for result in results])
    names = list(made)
    for place, one in enumerate(names):
        for other in names[:place]:
            same = torch.allclose(made[one], made[other], equal_nan=True)
            assert not same, f"{one!r} and {other!r} are told of the same result"


# kernels that leave their tensors, and one that stores twice


@triton.jit
def double_kernel(x_ptr, out_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + STEP * i, mask=i < n)
    tl.store(out_ptr + i, 2 * x, mask=i < n)


@triton.jit
def unmasked_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i))


@triton.jit
def one_place_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i * 0, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def far(x):
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), STEP=2, BLOCK=256)
    return out


def farther(x):
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), STEP=3, BLOCK=256)
    return out


def unmasked(x):
    out = torch.empty_like(x)
    unmasked_kernel[(triton.cdiv(x.numel(), 256),)](x, out, BLOCK=256)
    return out


def in_one_place(x):
    out = torch.empty_like(x)
    one_place_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


def _twice_as_far(x):
    wrong = torch.full_like(x, torch.nan)
    found = x[::2]
    wrong[: len(found)] = 2 * found
    return wrong


def _first_element_alone(x):
    wrong = torch.full_like(x, torch.nan)
    wrong[0] = 2 * x[-1]
    return wrong


MISTAKES = {
    "every other element is loaded": _twice_as_far,
    "all is stored in one place": _first_element_alone,
}


@spec(kernel=True, mistakes=MISTAKES, unmasked="only the mask is wrong")
def doubled(x: "(n)"):  # noqa: F821
    return 2 * x


@pytest.mark.parametrize(
    "candidate, looks_like, because",
    [
        (far, "out of bounds: ", "every other element is loaded"),
        (unmasked, "out of bounds: ", "only the mask is wrong"),
        (in_one_place, "all is stored in one place", ""),
        (farther, "out of bounds: ", ""),
    ],
)
def test_a_wrong_address_has_its_cause_beside_it(candidate, looks_like, because):
    verdict = lab.check_exercise(candidate, doubled)
    assert not verdict
    assert verdict.reason.startswith(looks_like)
    assert verdict.because == because
    assert (f"\n  because: {because}" in repr(verdict)) == bool(because)
