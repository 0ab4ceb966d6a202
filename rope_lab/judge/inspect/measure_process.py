"""The child process of `inspect.py` that measures a function on the GPU.

What isn't known of its offsets may be that they leave their tensor: a GPU then refuses all further
calls of the process. So it is none of the notebook's.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from ...timing import measure
from .small_sizes import Inspect


def start(folder: Path) -> None:
    """Nothing to get ready: what the judge's child sets would be measured, too."""


def answer(job: Inspect, folder: Path, tell: Callable[[str], None]) -> dict:
    """Microseconds, `us`, of a job's `function` on what its `make` makes of `large`."""
    function, make = (one.load(folder, "candidate") for one in (job.function, job.make))
    torch.manual_seed(0)
    call = partial(function, *make(job.large, "cuda"))
    us = measure({"yours": call})["yours"].median_us
    del call
    torch.cuda.empty_cache()  # this process stays, and the notebook has the GPU's memory
    return {"us": us}
