"""What PyTorch does with a call while it runs: tracing, transforms, derivatives, subclasses.

PyTorch has no public names for most of these questions.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.autograd import forward_ad

_includes, _PRE_DISPATCH = (
    torch._C._dispatch_tls_is_dispatch_key_included,
    torch._C.DispatchKey.PreDispatch,  # make_fx(..., pre_dispatch=True)
)
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


def has_values(x: Tensor | None) -> bool:
    """Whether elements can be read: not under vmap, nor those of DTensor, FakeTensor and the like.

    None counts as readable.
    """
    if x is None:
        return True
    if type(x).__torch_dispatch__ is not Tensor.__torch_dispatch__ or x.is_meta:
        return False
    # torch.autograd.grad(..., is_grads_batched=True) uses a vmap that torch.func does not know
    functorch = torch._C._functorch
    return not (functorch.is_batchedtensor(x) or functorch.is_legacy_batchedtensor(x))


def is_dtensor(x: object) -> bool:
    """Whether `x` is a DTensor, or what torch.func makes of one.

    Asked without loading torch.distributed.tensor.
    """
    if not isinstance(x, Tensor):
        return False
    if hasattr(x, "device_mesh"):
        return True
    # none are active in most calls, and a compiler cannot look into what they wrap
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return False
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(x)
    return wrapped and is_dtensor(torch._C._functorch.get_unwrapped(x))


def has_memory(x: Tensor | None) -> bool:
    """Whether a kernel can read `x`: it has elements, and no wrapper of torch.func around it."""
    if x is None:
        return True
    return has_values(x) and not torch._C._functorch.is_functorch_wrapped_tensor(x)


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
    if torch.is_grad_enabled():
        for x in tensors:  # no generator: this is in every call
            if x is not None and getattr(x, "requires_grad", False):
                return True
    return False
