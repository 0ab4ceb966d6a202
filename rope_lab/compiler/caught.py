"""Launches that are planned as for a GPU, and not made."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch

from rope_kernels.launch import fastpath, kernel_plans, launch
from rope_kernels.launch.plan import BackwardTensors, ForwardTensors, Plan, RopeTensors, SumTensors
from rope_kernels.machine.engine import Engine

Launch = tuple[Plan, RopeTensors | ForwardTensors | BackwardTensors | SumTensors]
_LOCK = threading.Lock()


@contextmanager
def caught(engine: Engine) -> Iterator[list[Launch]]:
    """Plan every launch of `rope_kernels.launch` for this engine: the plan, the kernel's tensors.

    Results are allocated where the tensors are, the meta device too; nothing is written to them.
    """
    found: list[Launch] = []
    with (
        _LOCK,
        torch.no_grad(),
        patch.object(launch, "run", lambda *planned: found.append(planned)),
        patch.object(kernel_plans, "engine_of", lambda t: engine),
        patch.object(fastpath, "ENABLED", False),  # it remembers what was launched before
    ):
        yield found
