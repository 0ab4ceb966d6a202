"""How fast a rung is: ours by the record, a reader's own on the GPU that is here."""

import os
from collections.abc import Callable
from functools import partial

import torch

from ..records import QUIET, recorded
from ..timing import measure
from .measured import COPY, KEY, headline


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
