"""Answer a launcher's queries about the GPU as the requested GPU would; it need not be present.

Some launchers start as many programs as there are SMs. On a CPU, PyTorch and Triton would report
one SM, or no GPU at all.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import CellType, FunctionType, SimpleNamespace
from unittest.mock import patch

import torch
from torch._subclasses import fake_tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from ...compiler.compile import SM_OF, target_of
from .limits import Gpu

_REGISTERS = 65_536  # of an SM
_COUNTS = "multi_processor_count", "multiprocessor_count"  # as PyTorch and Triton call the SMs


class Answers:
    """What is known about a GPU.

    Attributes:
        lacking: whether its number of SMs was queried, which isn't recorded.
    """

    def __init__(self, gpu: Gpu) -> None:
        backend, number, lanes = target_of(gpu.arch)
        self.gpu, self.lacking = gpu, False
        self.target = GPUTarget(backend, number, lanes)
        self.capability = divmod(number, 10)
        self.to_torch = {"name": gpu.name or gpu.arch, "warp_size": lanes}
        self.to_torch |= dict(zip(("major", "minor"), self.capability, strict=True))
        self.to_triton = {"warpSize": lanes, "max_num_regs": _REGISTERS}
        if sm := SM_OF.get(gpu.arch):
            self.to_torch |= {
                "max_threads_per_multi_processor": lanes * sm.warps,
                "regs_per_multiprocessor": _REGISTERS,
                "shared_memory_per_multiprocessor": sm.shared,
                "shared_memory_per_block_optin": sm.shared - sm.reserved,
            }
            self.to_triton["max_shared_mem"] = sm.shared - sm.reserved
        if gpu.multiprocessors:
            self.to_torch["multi_processor_count"] = gpu.multiprocessors
            self.to_triton["multiprocessor_count"] = gpu.multiprocessors

    def unknown(self, name: str) -> str:
        """The error for an unknown property; sets `lacking` for the number of SMs."""
        self.lacking |= name in _COUNTS
        return f"no record of {self.gpu.arch} says its {name}"


class _ToTorch(SimpleNamespace):
    """The device properties that PyTorch returns."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(**answers.to_torch)
        self._answers = answers

    def __getattr__(self, name: str) -> object:
        raise AttributeError(self._answers.unknown(name))


class _ToTriton(dict):
    """The device properties that Triton returns."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers.to_triton)
        self._answers = answers

    def __missing__(self, name: str) -> object:
        raise KeyError(self._answers.unknown(name))


@contextmanager
def answering_as(gpu: Gpu, launcher: Callable) -> Iterator[Answers]:
    """Make PyTorch and Triton describe this GPU to a launcher, even if it caches answers."""
    answers = Answers(gpu)
    to_torch, to_triton = _ToTorch(answers), _ToTriton(answers)
    described = SimpleNamespace(
        utils=SimpleNamespace(get_device_properties=lambda device: to_triton),
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: answers.target,
        get_active_torch_device=lambda: torch.device("cuda", 0),
    )
    had = dict(vars(driver))
    with ExitStack() as stack:
        for name, answer in {
            "get_device_properties": lambda device=None: to_torch,
            "get_device_capability": lambda device=None: answers.capability,
            "get_device_name": lambda device=None: to_torch.name,
            "current_device": lambda: 0,
            "device_count": lambda: 1,
            "device": lambda device: nullcontext(),
        }.items():
            stack.enter_context(patch.object(torch.cuda, name, answer))
        driver.set_active(described)
        stack.callback(vars(driver).update, had)
        _forget(launcher)
        stack.callback(_forget, launcher)
        yield answers


@contextmanager
def on_a_gpu_without_memory() -> Iterator[None]:
    """Make tensors on a GPU that have no memory: they only claim to be there."""
    with fake_tensor.FakeTensorMode(), ExitStack() as stack:
        if not torch.cuda.is_available():
            stack.enter_context(patch.object(torch.cuda, "is_available", lambda: True))
            stack.enter_context(patch.object(fake_tensor, "init_gpu_context", lambda device: None))
        yield


def _forget(launcher: Callable) -> None:
    """Clear the caches of a launcher and of what it calls: `functools.cache` keeps answers."""
    seen, todo = set(), [launcher]
    while todo:
        one = todo.pop()
        if hasattr(one, "cache_clear"):
            one.cache_clear()
        one = getattr(one, "func", one)  # of a partial
        one = getattr(one, "__wrapped__", one)
        if isinstance(one, FunctionType) and one not in seen and _is_a_readers(one):
            seen.add(one)
            filled = [cell for cell in one.__closure__ or () if cell != CellType()]
            names = one.__code__.co_names
            todo += [cell.cell_contents for cell in filled]
            todo += [one.__globals__[name] for name in names if name in one.__globals__]


def _is_a_readers(function: FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] not in ("torch", "triton", "numpy")
