"""The child process of `inspect.py` that measures a function on the GPU.

If its offsets couldn't be checked, they may leave their tensor: then all further CUDA calls of the
process fail. So it isn't the notebook's process.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from ...timing import measure
from .small_sizes import Inspect


def start(folder: Path) -> None:
    """Nothing to prepare: the settings of the judge's child would affect the measurement."""


def answer(job: Inspect, folder: Path, tell: Callable[[str], None]) -> dict:
    """Microseconds, `us`, of a job's `function` on the inputs that `make` creates for `large`."""
    function, make = (one.load(folder, "candidate") for one in (job.function, job.make))
    torch.manual_seed(0)
    call = partial(function, *make(job.large, "cuda"))
    us = measure({"yours": call})["yours"].median_us
    del call
    torch.cuda.empty_cache()  # this process stays alive, and the notebook needs the GPU's memory
    return {"us": us}
