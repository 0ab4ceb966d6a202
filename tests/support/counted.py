"""What a call does, counted: launches, kernels to compile, memory, operators of PyTorch.

Triton's interpreter returns nothing where its compiler returns a handle, by which the same kernel
can be launched again. `Interpreter` returns one, so that later calls take the same way on a CPU as
on a GPU: nothing but addresses and numbers comes with them.
"""

import ctypes
import re
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rope_kernels import autograd, paths
from rope_kernels.norms import api as norms
from rope_kernels.serving import cache as caches
from rope_kernels.serving import split


class Interpreter:
    """Triton's interpreter, with handles. Notes every launch, and may leave out to run it."""

    now = None  # handles outlive a test, in what the package remembers

    def __init__(self):
        self.by_jit, self.by_handle = [], []  # kernels launched
        self.runs, self.compiled = True, set()  # what a GPU would compile, where nothing runs

    @contextmanager
    def launching(self):
        from triton.runtime import driver

        from rope_lab.compiler.launches import launched_by  # the lab turns the interpreter on

        driver.set_active(Driver())
        with patch.object(Interpreter, "now", self), launched_by(self.launch):
            yield self

    def launch(self, launch):
        self.by_jit.append(launch.kernel)
        handle = Handle(launch)
        if self.runs:
            launch.run()
        else:
            handle.compiled = compiled_for(launch)
            self.compiled.add(handle.compiled)
        return handle

    @property
    def launches(self):
        return len(self.by_jit) + len(self.by_handle)

    def clear(self):
        self.by_jit.clear()
        self.by_handle.clear()


class Driver:
    """Of a GPU that there isn't."""

    def get_current_target(self):
        return SimpleNamespace(backend="cuda", arch=90, warp_size=32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 1


class Handle:
    """What a launch returns: `handle[grid](*arguments)` launches again, from addresses."""

    run = compiled = None  # no C function

    def __init__(self, launch):
        self.src = SimpleNamespace(fn=launch.kernel)
        named = launch.named
        tensors, *others = [named[name] for name in launch.kernel.arg_names]
        looks = [None if x is None else (x.dtype, x.data_ptr() % 16 == 0) for x in tensors]
        without_tensors = replace(launch, arguments=(), options={})
        self.launched = without_tensors, type(tensors), looks, [width_of(x) for x in others]

    def __getitem__(self, grid):
        first, group, looks, widths = self.launched

        def launch(addresses, *values, stream=None):
            assert [width_of(x) for x in values] == widths, "compiled for other numbers"
            for address, look in zip(addresses, looks, strict=True):
                assert (address is None) == (look is None), "compiled for other tensors"
                assert not (look and look[1] and address % 16), "compiled for aligned tensors"
            now = Interpreter.now
            if now is not None:
                now.by_handle.append(first.kernel)
                now.compiled.add(self.compiled)
            if now is None or now.runs:
                pairs = zip(addresses, looks, strict=True)
                tensors = group(*[at(x, look[0]) if look else None for x, look in pairs])
                replace(first, arguments=(tensors, *values), grid=grid).run()

        return launch


def width_of(x):
    """Bits of a number that a kernel is compiled for; 0 where there is none."""
    return 0 if x is None else 64 if isinstance(x, int) and not -(2**31) <= x < 2**31 else 32


def at(address, dtype):
    """A tensor of one element there. Kernels know no sizes."""
    if not address:
        return torch.empty(0, dtype=dtype)
    memory = (ctypes.c_char * dtype.itemsize).from_address(address)
    return torch.frombuffer(memory, dtype=dtype)


def compiled_for(launch):
    """Which kernel Triton would compile for a launch: its name, and what is compiled in."""
    bind = binder_of(launch.kernel)
    return launch.name, str(bind(*launch.arguments, **launch.options)[1:])


@cache
def binder_of(kernel):
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend
    from triton.runtime.jit import create_function_from_signature

    backend = make_backend(GPUTarget("cuda", 90, 32))
    return create_function_from_signature(kernel.signature, kernel.params, backend)


def calls_within(package, call):
    """How many Python functions of a package a call runs."""
    folder, count = str(Path(package.__file__).parent), 0

    def note(frame, event, _):
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(folder)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


@contextmanager
def unseen():
    """Keep a mode from the package, so that it sees what calls do without one.

    Under a mode that is known, calls take the operators.
    """
    with patch.object(paths, "count_modes", lambda: 0):
        yield


@contextmanager
def paths_taken():
    """What `path_of` says of the calls within, in their order."""
    taken = []

    def noting(path_of):
        def note(*arguments, **options):
            taken.append(path_of(*arguments, **options))
            return taken[-1]

        return note

    with ExitStack() as patches:
        for module in (autograd, caches, split, norms):
            patches.enter_context(patch.object(module, "path_of", noting(module.path_of)))
        yield taken


class Operators(TorchDispatchMode):
    """Notes every operator that runs, the new tensors, and what PyTorch would launch for it."""

    def __init__(self):
        super().__init__()
        self.names, self.new = [], []
        self.writers = []  # to memory; those of integers aside: a CPU looks at positions
        self.kernels = 0  # of PyTorch on a GPU

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.names.append(operator.overloadpacket.__name__)
        self.kernels += kernels_of(operator, args)
        result = operator(*args, **(kwargs or {}))
        if operator.overloadpacket in NEW:
            self.new.append(result)
        elif not operator.is_view and getattr(result, "dtype", torch.bool).is_floating_point:
            self.writers.append(str(operator))
        return result

    @property
    def new_bytes(self):
        return sum(x.nbytes for x in self.new)


NEW = (torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.new_empty)
# Views and memory; and two of values, which only a CPU looks at.
NO_KERNEL = re.compile(
    r"aten\.(detach|_unsafe_view|empty|new_empty|empty_like|max|_local_scalar_dense)\."
)


def kernels_of(operator, args):
    """How many kernels PyTorch launches on a GPU for an operator."""
    if operator is torch.ops.aten.slice_backward.default:
        return 1 + (args[0].numel() > 0)  # zeros, and a copy into them if there are elements
    return int(not operator.is_view and not NO_KERNEL.match(str(operator)))


def operators_of(call):
    """The names of all operators of a call."""
    with unseen(), Operators() as called:
        call()
    return called.names


def launches_in(call, interpreter):
    """How many kernels a call launches: ours; and PyTorch's, with copies and fills.

    On a GPU the profiler counts them, after a call that compiles. On a CPU it is the interpreter,
    with the operators for which PyTorch would launch a kernel.
    """
    if interpreter is None:
        call()
        names = gpu_events_of(call)
        others = [x for x in names if x.startswith(("Memcpy", "Memset")) or "at::" in x]
        return len(names) - len(others), len(others)
    before = interpreter.launches
    with unseen(), Operators() as operators:
        call()
    return interpreter.launches - before, operators.kernels


def gpu_events_of(call):
    """Names of everything that the GPU does in a call: kernels, copies and fills."""
    start_the_profiler()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    on_the_gpu = torch.autograd.DeviceType.CUDA
    return [event.name for event in profile.events() if event.device_type == on_the_gpu]


@cache
def start_the_profiler():
    """The first profile of a process may miss what comes while it starts."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        torch.ones(1, device="cuda").add_(1)
        torch.cuda.synchronize()


def allocated_in(call):
    """Bytes and pieces of memory that a call asks the GPU's allocator for.

    How much is in use would say less: what tests before this one left in reference cycles may be
    given back in the middle of the call.
    """
    before = torch.cuda.memory_stats()
    results = call()
    after = torch.cuda.memory_stats()
    del results
    return tuple(
        after[f"{key}.all.allocated"] - before[f"{key}.all.allocated"]
        for key in ("requested_bytes", "allocation")
    )
