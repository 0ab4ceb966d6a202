"""A process that believes in a GPU: launches calls and prints what the driver noted of them.

For `test_handles.py`, which gives it `libcuda.so.1` made from `libcuda.c`.
"""

import ctypes
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from types import SimpleNamespace

import torch
import triton
from torch.utils._pytree import tree_leaves
from triton.backends.nvidia.compiler import CUDABackend
from triton.backends.nvidia.driver import CudaDriver
from triton.runtime.jit import JITFunction

from ops import FEW, OPS
from rope_kernels import RotaryPositionEmbedding, launch
from rope_kernels.autograd import values_of
from rope_kernels.launch import forget
from rope_kernels.rotation import Options, Rotation

BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u1": 1, "fp32": 4, "fp64": 8}
NUMBERS = "launches", "function", "programs", "threads", "shared", "stream", "attributes"
S, H, D = 6, 4, 32
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
torch.cuda.current_device = torch.Tensor.get_device = lambda *tensor: 0
launch.stream_of = lambda device: RecordingDriver.stream

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
    """Name and type of all numbers and pointers, those in tuples too: `strides.2.0`."""
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


def launched(call: Callable, tensors: dict) -> dict:
    """What the driver noted of a call; addresses by what lies there."""
    RecordingDriver.stream = next(stream)
    by_jit_before, launches_before = by_jit.count, last_launch().launches
    outs = call()
    noted = last_launch()
    tensors = tensors | {f"out {i}": out for i, out in enumerate(outs)}
    parameters = [
        [name, place_of(value, tensors) if name.startswith("tensors") else value]
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


def place_of(address: int, tensors: dict) -> str:
    """The tensor that has this address in its memory, and how many bytes from its beginning."""
    for name, x in tensors.items():
        memory = x.untyped_storage()
        if 0 <= address - memory.data_ptr() < memory.nbytes():
            return f"{name}, {address - memory.data_ptr()}"
    return "unknown"


def cases() -> Iterator[tuple[str, Callable, dict]]:
    """Of each: its name, a call, and tensors by name that its launch may point to.

    Every function has two of the cases in new memory, and another one in place.
    """
    for n, op in enumerate(OPS):
        for i, few in enumerate(FEW):
            if (n + i) % 2 == 0:
                sample = op.sample("cpu", **few)
                call = partial(sample.call, None, sample.written)
                yield f"{op}, {i}", call, tensors_of(sample)
            elif i < 2 and op.inplace:
                sample = op.sample("cpu", **few | {"output_pairing": "same"})
                call = partial(sample.call, None, sample.written, inplace=True)
                yield f"{op}, {i}, in place", call, tensors_of(sample)
    yield "backward", *backward()
    yield "out of a projection, as an operator", *operator_of_a_projection()


def tensors_of(sample) -> dict:
    freqs = sample.freqs
    if isinstance(freqs, RotaryPositionEmbedding):
        freqs = freqs.turns()
    where = {name: x for name, x in sample.options().items() if isinstance(x, torch.Tensor)}
    tables = {f"freqs {i}": x for i, x in enumerate(tree_leaves(freqs))}
    given = {name: x for name, x in sample.given.items() if x is not None}
    return given | sample.written | tables | where


def backward() -> tuple[Callable, dict]:
    """Its launch is the second, under a signature that no public function has seen."""
    sample = sample_of("apply_rotary_pos_emb")
    leaves = sample.leaves()
    outs = sample.call(leaves)
    (grad,) = sample.gradients_like(outs)
    run = partial(torch.autograd.grad, outs, [*leaves.values()], grad, retain_graph=True)
    return run, tensors_of(sample) | {"grad": grad}


def sample_of(name: str, **case):
    (op,) = (op for op in OPS if op.name == name)
    return op.sample("cpu", **case)


def rotation(table, tensor_format, position_ids=None) -> Rotation:
    return Rotation(
        table=table,
        sin=None,
        cu_seqlens=None,
        start_positions=None,
        position_ids=position_ids,
        first_position=None,
        transpose=False,
        options=Options(tensor_format=tensor_format, rotary_dim=D, kind="turns"),
    )


def operator_of_a_projection() -> tuple[Callable, dict]:
    qkv, table = torch.randn(S, 2, 3 * H * D), RotaryPositionEmbedding(D).turns()
    arguments = H, H, "qkv", "sbhd", *values_of(rotation(table, tensor_format="sbhd"))
    call = partial(torch.ops.rope_kernels.split_qkv_rope, qkv, *arguments)
    return call, {"qkv": qkv, "table": table}


def both_ways(call, tensors) -> dict:
    """Compiled by a first call, launched by Triton's JIT in a second, by its handle in a third."""
    call()
    forget()
    return {"the JIT": launched(call, tensors), "the handle": launched(call, tensors)}


def norm_with_gradients() -> list:
    """Of three steps of training: launches, and how many of them went through the JIT."""
    sample, steps = sample_of("qk_norm_rope"), []
    leaves = sample.leaves()
    forget()
    for _ in range(3):
        launches, jit = last_launch().launches, by_jit.count
        outs = sample.call(leaves)
        torch.autograd.grad(outs, [*leaves.values()], [torch.randn_like(out) for out in outs])
        steps.append([last_launch().launches - launches, by_jit.count - jit])
    return steps


def into_memory_that_a_graph_hands_over() -> list:
    """Strides with which the operator writes its results: of new memory, then of a copy of q.

    The latter is what a compiled call in place hands over.
    """
    table, slots = RotaryPositionEmbedding(D).turns(), torch.arange(S)
    values = values_of(rotation(table, tensor_format="thd", position_ids=slots))
    q, k, v = torch.randn(H, S, D).transpose(0, 1), torch.randn(S, 1, D), torch.randn(S, 1, D)
    caches, found = torch.zeros(2, 2, 4, 1, D).unbind(), []
    for q_out in (torch.empty(S, H, D), torch.empty(S, H, D), q.clone()):
        torch.ops.rope_kernels.rope_to_cache(q, k, q_out, v, *caches, slots, *values)
        noted = dict(zip(by_jit.names, last_launch().parameters, strict=False))
        found.append([noted[f"written_strides.0.{i}"] for i in (0, 2)])
    return found[1:]  # the first one went through the JIT, which tells the driver too late


def another_first_position() -> list:
    """What launches hand over of a number that each call has another one of, and if by the JIT.

    One beyond 32 bits takes a kernel of its own.
    """
    sample, found = sample_of("rope_qk", freqs="on the fly", positions="one start"), []
    for start in (1, 2**40):  # compiled here; the JIT tells the driver too late
        sample.call(start_positions=start)
    for start in (3, 70, -1, 2**40 + 1, 5):
        before = by_jit.count
        sample.call(start_positions=start)
        noted = dict(zip(by_jit.names, last_launch().parameters, strict=False))
        found.append([noted["first_position"], by_jit.count - before])
    return found


def refused_by_the_driver() -> dict:
    """An error of the driver reaches the caller, after one launch; the next call works."""
    sample, error = sample_of("rope_fw"), None
    sample.call()
    before = last_launch().launches
    library.fail_launches(1)
    try:
        sample.call()
    except RuntimeError as raised:
        error = str(raised)
    library.fail_launches(0)
    launches = last_launch().launches - before
    after = launched(sample.call, tensors_of(sample))["by the JIT"]
    return {"error": error, "launches": launches, "next": after}


if __name__ == "__main__":
    result = {
        "cases": {name: both_ways(*case) for name, *case in cases()},
        "norm with gradients": norm_with_gradients(),
        "into memory of a graph": into_memory_that_a_graph_hands_over(),
        "another first position": another_first_position(),
        "refused by the driver": refused_by_the_driver(),
        "enable_fp_fusion": list(by_jit.fp_fusion),
    }
    json.dump(result, sys.stdout)
