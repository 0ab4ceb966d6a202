"""Our change to Triton's interpreter: it looks for functions to replace once a launch."""

import pytest
import torch
import triton
import triton.language as tl

from rope_lab.interpreter import patch_language_once_a_launch

if torch.cuda.is_available():
    pytest.skip("kernels are compiled here", allow_module_level=True)
from triton.runtime import interpreter


@triton.jit
def doubled(x):
    return x + x


@triton.jit
def doubled_often_kernel(
    x_ptr,  # (4 * programs,)
    out_ptr,  # the same; with SUMS, (programs,)
    TIMES: tl.constexpr,  # how often it is doubled
    SUMS: tl.constexpr,  # store the sum of the four
    FAILS: tl.constexpr,  # raise an error before anything is stored
):
    i = 4 * tl.program_id(0) + tl.arange(0, 4)
    x = tl.load(x_ptr + i)
    for _ in range(TIMES):
        x = doubled(x)
    if FAILS:
        x = x + tl.arange(0, 8)
    if SUMS:
        tl.store(out_ptr + tl.program_id(0), tl.sum(x))
    else:
        tl.store(out_ptr + i, x)


@pytest.fixture
def looked(monkeypatch):
    """How often the interpreter has looked for functions to replace: the modules and classes."""
    found = []
    original = interpreter._patch_builtin

    def spy(package, *arguments):
        found.append(package)
        return original(package, *arguments)

    monkeypatch.setattr(interpreter, "_patch_builtin", spy)
    return found


def run(times, sums=False, fails=False):
    x = torch.arange(12.0)
    out = torch.full((3,) if sums else (12,), float("nan"))
    doubled_often_kernel[(3,)](x, out, TIMES=times, SUMS=sums, FAILS=fails)
    want = x * 2**times
    torch.testing.assert_close(out, want.view(3, 4).sum(1) if sums else want, rtol=0, atol=0)


def test_however_many_functions_a_kernel_calls(looked):
    run(times=0)
    once = len(looked)
    assert once > 0
    run(times=5)
    assert len(looked) == 2 * once


def test_tritons_own_functions_too(looked):
    """`tl.sum` sees another module than a kernel does; the first launch may look in that one."""
    run(times=1, sums=True)
    looked.clear()
    run(times=0)
    once = len(looked)
    run(times=3, sums=True)
    assert len(looked) == 2 * once


def test_the_language_is_as_before():
    """After a launch and after an error, or the next kernel would not be interpreted right."""
    run(times=1)
    with pytest.raises(interpreter.InterpreterError):
        run(times=1, fails=True)
    assert tl.core.is_builtin(tl.load) and tl.core.is_builtin(tl.tensor.__add__)
    run(times=2)


def test_once_is_enough():
    before = interpreter._patch_lang
    patch_language_once_a_launch()
    assert interpreter._patch_lang is before


@pytest.mark.parametrize("name", ["_patch_lang", "_LangPatchScope"])
def test_a_triton_that_is_built_in_another_way_is_left_alone(monkeypatch, name):
    monkeypatch.setattr(interpreter, "_patch_lang", lambda fn: None)
    monkeypatch.delattr(interpreter, name)
    before = dict(vars(interpreter))
    patch_language_once_a_launch()
    assert dict(vars(interpreter)) == before
