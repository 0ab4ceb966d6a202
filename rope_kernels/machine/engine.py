"""Which engine runs the kernel: compiled, interpreted or neither. Asked without loading Triton."""

import importlib.util
import os
import warnings
from enum import Enum

import torch
from torch import Tensor


class Engine(Enum):
    """What runs a Triton kernel."""

    NVIDIA = "compiled for an NVIDIA GPU"
    AMD = "compiled for an AMD GPU"
    INTERPRETED = "interpreted on the CPU"
    NONE = "plain PyTorch"


def runs_in_triton(t: Tensor) -> bool:
    """Whether an engine takes `t`: a GPU has the compiler, a CPU the interpreter if it is on."""
    if t.is_cuda and not _HAS_TRITON:
        warnings.warn("Triton is not installed: RoPE runs in plain PyTorch, slowly", stacklevel=5)
    return _HAS_TRITON and (t.is_cuda or (t.is_cpu and interpreter_is_on()))


def engine_of(t: Tensor) -> Engine:
    """The engine that takes `t`."""
    if not runs_in_triton(t):
        return Engine.NONE
    if interpreter_is_on():
        return Engine.INTERPRETED
    return Engine.NVIDIA if torch.version.hip is None else Engine.AMD


def interpreter_is_on() -> bool:
    """Whether this process runs Triton kernels in Triton's interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on", "y")


def triton_is_installed() -> bool:
    """Whether Triton can be imported. Asked without importing it."""
    try:
        return importlib.util.find_spec("triton") is not None
    except ValueError:  # a stand-in without a spec, as some test suites plant
        return False


_HAS_TRITON = triton_is_installed()
