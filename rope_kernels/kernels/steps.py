"""Rotation in the steps of PyTorch's operators, each rounded: the bits of a model's own function.

No multiply-add is fused: the plan tells the compiler so. `turn` is what rotates without such steps.
"""

import triton
import triton.language as tl


@triton.jit
def turn_in_steps(
    x1,
    x2,
    cos_sin,
    TRANSPOSE: tl.constexpr,
    INVERSE: tl.constexpr,
    STORED: tl.constexpr,  # the dtype of the results
    steps: tl.constexpr,
):
    """As `turn`: products, then a sum and a difference, which are rounded."""
    cos1, sin1, cos2, sin2 = cos_sin
    of_cos1 = product(x1, cos1, STORED, steps)
    of_cos2 = product(x2, cos2, STORED, steps)
    if TRANSPOSE:
        sin1, sin2 = sin2, sin1
    of_sin1 = product(x2, sin1, STORED, steps)
    of_sin2 = product(x1, sin2, STORED, steps)
    BACK: tl.constexpr = TRANSPOSE != INVERSE
    if BACK:
        y1, y2 = of_cos1 + of_sin1, of_cos2 - of_sin2
    else:
        y1, y2 = of_cos1 - of_sin1, of_cos2 + of_sin2
    return y1.to(STORED), y2.to(STORED)


@triton.jit
def product(x, factor, STORED: tl.constexpr, steps: tl.constexpr):
    """x * factor in the dtype of the factor, fp32 or fp64, or rounded to STORED."""
    if steps.rounds_cos_sin:
        factor = factor.to(STORED).to(factor.dtype)
    found = x.to(factor.dtype) * factor
    if steps.rounds_products:
        found = found.to(STORED).to(factor.dtype)
    return found
