"""The child process that judges: `worker.py` passes it jobs, which compute the answers.

A candidate may change the process, as by `torch.set_default_dtype`. Then even a right candidate
would be wrong there, so the next one gets a new process.
"""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from rope_kernels.paths import count_modes

from ..compiler.launches import interprets
from ..interpreter import run_as_compiled

MAX_PRINTED = 4000  # characters of what a candidate prints


def start(folder: Path) -> Callable[[], bool]:
    """Prepare this process, once; returns a check whether a candidate has changed it since."""
    # A candidate that calls torch.compile runs as it is: its operations are watched one by one.
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    settle()
    if interprets():
        run_as_compiled()
    before = settings()
    return lambda: settings() != before


def answer(job: object, folder: Path, tell: Callable[[str], None]) -> dict:
    """The answer of a job: a `TryOnCases`, an `Inspect` or a `Draw`.

    Only `machine` if this machine has no room for the check, on its disk or in memory. What a
    candidate raises is reported by the job.
    """
    try:
        return job.answer(folder, tell)
    except (OSError, MemoryError) as error:
        return {"machine": f"this machine stopped the check: {type(error).__name__}: {error}"}


def settle() -> None:
    """Restore settings before each case, because an earlier one may have changed them."""
    torch.set_num_threads(1)
    # New memory holds NaN: what a candidate does not write cannot pass for right.
    # `torch.use_deterministic_algorithms` would load PyTorch's compiler too, which takes a second.
    torch.set_deterministic_debug_mode("warn")


def settings() -> dict[str, object]:
    """What a candidate may have changed in this process."""
    return {
        "the default dtype": torch.get_default_dtype(),
        "the default device": torch.get_default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "memory is filled": torch.utils.deterministic.fill_uninitialized_memory,
        "threads": torch.get_num_threads(),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "anomalies": torch.is_anomaly_enabled(),
        "denormals": float(torch.tensor(1e-40, device="cpu") * 1),
        "modes": (count_modes(), torch._C._len_torch_function_stack()),
        "errors of NumPy": np.geterr(),
        "warnings are errors": any(action == "error" for action, *_ in warnings.filters),
        "the environment": dict(os.environ),
        "the folder": os.getcwd(),
    }
