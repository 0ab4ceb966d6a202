"""What the judge counts while a candidate runs, and the races that its order of programs hides."""
# ruff: noqa: F821 (the letters of shapes)

import pytest
import torch

import rope_lab as lab
from rope_lab.grading.climb.readings import counts_of
from rope_lab.grading.judge import judged
from rope_lab.grading.spec import Case, spec
from rope_lab.rungs import RUNGS

pytest.importorskip("triton", reason="needs Triton")

import triton
import triton.language as tl

PROBE = Case("the probe", {"s": 2, "b": 4, "h": 4, "d": 64}, torch.bfloat16)


@triton.jit
def shift_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(out_ptr + i, x, mask=i < n)


def shift(x):
    shift_kernel[(triton.cdiv(len(x), 16),)](x, x, len(x), BLOCK=16)


@spec(overwrites=("x",), kernel=True)
def shifted(x: "(n)"):
    return torch.cat((x[1:], torch.zeros_like(x[:1])))


def test_a_race_is_found_that_the_order_here_hides():
    """Program 0 loads the first element of program 1 before it is overwritten: by luck."""
    verdict = lab.check_exercise(shift, shifted)
    assert verdict.state == "wrong"
    assert "program 1 overwrites element 16 of x_ptr, which another program loads" in repr(verdict)


@pytest.mark.parametrize(
    "rung, order, requested, evaluations",
    (
        (1, "LLLEES", 5, 4),
        (2, "LLLLEESEES", 4, 4),
        (3, "LLEEEELLSS", 2.25, 0.5),
        (6, "LLEEEELLSS", 2.25, 0.5),
        (7, "LLLLEEEESS", 2.25, 0.5),
        (8, "LLLLEEEESS", 2 + 1 / 8, 0.25),  # 16 rows of 64
    ),
)
def test_bytes_evaluations_and_order_are_counted(rung, order, requested, evaluations):
    wanted = lab.exercises.rope_of_whole_rows
    verdict = judged(RUNGS[rung].module.my_rope, wanted, probe=PROBE)
    counts = counts_of(verdict.counted)
    assert counts == {"requested": requested, "evaluations": evaluations, "order": order}
