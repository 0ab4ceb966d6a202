"""Our changes to Triton's interpreter: the same results, with less work."""

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


@triton.jit
def doubled(x):
    return x + x


@triton.jit
def doubled_often_kernel(
    x_ptr,  # (4 * programs,)
    out_ptr,  # the same
    TIMES: tl.constexpr,  # how often it is doubled
    FAILS: tl.constexpr,  # raise an error before anything is stored
):
    i = 4 * tl.program_id(0) + tl.arange(0, 4)
    x = tl.load(x_ptr + i)
    for _ in range(TIMES):
        x = doubled(x)
    if FAILS:
        x = x + tl.arange(0, 8)
    tl.store(out_ptr + i, x)


def run(times, fails=False):
    x = torch.arange(12.0)
    out = torch.full((12,), float("nan"))
    doubled_often_kernel[(3,)](x, out, TIMES=times, FAILS=fails)
    assert torch.equal(out, x * 2**times)


def test_the_language_is_as_before():
    """After a launch and after an error, or the next kernel would not be interpreted right."""
    run(times=1)
    with pytest.raises(interpreter.InterpreterError):
        run(times=1, fails=True)
    assert tl.core.is_builtin(tl.load) and tl.core.is_builtin(tl.tensor.__add__)
    run(times=2)


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


@triton.jit
def every_kind_kernel(
    x_ptr,  # (4,)
    index_ptr,  # (8,) integers
    out_ptr,  # (8, 4)
    SIZE: tl.constexpr,  # 8
):
    row, column = tl.arange(0, SIZE), tl.arange(0, 4)
    x = tl.load(x_ptr + column)
    index = tl.load(index_ptr + row)
    sums = x[None, :] + (2 * index)[:, None]
    tl.static_assert(sums.shape[0] == 8 and sums.numel == 32)
    wider = tl.where((row % 2 == 0)[:, None], sums, tl.zeros((SIZE, 4), tl.float32))
    tl.store(out_ptr + row[:, None] * 4 + column[None, :], wider.to(out_ptr.dtype.element_ty))


@pytest.mark.parametrize(
    "dtype, index",
    (
        (torch.float16, torch.int8),
        (torch.bfloat16, torch.uint8),
        (torch.float32, torch.int32),
        (torch.float64, torch.int64),
    ),
)
def test_types_of_the_same_sizes_stay_apart(dtype, index):
    """Blocks of 4, 8 and (8, 4), of numbers, flags and pointers, one after the other."""
    x, i = torch.tensor([0.5, 1, -2, 3], dtype=dtype), torch.arange(8, dtype=index)
    out = torch.empty(8, 4, dtype=dtype)
    every_kind_kernel[(1,)](x, i, out, SIZE=8)
    want = x + 2 * i.to(dtype)[:, None]
    want[1::2] = 0
    assert torch.equal(out, want)
