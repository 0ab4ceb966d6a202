"""A process that believes in a GPU: launches calls both ways and prints what the driver noted.

For `test_fast_path.py`, which gives it `libcuda.so.1` made from `libcuda.c`. Its argument says what
to try: `private` everything by Triton's C functions, `handle` everything by the kernel's handle,
`calls` only some calls, and `code` prints digests of machine code.
"""

import ctypes
import hashlib
import json
import sys
import warnings
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import torch

current = SimpleNamespace(device=0)
torch._C._cuda_getDevice = lambda: current.device  # before anything asks for it

import triton  # noqa: E402
from recorded import (  # noqa: E402
    believe_in_a_gpu,
    both_ways,
    cases,
    driver,
    last_launch,
    launched,
    lengths,
    single,
    whole_ways,
)
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from triton.backends.nvidia.driver import CudaDriver, CudaLauncher  # noqa: E402
from triton.compiler import CompiledKernel  # noqa: E402

from rope_kernels import RotaryPositionEmbedding, qk_norm_rope, rope_bw, rope_fw  # noqa: E402

WANTED, UNKNOWN = sys.argv[1], "99.0.0"  # a version of which nothing private is known


class RecordingDriver(CudaDriver):
    """Triton's driver for NVIDIA GPUs, but for what it would ask PyTorch about the GPU."""

    def __init__(self):
        super().__init__()
        self.get_device_capability = lambda device: (9, 0)
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda device: driver.stream


driver.library = ctypes.CDLL("libcuda.so.1")
triton.runtime.driver.set_active(RecordingDriver())
believe_in_a_gpu()
if WANTED == "handle":
    triton.__version__ = UNKNOWN

handles = []  # the kernels that are launched by their handle


def by_handle(compiled, grid, found=CompiledKernel.__getitem__):
    handles.append(compiled.metadata.name)
    return found(compiled, grid)


CompiledKernel.__getitem__ = by_handle


@contextmanager
def replaced(owner, name, value):
    """Set an attribute for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def norm_with_gradients() -> list:
    """Of three steps of training: launches, and how many of them went the whole way."""
    s = next(lengths)
    leaves = [torch.randn(s, 2, h, 32) for h in (4, 1)] + [torch.randn(32), torch.randn(32)]
    leaves = [x.requires_grad_() for x in leaves]
    rope, steps = RotaryPositionEmbedding(32), []
    for _ in range(3):
        launches, whole = last_launch().launches, whole_ways.count
        outs = qk_norm_rope(*leaves, rope)
        torch.autograd.grad(outs, leaves, [torch.randn_like(out) for out in outs])
        steps.append([last_launch().launches - launches, whole_ways.count - whole])
    return steps


def by_turns() -> list:
    """Aligned, off by one element, aligned; each the whole way first, then by the fast path."""
    memory, table = torch.randn(6 * 2 * 4 * 32 + 1), RotaryPositionEmbedding(32)(9)
    views = [memory[i : i + 6 * 2 * 4 * 32].view(6, 2, 4, 32) for i in (0, 1, 0)]
    for view in views:
        rope_fw(view, table)
    return [launched(*single(view, table)) for view in views]


def flags() -> list:
    """Forward and backward, new and in place, of the same tensors; all but the first time."""
    t, table = torch.randn(6, 2, 4, 32), RotaryPositionEmbedding(32, 0.5)(9)
    calls = [
        single(t, table, function=function, inplace=inplace)
        for function in (rope_fw, rope_bw)
        for inplace in (False, True)
    ]
    for call, _ in calls:
        call()
    return [launched(*call) for call in calls]


def with_a_profilers_hook() -> dict:
    """Who asks Triton for every launch, gets to see every launch."""
    seen, (call, _) = [], single(torch.randn(6, 2, 4, 32), RotaryPositionEmbedding(32)(9))
    runtime = triton.knobs.runtime
    call()
    for hooks in (runtime.launch_enter_hook, runtime.launch_exit_hook):
        hooks.add(seen.append)
        call()
        hooks.remove(seen.append)
    chain = runtime.launch_enter_hook
    for hook in (seen.append, None):  # older ways to say it
        runtime.launch_enter_hook = hook
        call()
    runtime.launch_enter_hook = chain
    before = whole_ways.count
    call()
    return {"seen": len(seen), "whole way without": whole_ways.count - before}


def another_current_device() -> dict:
    """Not that of the tensors: the fast path may then launch only within `torch.cuda.device`."""
    call, tensors = single(torch.randn(6, 2, 4, 32), RotaryPositionEmbedding(32)(9))
    call()
    with replaced(current, "device", 1):
        return launched(call, tensors)


def output_off_by_one() -> dict:
    """As from an allocator that aligns nothing."""
    t, table = torch.randn(6, 2, 4, 32), RotaryPositionEmbedding(32)(9)
    call, tensors = single(t, table)
    call()
    with replaced(torch, "empty_like", lambda t, **_: torch.empty(t.numel() + 1)[1:].view(t.shape)):
        return launched(call, tensors)


def a_call(head_dim=32):
    """A call with its tensors, of which nothing is remembered yet."""
    s = next(lengths)
    return single(torch.randn(s, 2, 4, head_dim), RotaryPositionEmbedding(head_dim)(s))


def some_calls(call, tensors, times=3) -> list:
    """How many of the launches of each call went the whole way."""
    counts = [launched(call, tensors) for _ in range(times)]
    assert [x["launches"] for x in counts] == [1] * times
    return [x["whole way"] for x in counts]


@contextmanager
def a_pre_run_hook():
    hooks = whole_ways.compiled.src.fn.pre_run_hooks
    hooks.append(lambda *arguments, **options: None)
    yield
    hooks.pop()


def what_the_jit_reads() -> dict:
    """Name -> a context in which the JIT would do more than launch."""
    runtime, compilation = triton.knobs.runtime, triton.knobs.compilation
    contexts = {
        "pre-run hook": a_pre_run_hook,
        "debug": lambda: replaced(runtime, "debug", True),
        "enter hook": lambda: replaced(runtime, "launch_enter_hook", do_nothing),
        "exit hook": lambda: replaced(runtime, "launch_exit_hook", do_nothing),
    }
    if hasattr(compilation, "instrumentation_mode"):  # since Triton 3.6
        contexts["instrumentation"] = lambda: replaced(compilation, "instrumentation_mode", "mine")
    if hasattr(runtime, "add_stages_inspection_hook"):
        hook = lambda *arguments: ("my stages", "my hash")  # noqa: E731
        contexts["stages"] = lambda: replaced(runtime, "add_stages_inspection_hook", hook)
    return contexts


def do_nothing(metadata):
    """A launch hook."""


def hooks_and_knobs() -> dict:
    """Whole ways before, within, after; and within from the first call on, then after that."""
    counts = {}
    for name, context in what_the_jit_reads().items():
        call = a_call()
        before = some_calls(*call)
        with context():
            within = some_calls(*call)
        after, call = some_calls(*call), a_call()
        with context():
            first = some_calls(*call)
        counts[name] = [before, within, after, first, some_calls(*call)]
    return counts


def debug_compiles_another_kernel() -> bool:
    call = a_call()
    plain = [launched(*call)["kernel"] for _ in range(2)]
    with replaced(triton.knobs.runtime, "debug", True):
        debugged = launched(*call)["kernel"]
    return debugged not in plain and [launched(*call)["kernel"] for _ in range(2)] == plain


def unknown_versions() -> dict:
    """Whole ways, and launches by handle."""
    counts = {}
    for version in ("3.4.0", "3.99.0", "4.0", "3.7.0+git5b1a2c3d", "no version"):
        handles.clear()
        with replaced(triton, "__version__", version):
            counts[version] = [some_calls(*a_call()), handles.copy()]
    return counts


class WithoutPrivateNames:
    """Another backend's launcher: it has nothing that we know; `CudaLauncher` does the work."""

    def __init__(self, source, metadata):
        self._cuda = CudaLauncher(source, metadata)

    def __call__(self, *arguments):
        return self._cuda(*arguments)


class WithMemory(CudaLauncher):
    """It asks for 128 bytes for each program, at each launch."""

    def __init__(self, source, metadata):
        super().__init__(source, metadata)
        self.global_scratch_size, self.global_scratch_align = 128, 16


def other_launchers() -> dict:
    """Whole ways, and bytes that were asked for. Each for a head dimension of its own.

    A launcher is made when a kernel is compiled.
    """
    memory, asked, counts = torch.empty(1 << 16, dtype=torch.uint8), [], {}
    triton.set_allocator(lambda size, alignment, stream: asked.append(size) or memory)
    active = triton.runtime.driver.active
    for head_dim, launcher in ((20, WithoutPrivateNames), (22, WithMemory)):
        with replaced(active, "launcher_cls", launcher):
            call, tensors = a_call(head_dim)
            ways = some_calls(call, tensors)
        counts[launcher.__name__] = [ways, [n / 128 / last_launch().programs for n in asked]]
    return counts


def without_a_handle() -> dict:
    """Two calls of each of two signatures where a compiled kernel cannot be indexed."""
    handle = CompiledKernel.__getitem__
    with (
        replaced(triton, "__version__", UNKNOWN),
        replaced(CompiledKernel, "__getitem__", handle),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        del CompiledKernel.__getitem__
        counts = some_calls(*a_call(), times=2) + some_calls(*a_call(24), times=2)
    return {"whole ways": counts, "warnings": [str(w.message) for w in warned]}


def another_backend() -> list:
    """Whole ways where kernels are for Intel's GPUs."""
    target = SimpleNamespace(backend="xpu")
    with replaced(triton.runtime.driver.active, "get_current_target", lambda: target):
        return some_calls(*a_call())


def refused_by_the_driver() -> dict:
    """An error of the driver reaches the caller, after one launch; the next call works."""
    call, tensors = a_call()
    call()
    before, whole_before, error = last_launch().launches, whole_ways.count, None
    driver.library.fail_launches(1)
    try:
        call()
    except RuntimeError as raised:
        error = str(raised)
    driver.library.fail_launches(0)
    return {
        "error": error,
        "launches": last_launch().launches - before,
        "whole way": whole_ways.count - whole_before,
        "next": some_calls(call, tensors),
    }


def code_of(call) -> list:
    """The kernel that a call compiled, a digest of its machine code, and whether it fuses."""
    whole_ways.compiled = None
    call()
    compiled = whole_ways.compiled
    digest = hashlib.sha256(compiled.asm["ptx"].encode() + compiled.asm["cubin"]).hexdigest()
    return [compiled.metadata.name, digest, "fma.rn" in compiled.asm["ptx"]]


def in_a_graph(function, *tensors):
    """By the operator that a graph has."""

    def call(t, table):
        return function(t, table)

    return make_fx(call)(*tensors)(*tensors)


def machine_code() -> dict:
    """Of calls, of operators in a graph, and of a launch that leaves fusion to Triton."""
    ours = []
    for head_dim, traced in ((32, rope_bw), (36, rope_fw)):
        s = next(lengths)
        tensors = torch.randn(s, 2, 4, head_dim), RotaryPositionEmbedding(head_dim)(s)
        for function in (rope_fw, rope_bw):
            call = partial(in_a_graph, function) if function is traced else function
            ours.append(code_of(partial(call, *tensors)))
    whole_ways.leave_fusion, (call, _) = True, a_call(36)
    left = code_of(call)
    whole_ways.leave_fusion = False
    default = triton.knobs.language.default_fp_fusion
    return {"ours": ours, "left to Triton": left, "default": default}


def everything() -> dict:
    both = {name: both_ways(*case) for name, case in cases().items()}
    return {
        "cases": both,
        "by handle": handles.copy(),
        "norm with gradients": norm_with_gradients(),
        "by turns": by_turns(),
        "flags": flags(),
        "with a profiler's hook": with_a_profilers_hook(),
        "output off by one": output_off_by_one(),
        "another current device": another_current_device(),
        "hooks and knobs": hooks_and_knobs(),
        "debug compiles another kernel": debug_compiles_another_kernel(),
        "unknown versions": unknown_versions(),
        "other launchers": other_launchers(),
        "another backend": another_backend(),
        "refused by the driver": refused_by_the_driver(),
        "without a handle": without_a_handle(),
        "enable_fp_fusion": list(whole_ways.fp_fusion),
    }


if __name__ == "__main__":
    if WANTED == "code":
        result = machine_code()
    elif WANTED == "calls":
        result = some_calls(*a_call())
    else:
        result = everything()
        if WANTED == "private":
            result["code"] = machine_code()
    json.dump(result, sys.stdout)
