"""Is a candidate right? A verdict that says where it first goes wrong.

A verdict reads the same on every engine when the candidate is right; when it is wrong it names the
first wrong index, so that a reader knows where to look.
"""

import html
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# One rounding at the end, some fp32 arithmetic before it; Triton's interpreter truncates to bf16.
_TOLERANCE = {  # dtype: (relative, absolute, as a share of the largest value expected)
    torch.float64: (1e-12, 1e-12),
    torch.float32: (2e-6, 2e-6),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (8e-3, 1e-5),
}


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison; false when something is wrong, so that it can be asserted."""

    ok: bool
    reason: str
    shape: tuple[int, ...]
    dtype: str
    largest_error: float = 0.0
    wrong: int = 0
    first_wrong_index: tuple[int, ...] | None = None

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return f"{'RIGHT' if self.ok else 'WRONG'}: {self.reason}"


def check(
    candidate: Callable[..., Tensor],
    spec: Callable[..., Tensor],
    *inputs: object,
    tolerance: tuple[float, float] | None = None,
    share_of_copy: float | None = None,
):
    """Run a candidate and its specification on the same inputs and compare their results.

    Args:
        candidate: the function under test. Gets clones of the tensors, with the same strides.
        spec: a function that is known to be right, with the same arguments.
        inputs: arguments for both. None at all: every case that follows from the shapes in the
            spec's signature, in a process of its own (see `judge.py`).
        tolerance: (relative, absolute); by default one rounding of the dtype.
        share_of_copy: without inputs: how fast it has to be, see `judge`.

    Returns:
        A `Verdict`, or without inputs a `Judgement`; both are true if all is right. An input that
        the candidate overwrote makes it wrong, too.
    """
    if not inputs:
        from .judge import judge

        return judge(candidate, spec, share_of_copy)
    given = [_clone(value) for value in inputs]
    got = candidate(*given)
    verdict = compare(got, spec(*inputs), tolerance)
    for number, (before, after) in enumerate(zip(inputs, given, strict=True)):
        if isinstance(before, Tensor) and not compare(after, before, (0.0, 0.0)):
            reason = f"input {number} was overwritten"
            return Verdict(False, reason, verdict.shape, verdict.dtype)
    return verdict


def compare(got: Tensor, expected: Tensor, tolerance: tuple[float, float] | None = None) -> Verdict:
    """Compare a result with what was expected, element by element, on the CPU in fp64.

    Args:
        got, expected: tensors of any device; shape and dtype must agree. NaN equals NaN.
        tolerance: (relative, absolute); by default one rounding of the dtype.
    """
    if not isinstance(got, Tensor):
        what = got if got is None else f"an object of type {type(got).__name__}"
        return Verdict(False, f"no tensor came back but {what}", (), "")
    shape, dtype = tuple(got.shape), str(got.dtype).removeprefix("torch.")
    if got.shape != expected.shape:
        return Verdict(False, f"shape {shape}, expected {tuple(expected.shape)}", shape, dtype)
    if got.dtype != expected.dtype:
        wanted = str(expected.dtype).removeprefix("torch.")
        return Verdict(False, f"dtype {dtype}, expected {wanted}", shape, dtype)
    exact = torch.complex128 if got.is_complex() else torch.float64
    relative, absolute = tolerance or _TOLERANCE.get(got.dtype, (0.0, 0.0))
    got, expected = got.detach().cpu().to(exact), expected.detach().cpu().to(exact)
    if tolerance is None:
        finite = expected[expected.isfinite()].abs()
        absolute *= float(finite.max()) if finite.numel() else 1.0
    right = torch.isclose(got, expected, rtol=relative, atol=absolute, equal_nan=True)
    # where both are NaN or the same infinity there is no error, though their difference is NaN
    error = (got - expected).abs().masked_fill(right & ~expected.isfinite(), 0.0)
    largest = float("nan") if error.isnan().any() else float(error.max()) if error.numel() else 0.0
    if right.all():
        reason = f"{right.numel()} values, shape {shape}, {dtype}"
        return Verdict(True, reason, shape, dtype, largest)
    first = tuple((~right).nonzero()[0].tolist())
    wrong = int((~right).sum())
    reason = (
        f"{wrong} of {right.numel()} values, shape {shape}, {dtype}; first at index {first}: "
        f"got {got[first]:.4g}, expected {expected[first]:.4g}; largest error {largest:.2g}"
    )
    return Verdict(False, reason, shape, dtype, largest, wrong, first)


def boxed(verdict: str, state: str) -> str:
    """A verdict for a page, with a green line beside it if it is 'right', red if 'wrong'."""
    color = {"right": "#009e73", "wrong": "#d55e00"}.get(state, "#e69f00")
    style = f"border-left: 4px solid {color}; padding-left: 0.8em; "
    style += "white-space: pre-wrap; word-break: normal"  # lines end between words
    classes = f"lab-verdict lab-{state.replace(' ', '-')}"
    return f'<pre class="{classes}" style="{style}">{html.escape(verdict)}</pre>'


def _clone(value: object) -> object:
    if not isinstance(value, Tensor):
        return value
    # the memory between the elements is copied too: a wrong candidate may read it
    steps = ((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    extent = 1 + sum(steps) if value.numel() else 0
    memory = value.detach().as_strided((extent,), (1,)).clone()
    return memory.as_strided(value.shape, value.stride())
