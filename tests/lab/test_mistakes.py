"""Mistakes in solutions, and the judge, which finds them behind a wrong address."""

from importlib import import_module

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

import triton
import triton.language as tl

import rope_lab as lab
from exercise_form import NUMBERS
from rope_lab.judge.mistakes import Mistake, Mistaken
from rope_lab.judge.spec import MANY, Spec, laid_out_alike, spec

MODULES = [f"rope_lab.n{number}.exercises" for number in NUMBERS]
KNOWN = {  # name -> specification, of all that know mistakes
    name: wanted
    for module in ("rope_lab.judge.climb.specifications", *MODULES)
    for name, wanted in vars(import_module(module)).items()
    if isinstance(wanted, Spec) and wanted.mistakes
}


def results_of(function, wanted):
    """Of all cases in which the judge compares mistakes."""
    cases = [case for case in wanted.cases if case.name != MANY]
    return [
        function(*(laid_out_alike(x, torch.float64) for x in wanted.inputs(case))) for case in cases
    ]


@pytest.mark.parametrize("name", KNOWN)
def test_a_solution_without_a_mistake_computes_what_is_wanted(name):
    wanted = KNOWN[name]
    made = [one for one in wanted.mistakes.values() if isinstance(one, Mistaken)]
    for solution in {one.solution.file: one.solution for one in made}.values():
        right = Mistaken(solution, Mistake("none"))
        got, want = results_of(right, wanted), results_of(wanted, wanted)
        # 11-ex3 adds its shares in fp32
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ("rotate_half_of_rows", "strided_copy", "rope_of_whole_heads"))
def test_every_mistake_differs_from_every_other_one_in_some_case(name):
    wanted = KNOWN[name]
    made = {
        words: torch.cat([result.flatten() for result in results_of(mistaken, wanted)])
        for words, mistaken in wanted.mistakes.items()
    }
    names = list(made)
    for place, one in enumerate(names):
        for other in names[:place]:
            same = torch.allclose(made[one], made[other], equal_nan=True)
            assert not same, f"{one!r} and {other!r} are told of the same result"


def test_a_load_past_the_end_gives_nan():
    (doubled,) = (
        mistaken
        for words, mistaken in KNOWN["scaled_copy"].mistakes.items()
        if words.startswith("the place is doubled where x is loaded")
    )
    x = torch.arange(8.0, dtype=torch.float64)
    assert doubled(x)[:4].equal(4 * x[:4]) and doubled(x)[4:].isnan().all()


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
