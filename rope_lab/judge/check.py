"""Is a candidate right? If not, the verdict says where the first wrong element is.

A verdict reads the same on every engine when the candidate is right; when it is wrong it names the
first wrong index, so that a reader knows where to look.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from .verdict import RIGHT, WRONG, Comparison, Verdict

# One rounding at the end, some fp32 arithmetic before it: off by at most one 16-bit number.
_TOLERANCE = {  # dtype: (relative, absolute, as a share of the largest value expected)
    torch.float64: (1e-12, 1e-12),
    torch.float32: (2e-6, 2e-6),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (8e-3, 1e-5),
}


def check(
    candidate: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    *inputs: object,
    tolerance: tuple[float, float] | None = None,
) -> Verdict:
    """Run a candidate and a reference on the same inputs and compare their results.

    `check_exercise.py` makes the inputs itself, from an exercise's specification.

    Args:
        candidate: the function to check. It gets copies of the tensors, with the same strides.
        reference: a function with the right results and the same arguments.
        inputs: the arguments of both.
        tolerance: (relative, absolute); by default one rounding of the dtype.

    Returns:
        A `Verdict`, true if all is right. An input that the candidate overwrote makes it wrong.
    """
    given = [clone(value) for value in inputs]
    got = candidate(*given)
    verdict = compare(got, reference(*inputs), tolerance)
    for number, (before, after) in enumerate(zip(inputs, given, strict=True)):
        if isinstance(before, Tensor) and not compare(after, before, (0.0, 0.0)):
            return replace(verdict, state=WRONG, reason=f"input {number} was overwritten")
    return verdict


def compare(got: Tensor, expected: Tensor, tolerance: tuple[float, float] | None = None) -> Verdict:
    """Compare a result with what was expected, element by element, on the CPU in fp64.

    Args:
        got, expected: tensors of any device; shape and dtype must agree. NaN equals NaN.
        tolerance: (relative, absolute); by default one rounding of the dtype.
    """
    if not isinstance(got, Tensor):
        what = got if got is None else f"an object of type {type(got).__name__}"
        return Verdict(state=WRONG, reason=f"no tensor came back but {what}")
    shape, dtype = tuple(got.shape), str(got.dtype).removeprefix("torch.")
    compared = Comparison(shape=shape, dtype=dtype)
    if got.shape != expected.shape:
        reason = f"shape {shape}, expected {tuple(expected.shape)}"
        return Verdict(state=WRONG, reason=reason, compared=compared)
    if got.dtype != expected.dtype:
        reason = f"dtype {dtype}, expected {str(expected.dtype).removeprefix('torch.')}"
        return Verdict(state=WRONG, reason=reason, compared=compared)
    right = is_right(got, expected, tolerance)
    got, expected = _exact(got), _exact(expected)
    # where both are NaN or the same infinity there is no error, though their difference is NaN
    error = (got - expected).abs().masked_fill(right & ~expected.isfinite(), 0.0)
    largest = float("nan") if error.isnan().any() else float(error.max()) if error.numel() else 0.0
    compared = replace(compared, largest_error=largest)
    values = f"{right.numel()} values, shape {shape}, {dtype}"
    if right.all():
        return Verdict(state=RIGHT, reason=values, compared=compared)
    first = tuple((~right).nonzero()[0].tolist())
    compared = replace(
        compared,
        wrong=int((~right).sum()),
        first_wrong_index=first,
        got=got[first].item(),
        expected=expected[first].item(),
    )
    reason = (
        f"{compared.wrong} of {values}; first at index {first}: got {compared.got:.4g}, "
        f"expected {compared.expected:.4g}; largest error {largest:.2g}"
    )
    return Verdict(state=WRONG, reason=reason, compared=compared)


def is_right(got: Tensor, expected: Tensor, tolerance: tuple[float, float] | None = None) -> Tensor:
    """Which elements are right, on the CPU; shapes and dtypes agree. As `compare` decides."""
    relative, absolute = tolerance or _TOLERANCE.get(got.dtype, (0.0, 0.0))
    got, expected = _exact(got), _exact(expected)
    if tolerance is None:
        finite = expected[expected.isfinite()].abs()
        absolute *= float(finite.max()) if finite.numel() else 1.0
    return torch.isclose(got, expected, rtol=relative, atol=absolute, equal_nan=True)


def _exact(x: Tensor) -> Tensor:
    return x.detach().cpu().to(torch.complex128 if x.is_complex() else torch.float64)


def clone(value: object) -> object:
    if not isinstance(value, Tensor):
        return value
    # the memory between the elements is copied too: a wrong candidate may read it
    steps = ((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    extent = 1 + sum(steps) if value.numel() else 0
    memory = value.detach().as_strided((extent,), (1,)).clone()
    return memory.as_strided(value.shape, value.stride())
