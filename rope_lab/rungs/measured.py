"""Measurements of the climb: every rung, eager PyTorch, a copy, and a reader's kernel."""

import os
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, reference

from ..records import QUIET, recorded
from ..timing import measure
from . import RUNGS, SHAPE

KEY = "09/rungs"  # of the record
EAGER, COPY = "eager", "copy"


def headline_tensors(
    device: str = "cuda", dtype: torch.dtype = torch.bfloat16
) -> tuple[Tensor, Tensor]:
    """Random elements of the headline shape, and the table of their fp32 angles."""
    s, _, _, d = SHAPE
    t = torch.randn(SHAPE, device=device, dtype=dtype)
    return t, RotaryPositionEmbedding(d).to(device)(s)


def beside_a_copy(
    rotations: dict[str, Callable], device: str = "cuda", dtype: torch.dtype = torch.bfloat16
) -> dict[str, Callable[[], object]]:
    """Cases for `lab.bench`: a copy, and functions of the same elements and angles."""
    t, freqs = headline_tensors(device, dtype)
    cases = {COPY: partial(torch.empty_like(t).copy_, t)}
    return cases | {name: partial(rotate, t, freqs) for name, rotate in rotations.items()}


def make_cases(device: str = "cuda") -> dict[str, Callable[[], object]]:
    """A copy, eager PyTorch, and rungs 1 to 7."""
    rungs = {f"rung {number}": rung.module.my_rope for number, rung in RUNGS.items()}
    return beside_a_copy({EAGER: reference.apply_rotary_pos_emb} | rungs, device)


def speed_of_ours(rung: int) -> str:
    """'our kernel for rung 3 takes 84 us, 76% of a copy (NVIDIA H200, ...)'."""
    times = recorded(KEY)
    us, copy = times[f"rung {rung}"].median_us, times[COPY].median_us
    words = f"our kernel for rung {rung} takes {us:.0f} us, {copy / us:.0%} of a copy"
    return f"{words} ({times.gpu}, {times.date})"


def speed_here(candidate: Callable, explained_by: str = "") -> str:
    """The reader's own kernel on this GPU; '' without a GPU, or if outputs are compared.

    Args:
        candidate: takes t and freqs; it is compared with a copy of t.
        explained_by: the instrument that misses its target.
    """
    if QUIET in os.environ or not torch.cuda.is_available():
        return ""
    times = measure(beside_a_copy({"yours": candidate}))
    us, copy = times["yours"].median_us, times[COPY].median_us
    words = f"yours takes {us:.0f} us here, {copy / us:.0%} of a copy"
    return words + (f"; what explains it: {explained_by}" if explained_by else "")
