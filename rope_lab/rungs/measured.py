"""What is measured of the climb: every rung between eager and a copy, and a reader's own."""

import os
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, reference, rope_fw

from ..records import QUIET, recorded
from ..timing import measure
from . import RUNGS, SHAPE

KEY = "09/rungs"  # of the record
EAGER, PACKAGE, COPY = "eager", "package", "copy"


def headline(device: str = "cuda", dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor]:
    """Random elements of the headline shape, and the table of their fp32 angles."""
    s, _, _, d = SHAPE
    t = torch.randn(SHAPE, device=device, dtype=dtype)
    return t, RotaryPositionEmbedding(d).to(device)(s)


def make_cases(device: str = "cuda") -> dict[str, Callable[[], object]]:
    """The cases for `lab.bench`: a copy, eager PyTorch, rungs 1 to 7, and the package's kernel.

    All of them rotate the same bf16 tensor by the same table of fp32 angles.
    """
    t, freqs = headline(device)
    out = torch.empty_like(t)
    cases = {COPY: partial(out.copy_, t), EAGER: partial(reference.apply_rotary_pos_emb, t, freqs)}
    for number, rung in RUNGS.items():
        cases[f"rung {number}"] = partial(rung.module.my_rope, t, freqs)
    return cases | {PACKAGE: partial(rope_fw, t, freqs)}


def speed_of_ours(rung: int) -> str:
    """'our kernel takes 70.8 us, 95 % of a copy; recorded on NVIDIA H200, ...'."""
    times = recorded(KEY)
    us, copy = times[f"rung {rung}"].median_us, times[COPY].median_us
    return f"our kernel takes {us:.0f} us, {copy / us:.0%} of a copy ({times.gpu}, {times.date})"


def speed_here(candidate: Callable, explained_by: str = "") -> str:
    """The reader's own kernel on this machine's GPU; '' where there is none or none may be named.

    Args:
        candidate: takes t and freqs; it is compared with a copy of t.
        explained_by: the instrument that misses its target.
    """
    if QUIET in os.environ or not torch.cuda.is_available():
        return ""
    t, freqs = headline()
    out = torch.empty_like(t)
    times = measure({COPY: partial(out.copy_, t), "yours": partial(candidate, t, freqs)})
    us, copy = times["yours"].median_us, times[COPY].median_us
    words = f"yours takes {us:.0f} us here, {copy / us:.0%} of a copy"
    return words + (f"; what explains it: {explained_by}" if explained_by else "")
