"""What a call looks like, addresses and values aside.

Calls of one kind pass the same checks and need the same launch. Both are done with care once, and
remembered: a call should not keep the CPU longer than the GPU.
"""

from functools import lru_cache

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from .frequencies import RotaryPositionEmbedding

_PLAIN = (Tensor, Parameter)
_PROXY = torch._C._TorchDispatchModeKey.PROXY


@lru_cache(4096)  # a serving loop may meet any sequence length
def remembered(kind: tuple) -> dict:
    """What was found out about this kind of call; nothing at first."""
    return {}


def known_of(freqs, options: tuple, *tensors: Tensor | None) -> dict | None:
    """What is remembered of calls that look like this one to checks, compiler and launch.

    That is the same dict, to be added to, for each call of a kind: with `freqs`, tensors to rotate
    or to say where, and `options` that are alike; for tensors of a class of their own a new one.
    None for what cannot go straight to a kernel: classes that do operators by themselves, and calls
    that PyTorch traces or transforms.
    """
    if freqs is None or is_traced() or is_transformed():
        return None
    try:
        if isinstance(freqs, RotaryPositionEmbedding):
            tensors = freqs.inv_freq, *tensors
            options = options, freqs.inv_freq.requires_grad, freqs.rotary_dim, freqs.interleaved
        elif isinstance(freqs, (tuple, list)):
            tensors, options = (*freqs, *tensors), (options, len(freqs))
        else:
            tensors = freqs, *tensors
        kind, plain = [options], True
        for x in tensors:
            if type(x) in _PLAIN:
                # no function and no generator: this is in every call's way
                x = x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16, x.is_neg()
            elif x is not None:
                plain = False
                if not has_values(x):
                    return None
            kind.append(x)
        return remembered(tuple(kind)) if plain else {}
    except (AttributeError, RuntimeError, TypeError):  # no strides or memory, or not hashable
        return None


def is_traced() -> bool:
    """Does torch.compile or make_fx write down what is called, to be done later?"""
    return torch.compiler.is_compiling() or torch._C._get_dispatch_mode(_PROXY) is not None


def is_transformed() -> bool:
    """Within torch.func, forward mode or torch.jit.trace, which know PyTorch's operators alone?"""
    if forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active():
        return True
    return torch._C._get_tracing_state() is not None


def has_values(x: Tensor | None) -> bool:
    """Can its numbers be read? Not under vmap, nor those of DTensor, FakeTensor and the like."""
    if x is None:
        return True
    plain = type(x).__torch_dispatch__ is Tensor.__torch_dispatch__
    return plain and not (x.is_meta or torch._C._functorch.is_batchedtensor(x))


def is_differentiated(t: Tensor) -> bool:
    """Does anybody want derivatives with respect to `t`, be it in forward mode or in torch.func?"""
    if torch.compiler.is_compiling():
        return t.requires_grad
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(t).tangent is not None:
        return True
    while not t.requires_grad and torch._C._functorch.is_functorch_wrapped_tensor(t):
        t = torch._C._functorch.get_unwrapped(t)
    return t.requires_grad
