"""What PyTorch does with a call while it runs, and which engine takes a tensor.

PyTorch has no public names for most of the first questions. Triton is never loaded to answer.
"""

import importlib.util
import os
import warnings
from collections.abc import Iterable
from enum import Enum

import torch
from torch import Tensor
from torch.autograd import forward_ad

# Which engine runs a kernel


class Engine(Enum):
    """What runs a Triton kernel."""

    NVIDIA = "compiled for an NVIDIA GPU"
    AMD = "compiled for an AMD GPU"
    INTERPRETED = "interpreted on the CPU"
    NONE = "plain PyTorch"


def engine_of(t: Tensor) -> Engine:
    """The engine that takes `t`."""
    if not runs_in_triton(t):
        return Engine.NONE
    if interpreter_is_on():
        return Engine.INTERPRETED
    return Engine.NVIDIA if torch.version.hip is None else Engine.AMD


def runs_in_triton(t: Tensor) -> bool:
    """Whether an engine takes `t`: a GPU has the compiler, a CPU the interpreter if it is on."""
    if t.is_cuda and not _HAS_TRITON:
        warnings.warn("Triton is not installed: RoPE runs in plain PyTorch, slowly", stacklevel=5)
    return _HAS_TRITON and (t.is_cuda or (t.is_cpu and interpreter_is_on()))


def interpreter_is_on() -> bool:
    """Whether this process runs Triton kernels in Triton's interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on", "y")


def triton_is_installed() -> bool:
    """Whether Triton can be imported."""
    try:
        return importlib.util.find_spec("triton") is not None
    except ValueError:  # a stand-in without a spec, as some test suites plant
        return False


_HAS_TRITON = triton_is_installed()


# What PyTorch does with a call

_includes = torch._C._dispatch_tls_is_dispatch_key_included
_PRE_DISPATCH = torch._C.DispatchKey.PreDispatch  # make_fx(..., pre_dispatch=True)
_PROXY, _FAKE = torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FAKE


def is_traced() -> bool:
    """Whether torch.compile or make_fx records this call, or FakeTensorMode only plays it."""
    if torch.compiler.is_compiling() or _includes(_PRE_DISPATCH):
        return True
    if not torch._C._len_torch_dispatch_stack():  # as in most calls
        return False
    mode = torch._C._get_dispatch_mode
    return mode(_PROXY) is not None or mode(_FAKE) is not None


def is_transformed() -> bool:
    """Whether torch.func, forward mode or torch.jit.trace, which know only operators, is active."""
    if forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active():
        return True
    return torch._C._get_tracing_state() is not None


def has_values(x: Tensor) -> bool:
    """Whether elements can be read: not under vmap, nor those of DTensor, FakeTensor and such."""
    if type(x).__torch_dispatch__ is not Tensor.__torch_dispatch__ or x.is_meta:
        return False
    # torch.autograd.grad(..., is_grads_batched=True) uses a vmap that torch.func does not know
    functorch = torch._C._functorch
    return not (functorch.is_batchedtensor(x) or functorch.is_legacy_batchedtensor(x))


def have_memory(tensors: Iterable[Tensor | None]) -> bool:
    """Whether a kernel can read all that are there: elements, and no wrapper of torch.func."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return all([x is None or (has_values(x) and not wrapped(x)) for x in tensors])


def is_dtensor(x: object) -> bool:
    """Whether `x` is a DTensor, or what torch.func makes of one; loads no torch.distributed."""
    if not isinstance(x, Tensor):
        return False
    if hasattr(x, "device_mesh"):
        return True
    # none are active in most calls, and a compiler cannot look into what they wrap
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return False
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(x)
    return wrapped and is_dtensor(torch._C._functorch.get_unwrapped(x))


def is_differentiated(t: Tensor) -> bool:
    """Whether derivatives with respect to `t` are wanted, in forward mode or torch.func too."""
    if torch.compiler.is_compiling():
        return t.requires_grad
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(t).tangent is not None:
        return True
    while not t.requires_grad and torch._C._functorch.is_functorch_wrapped_tensor(t):
        t = torch._C._functorch.get_unwrapped(t)
    return t.requires_grad


def wants_grad(tensors: Iterable[object]) -> bool:
    """Whether autograd records what is done with these; what is no tensor doesn't count."""
    if not torch.is_grad_enabled():
        return False
    return any([x is not None and getattr(x, "requires_grad", False) for x in tensors])
