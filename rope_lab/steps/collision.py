"""Two races, to be run under compute-sanitizer: notebook 10, section 3.

    compute-sanitizer --tool racecheck python -m rope_lab.steps.collision
    compute-sanitizer --tool racecheck python -m rope_lab.steps.collision staged

The first launches the notebook's kernel, whose race is in HBM. The second launches a CUDA kernel
with the race that racecheck is made for: it stages a row in shared memory and forgets the barrier.
"""

import sys

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding
from rope_kernels.reference import apply_rotary_pos_emb

from ..rungs.rows import launch
from ..rungs.rung_2_row import my_rope_kernel
from .fixed import changed

SHAPE = (64, 1, 8, 96)  # s, b, h, d; half of 96 is no power of two


FIRST_STORE = "tl.store(out_ptr + offset, x1 * tl.cos(angle1) - x2 * tl.sin(angle1)"
# rung 2 without the mask of its first store
unmasked_row_kernel = changed(
    my_rope_kernel, "unmasked_row_kernel", (f"{FIRST_STORE}, mask=exists)", f"{FIRST_STORE})")
)


def unmasked_row(t: Tensor, freqs: Tensor, num_warps: int = 4) -> Tensor:
    return launch(unmasked_row_kernel, t, freqs, num_warps=num_warps)


STAGED = """
extern "C" __global__ void staged_row(const float* t, const float* angle, float* out) {
    __shared__ float x[96];
    const int i = threadIdx.x, partner = i < 48 ? i + 48 : i - 48;
    x[i] = t[96 * blockIdx.x + i];
    // here __syncthreads() is missing
    const float other = i < 48 ? -x[partner] : x[partner], a = angle[96 * blockIdx.x + i];
    out[96 * blockIdx.x + i] = x[i] * cosf(a) + other * sinf(a);
}
"""


def staged_row(t: Tensor, angles: Tensor) -> Tensor:
    """Rotate rows of 96 elements, each with its own angles, by CUDA threads that share them."""
    kernel, out = torch.cuda._compile_kernel(STAGED, "staged_row"), torch.empty_like(t)
    kernel((t.numel() // 96, 1, 1), (96, 1, 1), [t, angles, out])
    return out


def main() -> None:
    """Launch once, and say how many elements are wrong."""
    t, freqs = torch.randn(SHAPE), RotaryPositionEmbedding(SHAPE[-1])(SHAPE[0])
    expected = apply_rotary_pos_emb(t, freqs)  # on the CPU: the sanitizer sees one kernel
    if "staged" in sys.argv:
        got = staged_row(t.cuda(), freqs.expand(SHAPE).contiguous().cuda())
    else:
        got = unmasked_row(t.cuda(), freqs.cuda())
    wrong = (got.cpu() - expected).abs() > 1e-4
    print(f"wrong: {int(wrong.sum())} of {t.numel()} elements")


if __name__ == "__main__":
    main()
