"""Calls of the package, and their launches, that are caught before anything is computed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch

from rope_kernels import api
from rope_kernels.call.arguments import Call
from rope_kernels.launch import fastpath, kernel_plans, launch
from rope_kernels.launch.plan import BackwardTensors, ForwardTensors, Plan, RopeTensors, SumTensors
from rope_kernels.machine.engine import Engine

Launch = tuple[Plan, RopeTensors | ForwardTensors | BackwardTensors | SumTensors]
_LOCK = threading.Lock()


def call_of(known: tuple[Callable, ...], function: Callable, *arguments, **options) -> Call:
    """The `Call` that a public function makes of its arguments.

    Raises:
        TypeError: a function that is not among the known ones, or arguments that it does not take.
    """
    if function not in known:
        accepted = ", ".join(one.__name__ for one in known)
        raise TypeError(f"function is {function!r}; accepted: {accepted}")
    calls: list[Call] = []
    with _LOCK, patch.object(api, "rotate_call", lambda call: calls.append(call) or call.tensors):
        function(*arguments, **options)
    return calls[0]


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
