"""A process that believes in a GPU: launches calls both ways and prints what the driver noted.

For `tests/test_short_way.py`, which gives it `libcuda.so.1` made from `libcuda.c`.
"""

import ctypes
import json
import sys
from types import SimpleNamespace

import torch
import triton
from triton.backends.nvidia.driver import CudaDriver

from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    fastpath,
    kinds,
    launch,
    rope_bw,
    rope_fw,
    rope_qk,
)

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
launch.runs_in_triton = lambda t: True
fastpath._current_device = lambda: 0

whole_ways = SimpleNamespace(count=0, names=[])


def launch_rope(*arguments, launch_rope=launch.launch_rope):
    whole_ways.count += 1
    return launch_rope(*arguments)


def short_way(compiled, *rest, short_way=launch.shortest_launch):
    """Note the kernel's signature on the way."""
    names, sizes = [], []
    for name, types in compiled.src.signature.items():
        for kind in types if isinstance(types, tuple) else (types,):
            if kind != "constexpr":
                names.append(name)
                sizes.append(8 if kind[0] == "*" else BYTES[kind])
    whole_ways.names = names
    bytes_of_each = (ctypes.c_int * len(sizes))(*sizes)
    cuda.sizes_of_parameters(ctypes.c_longlong(compiled.function), len(sizes), bytes_of_each)
    return short_way(compiled, *rest)


launch.launch_rope, launch.shortest_launch = launch_rope, short_way


def forget():
    kinds.remembered.cache_clear()


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
    else:
        freqs_tensors = freqs if isinstance(freqs, tuple) else (freqs,)
        tensors |= {f"freqs {i}": x for i, x in enumerate(freqs_tensors)}
    return lambda: (function(t, freqs, tensor_format, **options),), tensors


def pair(q, k, freqs, **options):
    return lambda: rope_qk(q, k, freqs, **options), {"q": q, "k": k, "freqs": freqs}


def backward(t, freqs):
    """Its launch is the second, under a kind that no public function has looked at."""
    t, grad = t.requires_grad_(), torch.randn(t.shape)
    out = apply_rotary_pos_emb(t, freqs)
    run = lambda: torch.autograd.grad(out, t, grad, retain_graph=True)  # noqa: E731
    return run, {"grad": grad, "freqs": freqs}


def cases() -> dict:
    """Name -> a call, and tensors by name that its launch may point to."""
    t, table = torch.randn(6, 2, 4, 32), RotaryPositionEmbedding(32)(9)
    cos, sin = (x[:, 0, 0].contiguous() for x in (table.cos(), table.sin()))
    starts, ids = torch.tensor([0, 3]), torch.randint(9, (2, 6))
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
        "packed": single(packed, table, "thd", cu_seqlens=cu_seqlens),
        "context parallel": single(t, RotaryPositionEmbedding(32), cp_size=2, cp_rank=1),
        "interleaved": single(t, table, interleaved=True),
        "half rotary": single(t, RotaryPositionEmbedding(32, 0.5)(9)),
        "in place": single(t, table, inplace=True),
        "q and k": pair(t, torch.randn(6, 2, 1, 32), table),
        "q and k in place": pair(qkv[:, :, 0], qkv[:, :, 1], table, inplace=True),
    }


def both_ways(call, tensors) -> dict:
    forget()
    call()  # compiles, and says what the parameters are
    forget()
    return {"whole": launched(call, tensors), "short": launched(call, tensors)}


def by_turns() -> list:
    """Aligned, off by one element, aligned; each first by the whole way and then by the short."""
    memory, table = torch.randn(6 * 2 * 4 * 32 + 1), RotaryPositionEmbedding(32)(9)
    views = [memory[i : i + 6 * 2 * 4 * 32].view(6, 2, 4, 32) for i in (0, 1, 0)]
    forget()
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
    forget()
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
    """Than that of the tensors: then the short way is for within `torch.cuda.device`."""
    call, tensors = single(torch.randn(6, 2, 4, 32), RotaryPositionEmbedding(32)(9))
    call()
    here, fastpath._current_device = fastpath._current_device, lambda: 1
    try:
        return launched(call, tensors)
    finally:
        fastpath._current_device = here


def output_off_by_one() -> dict:
    """As from an allocator that aligns nothing."""
    t, table = torch.randn(6, 2, 4, 32), RotaryPositionEmbedding(32)(9)
    call, tensors = single(t, table)
    call()
    empty_like, torch.empty_like = (
        torch.empty_like,
        lambda t, **_: torch.empty(t.numel() + 1)[1:].view(t.shape),
    )
    try:
        return launched(call, tensors)
    finally:
        torch.empty_like = empty_like


if __name__ == "__main__":
    result = {
        "cases": {name: both_ways(*case) for name, case in cases().items()},
        "by turns": by_turns(),
        "flags": flags(),
        "with a profiler's hook": with_a_profilers_hook(),
        "output off by one": output_off_by_one(),
        "another current device": another_current_device(),
    }
    json.dump(result, sys.stdout)
