"""The fast path: a call that looks like an earlier one goes from its signature to its launch.

A signature is what checks, compiler and launch see of a call: all but elements and addresses,
of which only the alignment counts. The first call of a signature takes the whole way, and its Entry
remembers that it was good and how it was launched. Every call still asks for gradients, overlaps
in place, and changed frequencies. ROPE_KERNELS_FAST_PATH=0 switches all of this off.

Triton's JIT looks at every argument of every call to find the compiled kernel, which costs more
host time than all the rest: with Triton 3.9 some 170 to 320 us of a call (H200, November 2026). The
handle that a launch returns launches the same kernel again. Every release since 3.0 has it, for
NVIDIA's and AMD's GPUs. For the releases that `LAUNCHERS` names, the C function beneath the handle
saves some 5 us more. Triton promises nothing about that function, so this is the only file that
uses private names of Triton's. What can be launched neither way is declined before anything is
launched, and the call goes through the JIT.
"""

import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from ..call.arguments import Call, getter_of
from ..call.rotation import Normalization
from ..embedding import RotaryPositionEmbedding
from ..machine.modes import is_traced, is_transformed

ENABLED = os.environ.get("ROPE_KERNELS_FAST_PATH", "1") != "0"
PLAIN = (Tensor, Parameter)  # classes whose instances differ in what a signature holds alone
MAX_ENTRIES = 4096  # a serving loop may meet any sequence length

# All options of a call are in its signature. Of tensors only the looks are, and a call that is not
# fused has no entry.
_ELSEWHERE = "tensors", "freqs", "fused", "norm", "cache", "packed"
_ELSEWHERE += "cu_seqlens", "start_positions", "position_ids"
_options_of = getter_of([field.name for field in fields(Call) if field.name not in _ELSEWHERE])
_options_of_module = getter_of(["rotary_dim", "interleaved", "attention_factor"])

# `torch.cuda.current_device` first makes sure that PyTorch has initialized CUDA.
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


@dataclass(slots=True, eq=False)
class Entry:
    """What is remembered of one signature. `launch` is None until a compiled kernel has run."""

    num_positions: int | None = None  # what the checks returned
    launch: Callable[[tuple], bool] | None = None  # says whether it has launched
    norm: Normalization | None = None  # of a call that normalizes all its tensors in one launch
    shares: tuple[int, ...] | None = None  # rows of partial sums, of a backward with a norm
    then: "Entry | None" = None  # of the launch that adds them up


def entry_of_call(
    call: Call,
    tables: tuple[Tensor | None, ...],
    beside: tuple[Tensor | None, ...] = (),
    recorded: bool | None = None,
) -> Entry | None:
    """The entry of all calls that look like this one; None for what cannot go to the kernel.

    Args:
        call: every argument, as it came.
        tables: what `call.freqs` holds.
        beside: the tensors of `call.norm` or of `call.cache`.
        recorded: whether autograd records a call with a norm, whose kernel then has more outputs.
    """
    if not ENABLED or call.fused is not True or is_traced() or is_transformed():
        return None
    freqs, norm, count = call.freqs, call.norm, len(call.tensors)
    signature = [Call, *_options_of(call), type(freqs), count, len(tables)]
    if isinstance(freqs, RotaryPositionEmbedding):
        signature += *_options_of_module(freqs), tables[0].requires_grad
    if norm is not None:
        signature += *norm.options, recorded
    if call.cache is not None:
        signature.append(call.cache.return_k)
    if call.packed is not None:
        signature += call.packed
    tensors = *call.tensors, *tables, *beside
    if not (call.cu_seqlens is call.start_positions is call.position_ids is None):
        tensors += call.where
    return _entry_of(signature, tensors)


def entry_of_launch(options: list, tensors: tuple[Tensor | None, ...]) -> Entry | None:
    """The entry of all launches with these options and with tensors that look like these.

    Args:
        options: the kernel's name, and what else decides a plan.
        tensors: those that the launch reads.
    """
    if not ENABLED or is_traced() or is_transformed():
        return None
    return _entry_of(options, tensors)


def _entry_of(signature: list[Any], tensors: tuple[Tensor | None, ...]) -> Entry | None:
    """The entry of these options, which come as the start of a signature, and of such tensors."""
    try:
        for x in tensors:
            if type(x) in PLAIN:
                # no function and no generator: this is in every call
                x = x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16, x.is_neg()
            elif x is not None:
                return None
            signature.append(x)
        return _entry(*signature)
    except (AttributeError, RuntimeError, TypeError):  # no strides or memory, or not hashable
        return None


@lru_cache(MAX_ENTRIES, typed=True)  # True == 1 == 1.0, and only one of them is accepted
def _entry(*signature: Any) -> Entry:
    return Entry()


def forget() -> None:
    """Forget all entries."""
    _entry.cache_clear()


# Triton's C functions, each with the arguments that its release takes. A launcher gets the compiled
# kernel, `run` that launches it, the size of the grid, and the arguments that follow the tensors.


def _one_by_one(compiled, run, programs: int, numbers: tuple) -> Callable[[int, list], None]:
    """Triton 3.5 and 3.6: a C function per signature takes the kernel's arguments one by one."""
    launch, scratch, hooks = run.launch, (None, None), (None, None, None)
    how = compiled.function, run.launch_cooperative_grid, run.launch_pdl
    how += *scratch, compiled.packed_metadata, *hooks
    return lambda stream, addresses: launch(programs, 1, 1, stream, *how, *addresses, *numbers)


def _in_a_tuple(compiled, run, programs: int, numbers: tuple) -> Callable[[int, list], None]:
    """Since Triton 3.7: one C function for all signatures takes a kernel's arguments in a tuple."""
    launch, scratch, hooks = run.launch, (None, None), (None, None, None)
    how = compiled.function, run.launch_cooperative_grid, run.launch_pdl
    how += compiled.packed_metadata, *hooks, *scratch, run.arg_annotations, run.kernel_signature
    return lambda stream, addresses: launch(programs, 1, 1, stream, *how, (*addresses, *numbers))


# By the version of Triton. `tests/launch/test_fast_path.py` compares what each hands to the driver
# with what the JIT hands to it; add a version here only when those tests pass on it.
LAUNCHERS = {
    "3.5": _one_by_one,
    "3.6": _one_by_one,
    "3.7": _in_a_tuple,
    "3.8": _in_a_tuple,
    "3.9": _in_a_tuple,
}


def _by_private_function(compiled, programs: int, numbers: tuple):
    """The C function beneath the handle, some 5 us faster; None where it may take more."""
    import triton

    release = re.fullmatch(r"(\d+\.\d+)\.\d+", triton.__version__)  # no development build
    launcher = LAUNCHERS.get(release[1]) if release else None
    if launcher is None or triton.runtime.driver.active.get_current_target().backend != "cuda":
        return None
    run = compiled.run
    try:
        of_its_own = (
            run.global_scratch_size  # memory that the launcher allocates for each launch
            or run.profile_scratch_size
            or getattr(run, "gsan_enabled", False)  # arguments that it appends; since Triton 3.9
        )
        return None if of_its_own else launcher(compiled, run, programs, numbers)
    except AttributeError:  # another launcher than NVIDIA's
        return None


def _by_handle(compiled, programs: int, numbers: tuple) -> Callable[[int, list], None]:
    """The handle that `kernel[grid](...)` returns to everybody: the same since Triton 3.0."""
    launch = compiled[(programs, 1, 1)]
    return lambda stream, addresses: launch(*addresses, *numbers, stream=stream)


def shortest_launch(
    compiled, programs: int, arguments: dict[str, Any], unkeyed: tuple[int, ...]
) -> Callable[[tuple], bool] | None:
    """Return what launches `compiled` again, or None where this file doesn't know how.

    Args:
        compiled: what a launch through Triton's JIT returned.
        programs: the size of its grid, which has one dimension.
        arguments: the kernel's arguments but for the tensors, which come first; by their names.
        unkeyed: which of the tensors, none of them None, the signature doesn't cover, because they
            are allocated after it is known: outputs, and what a module has. All their addresses
            have to be multiples of 16.

    The callable takes the tensors of another call with the same signature, and says whether it
    launched the kernel. If not, nothing happened, and the call has to go through the JIT.
    """
    if not ENABLED or compiled is None:  # interpreted
        return None
    import triton

    try:
        knobs, compilation = triton.knobs.runtime, triton.knobs.compilation
        driver = triton.runtime.driver.active
        # AMD's JIT also looks whether a tensor's storage is above 2 GiB, because of 32-bit offsets
        # from its address. We need not: tensors of one signature have the same offsets.
        if driver.get_current_target().backend not in ("cuda", "hip"):
            return None
        kernel = compiled.src.fn
        if _jit_does_more(knobs, compilation, kernel):
            return None
        # A launch takes values without names, and the C function counts nothing.
        count = len(kernel.arg_names) - len(arguments)  # of tensors, which come first
        numbers = tuple([arguments[name] for name in kernel.arg_names[count:]])
        launch = _by_private_function(compiled, programs, numbers)
        launch = launch or _by_handle(compiled, programs, numbers)
        device, get_stream = driver.get_current_device(), driver.get_current_stream
    except Exception as error:  # The kernel has just run, so no error here may fail the call.
        _warn_of_the_jit(triton.__version__, repr(error))
        return None

    def launch_again(tensors: tuple[Tensor | None, ...]) -> bool:
        try:
            addresses = [x if x is None else x.data_ptr() for x in tensors]
            if len(addresses) != count:
                return False
            for i in unkeyed:
                if addresses[i] % 16:
                    return False
            if _current_device() != device:
                return False
            if _jit_does_more(knobs, compilation, kernel):
                return False
            stream = get_stream(device)
        except AttributeError:
            return False
        launch(stream, addresses)  # An error from here on is the caller's: never launch twice.
        return True

    return launch_again


@lru_cache  # once for each reason
def _warn_of_the_jit(version: str, reason: str) -> None:
    warnings.warn(
        f"rope_kernels launches through the JIT of Triton {version}, which takes some 200 us more "
        f"of the host's time for each call, because the compiled kernel offers no known way to "
        f"launch it: {reason}. Results are the same.",
        RuntimeWarning,
        stacklevel=2,
    )


def _jit_does_more(knobs, compilation, kernel) -> bool:
    """Would the JIT do more than launch? Is a hook or knob set that it reads at every launch?

    It reads the other knobs and hooks only when it compiles, which always goes through the JIT.
    """
    enter, leave = knobs.launch_enter_hook, knobs.launch_exit_hook
    return bool(
        getattr(enter, "calls", enter)  # a chain of hooks, or a single one
        or getattr(leave, "calls", leave)
        or kernel.pre_run_hooks
        or knobs.debug
        or getattr(compilation, "instrumentation_mode", "")  # not in Triton 3.5
        or getattr(knobs, "add_stages_inspection_hook", None)
    )
