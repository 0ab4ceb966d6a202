"""A process that believes in a GPU: launches calls and prints what the driver noted of them.

For `test_handles.py`, which gives it `libcuda.so.1` made from `libcuda.c`.
"""

import ctypes
import json
import sys
from itertools import count
from types import SimpleNamespace

import torch
import triton
from triton.backends.nvidia.compiler import CUDABackend
from triton.backends.nvidia.driver import CudaDriver
from triton.runtime.jit import JITFunction

from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    norm_rope,
    qk_norm_rope,
    rope_fw,
    rope_qk,
    rope_to_cache,
    split_qkv_rope,
)
from rope_kernels.autograd import values_of
from rope_kernels.launch import forget
from rope_kernels.rotation import Rotation

BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u1": 1, "fp32": 4, "fp64": 8}
NUMBERS = "launches", "function", "programs", "threads", "shared", "stream", "attributes"
S, B, H, D = 6, 2, 4, 32
stream = count(1)


class Noted(ctypes.Structure):
    """As in `libcuda.c`."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in NUMBERS] + [
        ("parameters", ctypes.c_ulonglong * 128)
    ]


class RecordingDriver(CudaDriver):
    """Triton's driver for NVIDIA GPUs, but for what it would ask PyTorch about the GPU."""

    stream = 0

    def __init__(self):
        super().__init__()
        self.get_device_capability = lambda device: (9, 0)
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda device: RecordingDriver.stream


library = ctypes.CDLL("libcuda.so.1")
CUDABackend.make_cubin = lambda self, ptx, *more: ptx.encode()  # nobody runs it
triton.runtime.driver.set_active(RecordingDriver())
torch.Tensor.is_cuda, torch.Tensor.is_cpu = (property(lambda t, x=x: x) for x in (True, False))
torch.cuda.is_current_stream_capturing = lambda: False
torch.cuda.synchronize = lambda device=None: None
torch.cuda.current_stream = lambda device=None: SimpleNamespace(synchronize=lambda: None)
torch.cuda.current_device = lambda: -1  # where tensors on the CPU are

by_jit = SimpleNamespace(count=0, names=[], fp_fusion=set())


def run_jit(kernel, *arguments, run=JITFunction.run, **options):
    """Count the launches through the JIT; note the kernel's signature on the way."""
    by_jit.count += 1
    by_jit.fp_fusion.add(options.get("enable_fp_fusion", "left to Triton"))
    compiled = run(kernel, *arguments, **options)
    kinds = [pair for pair in kinds_of(compiled.src.signature) if pair[1] != "constexpr"]
    sizes = [8 if kind[0] == "*" else BYTES[kind] for _, kind in kinds]
    by_jit.names = [name for name, _ in kinds]
    bytes_of_each = (ctypes.c_int * len(sizes))(*sizes)
    library.sizes_of_parameters(ctypes.c_longlong(compiled.function), len(sizes), bytes_of_each)
    return compiled


def kinds_of(signature):
    """Name and type of all numbers and pointers, those in tuples too: `q_strides.0`."""
    for name, kind in signature.items():
        if isinstance(kind, tuple):
            yield from kinds_of({f"{name}.{i}": x for i, x in enumerate(kind)})
        else:
            yield name, kind


JITFunction.run = run_jit


def last_launch() -> Noted:
    noted = Noted()
    library.last_launch(ctypes.byref(noted))
    return noted


def launched(call, tensors) -> dict:
    """What the driver noted of a call; addresses by what lies there."""
    RecordingDriver.stream = next(stream)
    by_jit_before, launches_before = by_jit.count, last_launch().launches
    outs = call()
    noted = last_launch()
    places = {t.data_ptr(): name for name, t in tensors.items()}
    places |= {out.data_ptr(): f"out {i}" for i, out in enumerate(outs)}
    parameters = [
        [name, places.get(value, "unknown") if name.endswith("_ptr") else value]
        for name, value in zip(by_jit.names, noted.parameters, strict=False)
    ]
    return {
        "by the JIT": by_jit.count - by_jit_before,
        "launches": noted.launches - launches_before,
        "its own stream": noted.stream == RecordingDriver.stream,
        "kernel": noted.function,
        "programs": noted.programs,
        "threads": noted.threads,
        "attributes": noted.attributes,
        "parameters": parameters,
    }


def single(t, freqs, tensor_format="sbhd", **options):
    tensors = {"t": t} | {name: x for name, x in options.items() if isinstance(x, torch.Tensor)}
    if isinstance(freqs, RotaryPositionEmbedding):
        tensors["table"] = freqs.turns()
    else:
        freqs_tensors = freqs if isinstance(freqs, tuple) else (freqs,)
        tensors |= {f"freqs {i}": x for i, x in enumerate(freqs_tensors)}
    return lambda: (rope_fw(t, freqs, tensor_format, **options),), tensors


def pair(q, k, freqs, **options):
    return lambda: rope_qk(q, k, freqs, **options), {"q": q, "k": k, "freqs": freqs}


def backward(t, freqs):
    """Its launch is the second, under a signature that no public function has seen."""
    t, grad = t.requires_grad_(), torch.randn(t.shape)
    out = apply_rotary_pos_emb(t, freqs)
    run = lambda: torch.autograd.grad(out, t, grad, retain_graph=True)  # noqa: E731
    return run, {"grad": grad, "freqs": freqs}


def normalized(*tensors, **options):
    """A norm of one tensor, or of two, by weights, with angles on the fly."""
    rope = RotaryPositionEmbedding(D)
    weights = [torch.randn(D) for _ in tensors]
    names = "q", "k", "q weight", "k weight"
    if len(tensors) == 1:
        names = "t", "weight"
        call = lambda: (norm_rope(*tensors, *weights, rope, **options),)  # noqa: E731
    else:
        call = lambda: qk_norm_rope(*tensors, *weights, rope, **options)  # noqa: E731
    more = {name: x for name, x in options.items() if isinstance(x, torch.Tensor)}
    named = dict(zip(names, (*tensors, *weights), strict=True))
    return call, named | more | {"table": rope.turns()}


def into_a_cache():
    rope, slots = RotaryPositionEmbedding(D), torch.arange(S)
    q, k, v = (torch.randn(S, heads, D) for heads in (H, 1, 1))
    caches = torch.zeros(2, 2, 4, 1, D).unbind()
    call = lambda: (rope_to_cache(q, k, v, rope, *caches, slots, position_ids=slots),)  # noqa: E731
    named = {"q": q, "k": k, "v": v, "k cache": caches[0], "v cache": caches[1], "slots": slots}
    return call, named | {"table": rope.turns()}


def out_of_a_projection():
    rope, qkv = RotaryPositionEmbedding(D), torch.randn(S, B, 3 * H * D)
    names = "q", "k", "v"
    parts = {name: qkv[..., i * H * D :] for i, name in enumerate(names)}
    return lambda: split_qkv_rope(qkv, rope, H, H), parts | {"table": rope.turns()}


def operator_of_a_projection():
    qkv, table = torch.randn(S, B, 3 * H * D), RotaryPositionEmbedding(D).turns()
    arguments = H, H, "qkv", "sbhd", *values_of(Rotation(table, rotary_dim=D))
    parts = {name: qkv[..., i * H * D :] for i, name in enumerate(("q", "k", "v"))}
    call = lambda: torch.ops.rope_kernels.split_qkv_rope(qkv, *arguments)  # noqa: E731
    return call, parts | {"table": table}


def cases() -> dict:
    """Name -> a call, and tensors by name that its launch may point to."""
    t, table = torch.randn(S, B, H, D), RotaryPositionEmbedding(D)(9)
    cos, sin = (x[:, 0, 0].contiguous() for x in (table.cos(), table.sin()))
    starts, ids = torch.tensor([0, 3]), torch.randint(9, (B, S))
    packed, cu_seqlens = torch.randn(12, H, D), torch.tensor([0, 5, 12])
    qkv = torch.randn(S, B, 3, H, D)
    whole_rows = torch.randn(S, B, H, 36), RotaryPositionEmbedding(36)(9)
    return {
        "table": single(t, table),
        "cos and sin": single(t, (cos, sin)),
        "on the fly": single(t, RotaryPositionEmbedding(D)),
        "backward": backward(t.clone(), table),
        "a column of a wide tensor": single(torch.randn(S, B, H, 64)[..., 3:35], table),
        "start positions": single(t, table, start_positions=starts),
        "position ids": single(t, table, position_ids=ids),
        "packed": single(packed, table, "thd", cu_seqlens=cu_seqlens),
        "context parallel": single(t, RotaryPositionEmbedding(D), cp_size=2, cp_rank=1),
        "one column per pair": single(t, table[..., : D // 2].contiguous(), rotary_dim=D),
        "start": single(t, table[..., :8].contiguous(), rotary_start=5),
        "half-split results": single(t, table, interleaved=True, output_pairing="half"),
        "whole rows": single(*whole_rows),
        "whole rows in place": single(*whole_rows, inplace=True),
        "in place": single(t, table, inplace=True),
        "q and k": pair(t, torch.randn(S, B, 1, D), table),
        "q and k in place": pair(qkv[:, :, 0], qkv[:, :, 1], table, inplace=True),
        "norm": normalized(t),
        "norm of strided rows, in place": normalized(qkv[:, :, 0], inplace=True),
        "norm of q and k": normalized(t, torch.randn(S, B, 1, D), start_positions=starts),
        "into a cache": into_a_cache(),
        "out of a projection": out_of_a_projection(),
        "out of a projection, as an operator": operator_of_a_projection(),
    }


def both_ways(call, tensors) -> dict:
    """Compiled by a first call, launched by Triton's JIT in a second, by its handle in a third."""
    call()
    forget()
    return {"the JIT": launched(call, tensors), "the handle": launched(call, tensors)}


def norm_with_gradients() -> list:
    """Of three steps of training: launches, and how many of them went through the JIT."""
    leaves = [torch.randn(S, B, heads, D) for heads in (H, 1)] + [torch.randn(D), torch.randn(D)]
    leaves = [x.requires_grad_() for x in leaves]
    rope, steps = RotaryPositionEmbedding(D), []
    forget()
    for _ in range(3):
        launches, jit = last_launch().launches, by_jit.count
        outs = qk_norm_rope(*leaves, rope)
        torch.autograd.grad(outs, leaves, [torch.randn_like(out) for out in outs])
        steps.append([last_launch().launches - launches, by_jit.count - jit])
    return steps


def into_memory_that_a_graph_hands_over() -> list:
    """Strides with which the operator writes its results: of new memory, then of a copy of q.

    The latter is what a compiled call in place hands over.
    """
    table, slots = RotaryPositionEmbedding(D).turns(), torch.arange(S)
    values = values_of(Rotation(table, position_ids=slots, tensor_format="thd", rotary_dim=D))
    q, k, v = torch.randn(H, S, D).transpose(0, 1), torch.randn(S, 1, D), torch.randn(S, 1, D)
    caches, found = torch.zeros(2, 2, 4, 1, D).unbind(), []
    for q_out in (torch.empty(S, H, D), torch.empty(S, H, D), q.clone()):
        torch.ops.rope_kernels.rope_to_cache(q, k, q_out, None, v, *caches, slots, *values)
        noted = dict(zip(by_jit.names, last_launch().parameters, strict=False))
        found.append([noted[f"q_out_strides.{i}"] for i in (0, 2)])
    return found[1:]  # the first one went through the JIT, which tells the driver too late


def refused_by_the_driver() -> dict:
    """An error of the driver reaches the caller, after one launch; the next call works."""
    call, tensors = single(torch.randn(S, B, H, D), RotaryPositionEmbedding(D)(9))
    call()
    before, error = last_launch().launches, None
    library.fail_launches(1)
    try:
        call()
    except RuntimeError as raised:
        error = str(raised)
    library.fail_launches(0)
    launches = last_launch().launches - before
    return {"error": error, "launches": launches, "next": launched(call, tensors)["by the JIT"]}


if __name__ == "__main__":
    result = {
        "cases": {name: both_ways(*case) for name, case in cases().items()},
        "norm with gradients": norm_with_gradients(),
        "into memory of a graph": into_memory_that_a_graph_hands_over(),
        "refused by the driver": refused_by_the_driver(),
        "enable_fp_fusion": list(by_jit.fp_fusion),
    }
    json.dump(result, sys.stdout)
