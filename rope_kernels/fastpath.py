"""Calls that look like an earlier one go from their signature straight to its launch.

A signature is all that checks, compiler and launch see of a call: everything but addresses and
elements. The first call of a signature takes the long way, and its Entry remembers that it was
good and how it was launched. ROPE_KERNELS_FAST_PATH=0 switches all of this off.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from .call import Call
from .frequencies import RotaryPositionEmbedding
from .rotation import Rotation

ENABLED = os.environ.get("ROPE_KERNELS_FAST_PATH", "1") != "0"
PLAIN = (Tensor, Parameter)  # classes whose instances differ in what a signature holds alone
MAX_ENTRIES = 4096  # a serving loop may meet any sequence length


@dataclass(slots=True)
class Entry:
    """What is remembered of the calls of one signature. The first one fills it in."""

    checked: bool = False
    num_positions: int | None = None  # what the checks returned
    launch: Callable[[tuple], bool] | None = None  # says whether it has launched


def entry_of_call(call: Call, tables: tuple[Tensor | None, ...]) -> Entry | None:
    """The entry of all calls like this one, with what `freqs` holds; None if it has none."""
    if not ENABLED:
        return None
    interleaved, inplace, freqs = call.interleaved, call.inplace, call.freqs
    cp_size, cp_rank = call.cp_size, call.cp_rank
    # True == 1 == 1.0, and only one of them is accepted
    types = type(interleaved), type(cp_size), type(cp_rank), type(inplace), type(freqs)
    options = call.tensor_format, call.transpose, interleaved, cp_size, cp_rank, inplace, types
    if isinstance(freqs, RotaryPositionEmbedding):
        if freqs._forward_hooks or freqs._forward_pre_hooks or "forward" in freqs.__dict__:
            return None  # which the checks refuse, even after calls that were good
        options += freqs.rotary_dim, freqs.interleaved, tables[0].requires_grad
    return _entry_of(options, (*call.tensors.values(), *tables, *call.where))


def entry_of_rotation(
    rotation: Rotation, tensors: tuple[Tensor, ...], inplace: bool
) -> Entry | None:
    """The entry of all rotations of checked tensors like this one."""
    if not ENABLED:
        return None
    options = (
        *(rotation.tensor_format, rotation.interleaved, rotation.cp_size, rotation.cp_rank),
        *(rotation.transpose, inplace),
    )
    tables = rotation.table, rotation.sin
    return _entry_of(options, (*tensors, *tables, *rotation.where))


def _entry_of(options: tuple, tensors: tuple[Tensor | None, ...]) -> Entry | None:
    signature: list[Any] = [options]
    try:
        for x in tensors:
            if type(x) in PLAIN:
                # no function and no generator: every call comes by here
                x = x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16, x.is_neg()
            elif x is not None:
                return None
            signature.append(x)
        return _entry(tuple(signature))
    except (AttributeError, RuntimeError, TypeError):  # no strides or memory, or not hashable
        return None


@lru_cache(MAX_ENTRIES)
def _entry(signature: tuple) -> Entry:
    return Entry()


def forget() -> None:
    """Forget all entries."""
    _entry.cache_clear()


_KNOWN_VERSIONS_OF_TRITON = (["3", "6"], ["3", "7"])
# `torch.cuda.current_device` looks first whether PyTorch has begun to use the GPU
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


def shortest_launch(compiled, programs: int, numbers: tuple) -> Callable[[tuple], bool] | None:
    if compiled is None:
        return None
    import triton

    version, run = triton.__version__.split(".")[:2], compiled.run
    needs_memory = run.global_scratch_size or run.profile_scratch_size
    if version not in _KNOWN_VERSIONS_OF_TRITON or needs_memory:
        return None
    driver, knobs, launch = triton.runtime.driver.active, triton.knobs.runtime, run.launch
    device, get_stream = driver.get_current_device(), driver.get_current_stream
    how = compiled.function, run.launch_cooperative_grid, run.launch_pdl
    metadata, no_hooks, no_memory = compiled.packed_metadata, (None, None, None), (None, None)
    in_a_tuple = version != ["3", "6"]  # how `launch`, a C function, takes the kernel's arguments
    if in_a_tuple:
        how += metadata, *no_hooks, *no_memory, run.arg_annotations, run.kernel_signature
    else:
        how += *no_memory, metadata, *no_hooks

    def launch_again(tensors: tuple[Tensor | None, ...]) -> bool:
        addresses = [x if x is None else x.data_ptr() for x in tensors]
        # of outputs and turns, which are made after the kind was found out
        if (addresses[2] | (addresses[3] or 0) | addresses[4]) % 16 or _current_device() != device:
            return False
        enter, leave = knobs.launch_enter_hook, knobs.launch_exit_hook
        if getattr(enter, "calls", enter) or getattr(leave, "calls", leave):
            return False  # a profiler that asks Triton for every launch gets Triton's own way
        if in_a_tuple:
            launch(programs, 1, 1, get_stream(device), *how, (*addresses, *numbers))
        else:
            launch(programs, 1, 1, get_stream(device), *how, *addresses, *numbers)
        return True

    return launch_again
