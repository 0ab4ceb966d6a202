"""A process that believes in a GPU: launches calls both ways and prints what the driver noted.

For `test_fast_path.py`, which gives it `libcuda.so.1` made from `libcuda.c`. `child.py` tries
everything, `child.py calls` only some calls, and `child.py code` prints digests of machine code. A
launch through Triton's JIT goes "the whole way".
"""

import ctypes
import hashlib
import json
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import torch
import triton
from triton.backends.nvidia.driver import CudaDriver, CudaLauncher
from triton.runtime.jit import JITFunction

from rope_kernels import (
    RotaryPositionEmbedding,
    api,
    apply_rotary_pos_emb,
    norm_rope,
    qk_norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
)
from rope_kernels.kernels.rope_kernel import rope_kernel
from rope_kernels.launch import fastpath, norm_plan, rope_plan, run
from rope_kernels.machine.engine import Engine

ONLY = sys.argv[1] if len(sys.argv) > 1 else None
BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u1": 1, "fp32": 4, "fp64": 8}


NUMBERS = "launches", "function", "programs", "threads", "shared", "stream", "attributes"


class Noted(ctypes.Structure):
    """As in `libcuda.c`."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in NUMBERS] + [
        ("parameters", ctypes.c_ulonglong * 128)
    ]


class RecordingDriver(CudaDriver):
    """Triton's driver for NVIDIA GPUs, but for what it would ask PyTorch about the GPU."""

    stream = 1

    def __init__(self):
        super().__init__()
        self.get_device_capability = lambda device: (9, 0)
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda device: self.stream


cuda = ctypes.CDLL("libcuda.so.1")
triton.runtime.driver.set_active(RecordingDriver())
api.runs_in_triton = lambda t: True
rope_plan.engine_of = norm_plan.engine_of = lambda t: Engine.NVIDIA
fastpath._current_device = lambda: 0

whole_ways = SimpleNamespace(count=0, names=[], compiled=None, fp_fusion=set())


def kinds_of(signature):
    """Name and type of all numbers and pointers, those in tuples too: `strides.q`."""
    for name, kind in signature.items():
        if isinstance(kind, tuple):
            inside = getattr(kind, "_fields", range(len(kind)))
            yield from kinds_of({f"{name}.{key}": x for key, x in zip(inside, kind, strict=True)})
        else:
            yield name, kind


def run_jit(kernel, *arguments, run=JITFunction.run, **options):
    """Count the launches through the JIT; note the kernel's signature on the way."""
    whole_ways.count += 1
    whole_ways.fp_fusion.add(options.get("enable_fp_fusion", "left to Triton"))
    compiled = run(kernel, *arguments, **options)
    names, sizes = [], []
    for name, kind in kinds_of(compiled.src.signature):
        if kind != "constexpr":
            names.append(name)
            sizes.append(8 if kind[0] == "*" else BYTES[kind])
    whole_ways.names, whole_ways.compiled = names, compiled
    bytes_of_each = (ctypes.c_int * len(sizes))(*sizes)
    cuda.sizes_of_parameters(ctypes.c_longlong(compiled.function), len(sizes), bytes_of_each)
    return compiled


JITFunction.run = run_jit


@contextmanager
def replaced(owner, name, value):
    """Set an attribute for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def launched(call, tensors) -> dict:
    """What the driver noted of a call; addresses by what lies there."""
    RecordingDriver.stream += 1
    whole_before, noted = whole_ways.count, Noted()
    cuda.last_launch(ctypes.byref(noted))
    launches_before = noted.launches
    outs = call()
    cuda.last_launch(ctypes.byref(noted))
    places = {t.data_ptr(): name for name, t in tensors.items()}
    places |= {out.data_ptr(): f"out {i}" for i, out in enumerate(outs)}
    parameters = [
        [name, places.get(value, "unknown") if name.endswith("_ptr") else value]
        for name, value in zip(whole_ways.names, noted.parameters, strict=False)
    ]
    return {
        "whole way": whole_ways.count - whole_before,
        "launches": noted.launches - launches_before,
        "its own stream": noted.stream == RecordingDriver.stream,
        "kernel": noted.function,
        "programs": noted.programs,
        "threads": noted.threads,
        "attributes": noted.attributes,
        "parameters": parameters,
    }


def single(t, freqs, tensor_format="sbhd", function=rope_fw, **options):
    tensors = {"t": t} | {name: x for name, x in options.items() if isinstance(x, torch.Tensor)}
    if isinstance(freqs, RotaryPositionEmbedding):
        tensors["table"] = freqs.turns(None)
        tensors |= {} if freqs.axes is None else {"axes": freqs.axis_of_pair}
    else:
        freqs_tensors = freqs if isinstance(freqs, tuple) else (freqs,)
        tensors |= {f"freqs {i}": x for i, x in enumerate(freqs_tensors)}
    return lambda: (function(t, freqs, tensor_format, **options),), tensors


def pair(q, k, freqs, **options):
    return lambda: rope_qk(q, k, freqs, **options), {"q": q, "k": k, "freqs": freqs}


def backward(t, freqs):
    """Its launch is the second, under a signature that no public function has seen."""
    t, grad = t.requires_grad_(), torch.randn(t.shape)
    out = apply_rotary_pos_emb(t, freqs)
    run = lambda: torch.autograd.grad(out, t, grad, retain_graph=True)  # noqa: E731
    return run, {"grad": grad, "freqs": freqs}


def normalized(*tensors, axes=None, **options):
    """A norm of one tensor, or of two, by weights, with angles on the fly."""
    rope = RotaryPositionEmbedding(32, axes=axes)
    weights = [torch.randn(32) for _ in tensors]
    names = "q", "k", "q weight", "k weight"
    if len(tensors) == 1:
        names = "t", "weight"
        call = lambda: (norm_rope(*tensors, *weights, rope, **options),)  # noqa: E731
    else:
        call = lambda: qk_norm_rope(*tensors, *weights, rope, **options)  # noqa: E731
    more = {name: x for name, x in options.items() if isinstance(x, torch.Tensor)}
    named = dict(zip(names, (*tensors, *weights), strict=True))
    more |= {} if axes is None else {"axes": rope.axis_of_pair}
    return call, named | more | {"table": rope.turns(None)}


def norm_with_gradients() -> list:
    """Of three steps of training: launches, and how many of them went the whole way."""
    leaves = [torch.randn(6, 2, h, 32) for h in (4, 1)] + [torch.randn(32), torch.randn(32)]
    leaves = [x.requires_grad_() for x in leaves]
    rope, noted, steps = RotaryPositionEmbedding(32), Noted(), []
    fastpath.forget()
    for _ in range(3):
        cuda.last_launch(ctypes.byref(noted))
        launches, whole = noted.launches, whole_ways.count
        outs = qk_norm_rope(*leaves, rope)
        torch.autograd.grad(outs, leaves, [torch.randn_like(out) for out in outs])
        cuda.last_launch(ctypes.byref(noted))
        steps.append([noted.launches - launches, whole_ways.count - whole])
    return steps


def cases() -> dict:
    """Name -> a call, and tensors by name that its launch may point to."""
    t, table = torch.randn(6, 2, 4, 32), RotaryPositionEmbedding(32)(9)
    cos, sin = (x[:, 0, 0].contiguous() for x in (table.cos(), table.sin()))
    starts, ids = torch.tensor([0, 3]), torch.randint(9, (2, 6))
    of_axes, axes = torch.randint(9, (3, 2, 6)), [0, 1, 1, 2] * 4
    packed, cu_seqlens = torch.randn(12, 4, 32), torch.tensor([0, 5, 12])
    qkv = torch.randn(6, 2, 3, 4, 32)
    return {
        "table": single(t, table),
        "cos and sin": single(t, (cos, sin)),
        "on the fly": single(t, RotaryPositionEmbedding(32)),
        "backward alone": single(t, table, function=rope_bw),
        "backward": backward(t.clone(), table),
        "bf16": single(t.bfloat16(), table),
        "strided": single(t.transpose(0, 1), table, "bshd"),
        "a column of a wide tensor": single(torch.randn(6, 2, 4, 64)[..., 3:35], table),
        "start positions": single(t, table, start_positions=starts),
        "position ids": single(t, table, position_ids=ids),
        "positions on three axes": single(
            t, RotaryPositionEmbedding(32, axes=axes), position_ids=of_axes
        ),
        "packed": single(packed, table, "thd", cu_seqlens=cu_seqlens),
        "context parallel": single(t, RotaryPositionEmbedding(32), cp_size=2, cp_rank=1),
        "interleaved": single(t, table, interleaved=True),
        "one column per pair": single(t, table[..., :16].contiguous(), rotary_dim=32),
        "one cosine per pair": single(t, (cos[:, :16], sin[:, :16]), rotary_dim=32),
        "start": single(t, table[..., :8].contiguous(), rotary_start=5),
        "inverse": single(t, table, inverse=True),
        "half-split results": single(t, table, interleaved=True, output_pairing="half"),
        "whole rows": single(torch.randn(6, 2, 4, 36), RotaryPositionEmbedding(36)(9)),
        "whole rows in place": single(
            torch.randn(6, 2, 4, 36), RotaryPositionEmbedding(36)(9), inplace=True
        ),
        "half rotary": single(t, RotaryPositionEmbedding(32, 0.5)(9)),
        "in place": single(t, table, inplace=True),
        "q and k": pair(t, torch.randn(6, 2, 1, 32), table),
        "q and k in place": pair(qkv[:, :, 0], qkv[:, :, 1], table, inplace=True),
        "norm": normalized(t),
        "norm of strided rows, in place": normalized(qkv[:, :, 0], inplace=True),
        "norm of q and k": normalized(t, torch.randn(6, 2, 1, 32), start_positions=starts),
        "norm and three axes": normalized(t, axes=axes, position_ids=of_axes),
    }


def both_ways(call, tensors) -> dict:
    fastpath.forget()
    call()  # compiles, and says what the parameters are
    fastpath.forget()
    return {"whole": launched(call, tensors), "fast": launched(call, tensors)}


def by_turns() -> list:
    """Aligned, off by one element, aligned; each the whole way first, then by the fast path."""
    memory, table = torch.randn(6 * 2 * 4 * 32 + 1), RotaryPositionEmbedding(32)(9)
    views = [memory[i : i + 6 * 2 * 4 * 32].view(6, 2, 4, 32) for i in (0, 1, 0)]
    fastpath.forget()
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
    fastpath.forget()
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
    with replaced(fastpath, "_current_device", lambda: 1):
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
    t, table = torch.randn(6, 2, 4, head_dim), RotaryPositionEmbedding(head_dim)(9)
    fastpath.forget()
    return single(t, table)


def some_calls(call, tensors, times=3) -> list:
    """How many of the launches of each call went the whole way."""
    counts = [launched(call, tensors) for _ in range(times)]
    assert [x["launches"] for x in counts] == [1] * times
    return [x["whole way"] for x in counts]


@contextmanager
def a_pre_run_hook():
    hooks = rope_kernel.pre_run_hooks
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
        after = some_calls(*call)
        fastpath.forget()
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
    counts = {}
    for version in ("3.4.0", "3.99.0", "4.0", "3.7.0+git5b1a2c3d", "no version"):
        with replaced(triton, "__version__", version):
            counts[version] = some_calls(*a_call())
    return counts


class LikeHIPLauncher:
    """With the attributes that Triton 3.7's `HIPLauncher` has; `CudaLauncher` does the work."""

    def __init__(self, source, metadata):
        self._cuda = CudaLauncher(source, metadata)
        self.launch_cooperative_grid = metadata.launch_cooperative_grid
        self.profile_scratch_size = metadata.profile_scratch_size
        self.launch, self.warp_size = self._cuda.launch, 64

    def __call__(self, *arguments):
        return self._cuda(*arguments)


class WithMemory(CudaLauncher):
    """It asks for memory for each launch, but only after the first, so that nobody allocates it."""

    def __call__(self, *arguments):
        self.profile_scratch_size = 0
        super().__call__(*arguments)
        self.profile_scratch_size = 1


def other_launchers() -> dict:
    """Each for a head dimension of its own: a launcher is made when a kernel is compiled."""
    driver, counts = triton.runtime.driver.active, {}
    for head_dim, launcher in ((20, LikeHIPLauncher), (22, WithMemory)):
        with replaced(driver, "launcher_cls", launcher):
            counts[launcher.__name__] = some_calls(*a_call(head_dim))
    return counts


def other_backends() -> dict:
    """What of a compiled kernel the fast path reads if it is for AMD's or Intel's GPUs."""
    driver, read = triton.runtime.driver.active, {}
    for backend in ("hip", "xpu"):
        target, names = SimpleNamespace(backend=backend), []
        watched = type(
            "Watched", (), {"__getattr__": lambda self, name, names=names: names.append(name)}
        )
        with replaced(driver, "get_current_target", lambda target=target: target):
            read[backend] = [fastpath.shortest_launch(watched(), 1, (), ()), names]
    return read


def refused_by_the_driver() -> dict:
    """An error of the driver reaches the caller, after one launch; the next call works."""
    call, tensors = a_call()
    call()
    noted = Noted()
    cuda.last_launch(ctypes.byref(noted))
    before, whole_before, error = noted.launches, whole_ways.count, None
    cuda.fail_launches(1)
    try:
        call()
    except RuntimeError as raised:
        error = str(raised)
    cuda.fail_launches(0)
    cuda.last_launch(ctypes.byref(noted))
    return {
        "error": error,
        "launches": noted.launches - before,
        "whole way": whole_ways.count - whole_before,
        "next": some_calls(call, tensors),
    }


def without_what_it_reads() -> list:
    """Of a compiled kernel, and later of its hooks: what the fast path answers."""
    t = torch.randn(6, 2, 4, 32)
    a_call()[0]()
    again = fastpath.shortest_launch(whole_ways.compiled, 1, (), ())
    attributes = vars(whole_ways.compiled.src.fn)
    hooks = attributes.pop("pre_run_hooks")
    later = again((t, None, t, None, t, None, None, None, None))
    attributes["pre_run_hooks"] = hooks
    return [fastpath.shortest_launch(object(), 1, (), ()), again is None, later]


def code_of(call) -> list:
    """The kernel that a call compiled, a digest of its machine code, and whether it fuses."""
    fastpath.forget()
    whole_ways.compiled = None
    call()
    compiled = whole_ways.compiled
    digest = hashlib.sha256(compiled.asm["ptx"].encode() + compiled.asm["cubin"]).hexdigest()
    return [compiled.metadata.name, digest, "fma.rn" in compiled.asm["ptx"]]


def machine_code() -> dict:
    """Of calls, of torch.compile's operator, and of a launch that leaves fusion to Triton."""
    ours = []
    for head_dim in (32, 36):
        t, table = torch.randn(6, 2, 4, head_dim), RotaryPositionEmbedding(head_dim)(9)
        for function in (rope_fw, rope_bw):
            graph = torch.compile(function, backend="eager", fullgraph=True)
            ours += [code_of(lambda f=f, t=t, table=table: f(t, table)) for f in (function, graph)]
    with replaced(run, "options_of", lambda plan: {"num_warps": plan.num_warps}):
        left = code_of(lambda: rope_fw(t, table))
    default = triton.knobs.language.default_fp_fusion
    return {"ours": ours, "left to Triton": left, "default": default}


if __name__ == "__main__":
    if ONLY == "code":
        result = machine_code()
    elif ONLY:
        result = some_calls(*a_call())
    else:
        result = {
            "cases": {name: both_ways(*case) for name, case in cases().items()},
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
            "other backends": other_backends(),
            "refused by the driver": refused_by_the_driver(),
            "without what it reads": without_what_it_reads(),
            "enable_fp_fusion": list(whole_ways.fp_fusion),
        }
    json.dump(result, sys.stdout)
