"""Calls that both children make, and what a recording driver notes of them.

A launch through Triton's JIT goes "the whole way".
"""

import ctypes
from itertools import count
from types import SimpleNamespace

import torch
import triton
from triton.runtime.jit import JITFunction

from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    norm_rope,
    qk_norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
)

driver = SimpleNamespace(library=None, stream=1)  # `library`: made from `recorder.h`
lengths = count(10)  # of a call of which nothing is remembered


def believe_in_a_gpu() -> None:
    """All tensors say that they are on one, of which the current stream is PyTorch's business."""
    torch.Tensor.is_cuda, torch.Tensor.is_cpu = (property(lambda t, x=x: x) for x in (True, False))
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.current_stream = lambda device=None: SimpleNamespace(synchronize=lambda: None)


BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u1": 1, "fp32": 4, "fp64": 8}


NUMBERS = "launches", "function", "programs", "threads", "shared", "stream", "attributes"


class Noted(ctypes.Structure):
    """As in `recorder.h`."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in NUMBERS] + [
        ("parameters", ctypes.c_ulonglong * 128)
    ]


def last_launch() -> Noted:
    noted = Noted()
    driver.library.last_launch(ctypes.byref(noted))
    return noted


whole_ways = SimpleNamespace(
    count=0, names=[], compiled=None, fp_fusion=set(), leave_fusion=False, targets=set()
)


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
    if whole_ways.leave_fusion:
        options.pop("enable_fp_fusion")
    compiled = run(kernel, *arguments, **options)
    whole_ways.targets.add((compiled.metadata.target.backend, compiled.metadata.target.arch))
    names, sizes = [], []
    for name, kind in kinds_of(compiled.src.signature):
        if kind != "constexpr":
            names.append(name)
            sizes.append(8 if kind[0] == "*" else BYTES[kind])
    whole_ways.names, whole_ways.compiled = names, compiled
    bytes_of_each = (ctypes.c_int * len(sizes))(*sizes)
    driver.library.sizes_of_parameters(
        ctypes.c_longlong(compiled.function), len(sizes), bytes_of_each
    )
    return compiled


JITFunction.run = run_jit


def launched(call, tensors) -> dict:
    """What the driver noted of a call; addresses by what lies there."""
    driver.stream += 1
    whole_before, launches_before = whole_ways.count, last_launch().launches
    outs = call()
    noted = last_launch()
    places = {t.data_ptr(): name for name, t in tensors.items()}
    places |= {out.data_ptr(): f"out {i}" for i, out in enumerate(outs)}
    parameters = [
        [name, places.get(value, "unknown") if name.endswith("_ptr") else value]
        for name, value in zip(whole_ways.names, noted.parameters, strict=False)
    ]
    return {
        "whole way": whole_ways.count - whole_before,
        "launches": noted.launches - launches_before,
        "its own stream": noted.stream == driver.stream,
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
    """Its launch is the second, under a signature that no public function has seen."""
    t, grad = t.requires_grad_(), torch.randn(t.shape)
    out = apply_rotary_pos_emb(t, freqs)
    run = lambda: torch.autograd.grad(out, t, grad, retain_graph=True)  # noqa: E731
    return run, {"grad": grad, "freqs": freqs}


def normalized(*tensors, **options):
    """A norm of one tensor, or of two, by weights, with angles on the fly."""
    rope = RotaryPositionEmbedding(32)
    weights = [torch.randn(32) for _ in tensors]
    names = "q", "k", "q weight", "k weight"
    if len(tensors) == 1:
        names = "t", "weight"
        call = lambda: (norm_rope(*tensors, *weights, rope, **options),)  # noqa: E731
    else:
        call = lambda: qk_norm_rope(*tensors, *weights, rope, **options)  # noqa: E731
    more = {name: x for name, x in options.items() if isinstance(x, torch.Tensor)}
    named = dict(zip(names, (*tensors, *weights), strict=True))
    return call, named | more | {"table": rope.turns(None)}


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
        "fp64, on the fly": single(t.double(), RotaryPositionEmbedding(32)),
        "strided": single(t.transpose(0, 1), table, "bshd"),
        "a column of a wide tensor": single(torch.randn(6, 2, 4, 64)[..., 3:35], table),
        "start positions": single(t, table, start_positions=starts),
        "position ids": single(t, table, position_ids=ids),
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
    }


def both_ways(call, tensors) -> dict:
    """With a hook every launch goes the whole way."""
    call()  # compiles, and says what the parameters are
    runtime = triton.knobs.runtime
    no_hook, runtime.launch_enter_hook = runtime.launch_enter_hook, lambda metadata: None
    whole = launched(call, tensors)
    runtime.launch_enter_hook = no_hook
    call()
    return {"whole": whole, "fast": launched(call, tensors)}
