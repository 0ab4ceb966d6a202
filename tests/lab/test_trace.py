"""What the judge counts while a candidate runs, and where an address outside leads."""

from types import SimpleNamespace

import pytest
import torch

from rope_lab.judge import counts
from rope_lab.judge.trace import Trace

pytest.importorskip("triton", reason="needs Triton")

import triton
import triton.language as tl

# A trace follows Triton's interpreter.
interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled there")


@triton.jit
def cosines_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    undefined, zeros = tl.load(x_ptr + i, i < n), tl.load(x_ptr + i, i < n, other=0.0)
    tl.store(out_ptr + i, tl.cos(undefined) + tl.cos(zeros), i < n)


@interpreted
def test_angles_where_a_mask_is_off_are_not_counted():
    x, out = torch.arange(1.0, 17), torch.empty(16)
    with Trace() as trace:
        cosines_kernel[(1,)](x, out, 7, BLOCK=16)
    assert trace.evaluations["cos"] == 2 * 7


@triton.jit
def far_kernel(x_ptr, out_ptr, i, THROUGH: tl.constexpr):
    """Store far behind out_ptr, near the end of another tensor."""
    one = tl.arange(0, 1)
    if THROUGH == "a number":
        tl.store(out_ptr + i, 1.0)
    elif THROUGH == "a block":
        tl.store(out_ptr + i + one[:, None] + one[None, :], 1.0)
    elif THROUGH == "a block that becomes a row":
        tl.store((out_ptr + one)[None, :] + i, 1.0)
    elif THROUGH == "a block pointer":
        tl.store(
            tl.make_block_ptr(out_ptr, (1,), (1,), (i,), (1,), (0,)), tl.full((1,), 1.0, tl.float32)
        )
    else:  # a choice, and nothing is known
        tl.store(tl.where(i == i, out_ptr, x_ptr) + i, 1.0)


@interpreted
@pytest.mark.parametrize(
    "through", ("a number", "a block", "a block that becomes a row", "a block pointer", "a choice")
)
def test_an_address_outside_is_told_of_the_pointer_that_was_used(through):
    out, x = torch.zeros(8), torch.zeros(8)
    i = (x.data_ptr() - out.data_ptr()) // 4 + 9
    with pytest.raises(Exception, match=r"element -?\d+ of ") as error, Trace():
        far_kernel[(1,)](x, out, i, THROUGH=through)
    told = "element 9 of x_ptr" if through == "a choice" else f"element {i} of out_ptr"
    assert told in str(error.value)


@triton.jit
def unmasked_store_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n).to(tl.float32))


@interpreted
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
def test_what_a_mask_leaves_undefined_is_nan_in_every_float_dtype(dtype):
    """A large number instead would look like arithmetic that went wrong."""
    x, out = torch.ones(16, dtype=dtype), torch.zeros(16)
    with Trace():
        unmasked_store_kernel[(1,)](x, out, 7, BLOCK=16)
    assert out.isnan().tolist() == [False] * 7 + [True] * 9


@pytest.mark.parametrize("sines, cosines", ((33, 32), (32, 33)))
def test_an_angle_of_half_a_table_is_evaluated_once(sines, cosines):
    inputs = {"t": torch.zeros(2, 32), "freqs": torch.zeros(2, 32)}
    for sin, cos, begin in ((32, 32, ""), (sines, cosines, f"it evaluates {sines} sines and ")):
        trace = SimpleNamespace(memories=[], evaluations={"sin": sin, "cos": cos})
        found = counts.more_than_half_the_table(trace, **inputs)
        assert found.startswith(begin) and bool(found) == bool(begin)
