"""TransformerEngine: its CUDA kernels, of the installed package or from its sources.

Installed: `transformer_engine.pytorch.attention.rope.apply_rotary_pos_emb(t, freqs, tensor_format,
...)`, by keywords, as in 2.20.2; older ones keep it in other modules. This adapter has never run
with the package: it was not to be had where this was written. A stand-in with the same signature
tests it.

From sources: `nvte_fused_rope_forward` and `nvte_fused_rope_backward` of
`common/fused_rope/fused_rope.cu`, with the arguments that
`transformer_engine/pytorch/csrc/extensions/apply_rope.cpp` gives them: fp32 angles (s, 1, 1, d), a
new contiguous output. Its build compiles the file with -O3 and without fast math.
"""

import importlib
from ctypes import CDLL

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.building import DTYPE_CODES, HERE, build, call, load
from benchmarks.peers.sources import TRANSFORMER_ENGINE
from benchmarks.providers.base import Provider
from benchmarks.providers.from_sources import BY_ITS_HOST_CODE, FromSources
from benchmarks.workload import Layout, Workload

_MODULES = ("attention.rope", "dot_product_attention.rope", "attention")
_FORMATS = {"sbhd": 0, "bshd": 1, "thd": 2}  # NVTE_QKV_Format of our stub


class TransformerEngine(Provider):
    """fp32 angles; one tensor a call; sbhd where the case's layout is none of its own."""

    name = "TransformerEngine"
    package, distribution = "transformer_engine", "transformer-engine"
    ids = False
    dtypes = ("float16", "bfloat16", "float32")

    def layout(self, case: Case) -> Layout:
        if case.tensor_format == "bhsd":
            return Layout("sbhd")
        return Layout(case.tensor_format, case.stored)

    def function(self, workload: Workload):
        apply = _find()
        options = {
            "tensor_format": self.layout(workload.case).tensor_format,
            "start_positions": workload.starts,
            "interleaved": workload.case.interleaved,
            "cu_seqlens": workload.cu_seqlens,
            "fused": True,
        }
        options = {name: value for name, value in options.items() if value is not None}
        angles = workload.angles()
        return lambda *tensors: tuple(apply(t, angles, **options) for t in tensors)


class TransformerEngineFromSources(FromSources, TransformerEngine):
    """The kernels alone, in sbhd or packed; new tensors."""

    source, measures, built_with = TRANSFORMER_ENGINE, BY_ITS_HOST_CODE, "-O3"
    starts = interleaves = False  # the launcher has no such arguments

    def layout(self, case: Case) -> Layout:
        return Layout("thd" if case.tensor_format == "thd" else "sbhd")

    def prepare(self) -> CDLL:
        stubs = HERE / "stubs" / "transformer_engine" / "fused_rope"  # for "../common.h" in it
        code = self.source.folder() / "transformer_engine" / "common" / "fused_rope"
        return load(build("transformer_engine", [stubs, code]))

    def function(self, workload: Workload):
        return self._rotation(workload, backward=False)

    def gradient(self, workload: Workload):
        return self._rotation(workload, backward=True)

    def _rotation(self, workload: Workload, backward: bool):
        case, rotate = workload.case, self.code.rotate
        angles, cuts = workload.angles(), workload.cu_seqlens
        order = self.layout(case).tensor_format
        s, b = case.s, case.b
        if cuts is not None:  # its grid has as many rows as the table: the longest sequence's
            s, b = int(cuts.diff().max()), len(cuts) - 1
            angles = angles[:s]

        def rotation(t: Tensor) -> tuple[Tensor]:
            out = torch.empty_like(t, memory_format=torch.contiguous_format)
            strides = [t.stride(order.index(dim)) if dim in order else 0 for dim in "sbhd"]
            strides[0] = t.stride(0) if order == "thd" else strides[0]
            sizes = s, b, case.h, case.d, angles.shape[-1]
            pointers = t, cuts, angles, out
            formats = DTYPE_CODES[t.dtype], _FORMATS[order]
            call(rotate, int(backward), *pointers, *formats, *sizes, *strides, t.shape[0])
            return (out,)

        return rotation


class TransformerEngineBshd(TransformerEngineFromSources):
    """The same with the batch first."""

    name = "TransformerEngine, bshd"

    def layout(self, case: Case) -> Layout:
        return Layout("bshd")

    def cannot(self, case: Case, direction: str) -> str | None:
        if case.tensor_format == "thd" or case.b == 1:
            return "the same memory in sbhd or thd is measured"
        return super().cannot(case, direction)


def _find():
    for name in _MODULES:
        try:
            module = importlib.import_module(f"transformer_engine.pytorch.{name}")
            return module.apply_rotary_pos_emb
        except (ModuleNotFoundError, AttributeError):
            continue
    raise ImportError(f"no apply_rotary_pos_emb in transformer_engine.pytorch's {_MODULES}")
