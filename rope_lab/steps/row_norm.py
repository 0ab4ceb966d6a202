"""RMSNorm, a row to a program: the sum of notebook 07, and its times. Importing it loads Triton."""

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..timing import measure

LENGTHS = 1000, 4096  # elements of a row
WARPS = 1, 2, 4, 8, 16  # of a program
ELEMENTS = 2**26  # of x, as in the headline


@triton.jit
def rms_norm_kernel(
    x_ptr,  # input (n, d), contiguous
    weight_ptr,  # (d,)
    out_ptr,  # output like x
    D: tl.constexpr,  # d, elements of a row
    BLOCK: tl.constexpr,  # D rounded up to a power of two
):
    column = tl.arange(0, BLOCK)
    exists = column < D
    offset = tl.program_id(0) * D + column
    x = tl.load(x_ptr + offset, mask=exists, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + column, mask=exists)
    r = tl.rsqrt(tl.sum(x * x) / D + 1e-6)
    tl.store(out_ptr + offset, x * r * weight, mask=exists)


def rms_norm(x: Tensor, weight: Tensor, num_warps: int | None = None) -> Tensor:
    """Each row of x (n, d), contiguous, over the root of its mean square, times weight (d,)."""
    out, (n, d) = torch.empty_like(x), x.shape
    block = triton.next_power_of_2(d)
    if num_warps is None:
        num_warps = max(1, block // 1024)  # 32 elements a lane
    rms_norm_kernel[(n,)](x, weight, out, D=d, BLOCK=block, num_warps=num_warps)
    return out


def rows(length: int, device: str = "cuda") -> tuple[Tensor, Tensor]:
    """x of some 128 MiB in bf16, and weights."""
    x = torch.empty(ELEMENTS // length, length, dtype=torch.bfloat16, device=device)
    weight = torch.empty(length, dtype=torch.bfloat16, device=device)
    return (x, weight) if device == "meta" else (x.normal_(), weight.normal_())


def norms_of_rows() -> dict:
    """Microseconds of a copy, and of `rms_norm` with each number of warps, for each length."""
    found = {"warps": list(WARPS)}
    for length in LENGTHS:
        x, weight = rows(length)
        out = torch.empty_like(x)
        cases = {str(k): partial(rms_norm, x, weight, k) for k in WARPS}
        times = measure(cases | {"copy": partial(out.copy_, x)}, rounds=3)
        found[f"{length}"] = [times[str(k)].median_us for k in WARPS]
        found[f"copy of {length}"] = times["copy"].median_us
    return found
