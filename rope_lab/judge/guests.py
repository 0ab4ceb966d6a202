"""A reader's function is a guest of this process: it ends in time, and leaves it as it was.

It may change what later cells depend on, as by `torch.set_default_dtype`. That is put back after
each call. What it does to its notebook's own names, or to PyTorch's functions, stays, as if a cell
had called it. What ends a process, as `os._exit` does, ends the notebook's.
"""

import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from unittest.mock import patch

import numpy as np
import torch
from torch import overrides
from torch.utils._python_dispatch import _disable_current_modes

import rope_lab

from ..run import ONE_AT_A_TIME, Now

MAX_PRINTED = 4000  # characters of what a candidate prints
SECONDS = 30.0  # the most that a call may take; our slowest kernel took 1.3
MEMORY = 2**31  # the most bytes that a call on a CPU may take, tensors or not; only on Linux
_ALLOCATION = "triton.runtime._allocation"  # loaded only if there is Triton
_BUSY = 4  # times as long it may take where other processes are busy, or where it waits
_AGAIN = 0.5  # seconds until a guest is ended again: it may catch everything


class TookTooLong(BaseException):
    """A guest did not come to an end. (`except Exception` doesn't catch it.)"""

    def __str__(self) -> str:
        return f"ran for {SECONDS:.0f} seconds without finishing"


@contextmanager
def settled() -> Iterator[None]:
    """Judge in this context, whatever its cells have set; then all is as it was.

    Other threads that launch, compile or judge wait: all of this process is set for one. So a
    backward on a GPU runs in this thread, too: PyTorch's own would wait for it without an end.
    """
    with (
        ONE_AT_A_TIME,
        _put_back(),
        warnings.catch_warnings(),
        torch.autograd.set_multithreading_enabled(False),
    ):
        torch.set_num_threads(1)
        # New memory holds NaN: what a candidate does not write cannot pass for right.
        # `torch.use_deterministic_algorithms` would load PyTorch's compiler, too: a second.
        torch.set_deterministic_debug_mode("warn")
        warnings.simplefilter("ignore")  # also NumPy's, which the interpreter computes with
        Now.warns = False  # a check interprets on purpose
        yield


@contextmanager
def a_guest(device: str = "cpu") -> Iterator[None]:
    """Run a reader's function in this context, on tensors on a device.

    Raises:
        TookTooLong: it took longer than `SECONDS`. Only the main thread of a system with POSIX's
            signals can be told; elsewhere a reader interrupts it, as any cell.
        MemoryError, RuntimeError: it asked for more than `MEMORY`.
    """
    with ExitStack() as stack:
        stack.enter_context(settled())
        stack.enter_context(_nothing_is_compiled())
        if device == "cpu":
            stack.enter_context(_in_limited_memory())
        stack.enter_context(_ends_within(SECONDS))
        yield


@contextmanager
def device_of_the_lab(device: str, function: Callable) -> Iterator[None]:
    """Let `lab.device`, and its notebook's `device = lab.device`, be this device."""
    names = getattr(getattr(function, "func", function), "__globals__", {})
    known = str(rope_lab.device)
    own = {
        name: x
        for name, x in names.items()
        if isinstance(x, str | torch.device) and str(x) == known
    }
    with patch.object(rope_lab, "device", device):
        names |= dict.fromkeys(own, device)
        try:
            yield
        finally:
            names |= own


@contextmanager
def _ends_within(seconds: float) -> Iterator[None]:
    is_main = threading.current_thread() is threading.main_thread()
    if sys.platform == "win32" or not is_main:
        yield
        return

    begin, computed = time.monotonic(), time.thread_time()
    told = False

    def end(_: int, frame: FrameType | None) -> None:
        nonlocal told
        waited = time.monotonic() - begin
        if time.thread_time() - computed < seconds and waited < _BUSY * seconds:
            return  # others have used the processor
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return  # half of a module would stay; the alarm comes again
            frame = frame.f_back
        told = True
        raise TookTooLong

    own = signal.signal(signal.SIGALRM, end)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
        if told:  # it has caught that, and gone on
            raise TookTooLong
    except Exception as error:
        if told:
            raise TookTooLong from error  # what it made of it
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, own)
        if left:  # another one's timer
            left = max(1e-3, left - (time.monotonic() - begin))
            signal.setitimer(signal.ITIMER_REAL, left, interval)


@contextmanager
def _in_limited_memory() -> Iterator[None]:
    """Let allocations fail before the system ends the notebook. (macOS ignores this limit.)"""
    if sys.platform != "linux":
        yield
        return
    import resource

    if torch.cuda.is_available():
        torch.cuda.init()  # which reserves more than the limit
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    most = pages * resource.getpagesize() + MEMORY
    own, highest = resource.getrlimit(resource.RLIMIT_AS)
    soft = most if own == resource.RLIM_INFINITY else min(own, most)
    resource.setrlimit(resource.RLIMIT_AS, (soft, highest))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (own, highest))


@contextmanager
def _nothing_is_compiled() -> Iterator[None]:
    """A candidate that calls torch.compile runs as it is: its operations are watched one by one."""
    if "torch._dynamo" in sys.modules:
        with torch.compiler.set_stance("force_eager"):
            yield
        return

    def as_it_is(model: Callable | None = None, **_: object) -> Callable:
        return as_it_is if model is None else model

    with patch.object(torch, "compile", as_it_is):
        yield


# What a guest may have changed: how it is asked for, and how it is set


def _set_items(names: dict, value: dict) -> None:
    for name in names.keys() - value.keys():
        del names[name]
    names.update(value)


_KEYS = [*torch._C._TorchDispatchModeKey.__members__.values()]


def _modes() -> tuple:
    """The dispatch modes of this thread: those with a place of their own, and how many in all."""
    own = tuple(torch._C._get_dispatch_mode(key) for key in _KEYS)
    return own, torch._C._len_torch_dispatch_stack()


def _leave_modes(before: tuple) -> None:
    for key, mode, own in zip(_KEYS, _modes()[0], before[0], strict=True):
        if mode is not own is None:
            torch._C._unset_dispatch_mode(key)
    while torch._C._len_torch_dispatch_stack() > before[1]:
        torch._C._pop_torch_dispatch_stack(None)


def _leave_function_modes(count: int) -> None:
    while torch._C._len_torch_function_stack() > count:
        overrides._pop_mode()


def _allocator() -> Callable | None:
    """What gives memory to kernels with descriptors."""
    allocation = sys.modules.get(_ALLOCATION)
    return allocation and allocation._allocator.get()


def _set_allocator(value: Callable | None) -> None:
    allocation = sys.modules[_ALLOCATION]
    allocation.set_allocator(value or allocation.NullAllocator())


_SETTINGS: dict[str, tuple[Callable, Callable]] = {
    "the allocator": (_allocator, _set_allocator),
    "what is said": (lambda: Now.warns, lambda value: setattr(Now, "warns", value)),
    "deterministic": (
        torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode,
    ),
    "memory is filled": (
        lambda: torch.utils.deterministic.fill_uninitialized_memory,
        lambda value: setattr(torch.utils.deterministic, "fill_uninitialized_memory", value),
    ),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "anomalies": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "denormals": (
        lambda: float(torch.tensor(1e-40, device="cpu", dtype=torch.float32) * 1) == 0,
        torch.set_flush_denormal,
    ),
    "products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "random numbers": (torch.get_rng_state, torch.set_rng_state),
    "NumPy's": (np.random.get_state, np.random.set_state),
    "Python's": (random.getstate, random.setstate),
    "errors of NumPy": (np.geterr, lambda value: np.seterr(**value)),
    "the environment": (lambda: dict(os.environ), lambda value: _set_items(os.environ, value)),
    "the folder": (os.getcwd, os.chdir),
    "modules' folders": (
        lambda: [*sys.path],
        lambda value: sys.path.__setitem__(slice(None), value),
    ),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "function modes": (torch._C._len_torch_function_stack, _leave_function_modes),
    "the default device": (
        lambda: getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None),
        lambda value: torch.set_default_device(value and value.device),
    ),
}


@contextmanager
def _put_back() -> Iterator[None]:
    """Put back what is changed in this context: first what changes how the others are asked for."""
    modes = _modes()
    with _disable_current_modes():
        before = {name: ask() for name, (ask, _) in _SETTINGS.items()}
    try:
        yield
    finally:
        _leave_modes(modes)
        with _disable_current_modes():
            for name, (ask, put) in reversed(_SETTINGS.items()):
                if not _equal(ask(), before[name]):
                    put(before[name])


def _equal(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, tuple) and any(isinstance(x, np.ndarray) for x in one):
        return all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))
    return one == other
