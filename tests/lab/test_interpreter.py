"""Our changes to Triton's interpreter: the same results, with less work.

That it is left as it was, `test_run.py` tests.
"""

from dataclasses import replace

import pytest
import torch

from rope_lab.interpreter import _replace_functions_once_a_launch, speed_up

triton = pytest.importorskip("triton", reason="needs Triton")
if torch.cuda.is_available():
    pytest.skip("kernels are compiled here", allow_module_level=True)

import triton.language as tl  # noqa: E402
from triton.runtime import interpreter  # noqa: E402

if not hasattr(interpreter, "_LangPatchScope"):
    pytest.skip("Triton 3.5 restores nothing after a launch", allow_module_level=True)


@pytest.mark.parametrize("name", ["_patch_lang", "_LangPatchScope"])
def test_a_triton_that_is_built_in_another_way_is_left_alone(monkeypatch, name):
    monkeypatch.setattr(interpreter, "_patch_lang", lambda fn: None)
    monkeypatch.delattr(interpreter, name)
    before = dict(vars(interpreter))
    _replace_functions_once_a_launch.__wrapped__(interpreter)
    assert dict(vars(interpreter)) == before


@triton.jit
def squared_kernel(
    x_ptr,  # (4,) int32
    out_ptr,  # (4,) int32
):
    i = tl.arange(0, 4)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * x)


@pytest.mark.parametrize("checked", (False, True), ids=("as here", "as Triton has it"))
def test_an_overflow_wraps_as_on_a_gpu(checked, monkeypatch):
    """Triton's check of it is computed, and its result is not looked at."""
    options = interpreter.interpreter_builder.options
    assert not options.sanitize_overflow and not options.debug
    there = replace(options, sanitize_overflow=checked)
    monkeypatch.setattr(interpreter.interpreter_builder, "options", there)
    x = torch.tensor([3, -5, 100_000, 2**31 - 1], dtype=torch.int32)
    out = torch.zeros_like(x)
    squared_kernel[(1,)](x, out)
    assert torch.equal(out, x * x)


def test_a_check_that_counts_is_kept(monkeypatch):
    builder = interpreter.interpreter_builder
    debug = replace(builder.options, debug=True, sanitize_overflow=True)
    monkeypatch.setattr(builder, "options", debug)
    speed_up()
    assert builder.options is debug
    x = torch.tensor([3, -5, 100_000, 2**31 - 1], dtype=torch.int32)
    with pytest.raises(interpreter.InterpreterError, match="overflow"):
        squared_kernel[(1,)](x, torch.zeros_like(x))
