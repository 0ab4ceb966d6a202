"""What a kernel may be written with: functions of the language, of libdevice, and one's own."""

from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

import triton
import triton.language as tl

import rope_lab as lab
from cells import Cell
from processes import run_python
from rope_lab.interpreter.reductions import let_reductions_take_blocks
from rope_lab.judge.spec import STRIDED, spec
from rope_lab.records import QUIET
from rope_lab.rungs import RUNGS

pytestmark = pytest.mark.usefixtures("kept_here")


def test_what_cannot_be_kept_is_right_all_the_same(monkeypatch):
    monkeypatch.delenv(QUIET, raising=False)
    verdict = lab.check_rung(1, partial(RUNGS[1].module.my_rope))
    assert verdict and "it is not kept for the next notebook: my_rope is" in verdict.remark, verdict


def test_an_error_of_ours_is_a_sentence(monkeypatch):
    monkeypatch.setattr("rope_lab.judge.climb.check_rung.readings_of", lambda *_: min([]))
    verdict = lab.check_rung(1, RUNGS[1].module.my_rope)
    assert verdict.state == "not yet" and "raises ValueError: min()" in verdict.reason, verdict


# functions of libdevice

SEVERAL = """\
x = x.to({dtype})
y = libdevice.rsqrt(libdevice.fma(x, x, 1.0)) + libdevice.floor(x) + libdevice.pow(x, 3)
y += libdevice.atan2(x, 2.0) + libdevice.remainder(x, 0.75)"""


@spec(leave_out=STRIDED, tolerance=(1e-4, 1e-4))
def several(x: "(n,)"):  # noqa: F821
    angle = torch.atan2(x, torch.full_like(x, 2))
    nearest = x - 0.75 * torch.round(x / 0.75)
    return (x * x + 1).rsqrt() + x.floor() + x**3 + angle + nearest


def several_in(dtype, folder):
    above = "from triton.language.extra import libdevice"
    return Cell(SEVERAL.format(dtype=dtype), above).launcher(folder)


def test_functions_of_libdevice_are_those_of_numpy(tmp_path):
    verdict = lab.check_exercise(several_in("tl.float32", tmp_path), several)
    assert verdict and "half precision" in verdict.cases.right, verdict
    verdict = lab.check_exercise(several_in("x.dtype", tmp_path), several)
    assert "libdevice.fma takes no fp16, fp16, fp32; cast before" in repr(verdict), verdict


# functions of one's own in reductions and scans


@triton.jit
def larger(x1, i1, x2, i2):
    return tl.maximum(x1, x2), tl.where(x2 > x1, i2, i1)


@triton.jit
def larger_by_a_branch(x1, i1, x2, i2):
    if x2 > x1:
        x1, i1 = x2, i2
    return x1, i1


@triton.jit
def later(decay1, total1, decay2, total2):
    """Two steps of y = decay * y + x as one."""
    return decay1 * decay2, total1 * decay2 + total2


@triton.jit
def largest_kernel(x_ptr, out_ptr, FUNCTION: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """The place of the largest element of each row, and of all; and a run along each row."""
    i = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    x = tl.load(x_ptr + i)
    _, of_a_row = tl.reduce((x, i), -1, FUNCTION, keep_dims=True)
    tl.store(out_ptr + tl.arange(0, R)[:, None], of_a_row)
    tl.store(out_ptr + R, tl.reduce((x, i), None, FUNCTION)[1])
    _, run = tl.associative_scan((x * 0 + 0.5, x), 1, later)
    tl.store(x_ptr + i, run)


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled there")
@pytest.mark.parametrize("function", (larger, larger_by_a_branch), ids=lambda it: it.__name__)
def test_a_function_of_ones_own_is_called_a_few_times(function, monkeypatch):
    """For each element, it would take minutes; only one with branches takes single elements."""
    let_reductions_take_blocks()
    calls, original = [], function.fn

    def counted(*given):
        calls.append(given)
        return original(*given)

    monkeypatch.setattr(function, "fn", counted)
    x, out = torch.randint(4, (8, 16)).float(), torch.zeros(9, dtype=torch.int32)
    numbers, run = x.numpy().copy(), np.zeros((8, 16))
    for column in range(16):
        run[:, column] = 0.5 * run[:, column - 1] + numbers[:, column]
    largest_kernel[(1,)](x, out, FUNCTION=function, R=8, C=16)
    first = numbers.argmax(1) + 16 * np.arange(8)  # of those that are equal
    assert out.tolist() == [*first, numbers.argmax()]
    np.testing.assert_allclose(x.numpy(), run, rtol=1e-6)
    assert (len(calls) == 4 + 7) == (function is larger), len(calls)


def test_what_standard_output_cannot_encode_is_escaped():
    said = run_python(
        """
        import rope_lab as lab
        from rope_lab.judge import definitions

        def in_microseconds(x):
            print("5 \\u00b5s")
            raise ValueError("6 \\u00b5s")

        print(lab.check_exercise(in_microseconds, definitions.rotate_half))
        """,
        **{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert "\n5 \\xb5s\n" in said and "raises ValueError: 6 \\xb5s" in said
