"""TransformerEngine: its CUDA kernels, from its sources.

`nvte_fused_rope_forward` and `nvte_fused_rope_backward` of `common/fused_rope/fused_rope.cu`, with
the arguments that `transformer_engine/pytorch/csrc/extensions/apply_rope.cpp` gives them: fp32
angles (s, 1, 1, d), a new contiguous output. Its build compiles the file with -O3 and without fast
math.
"""

from ctypes import CDLL

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.code import DTYPE_CODES, HERE, build, call
from benchmarks.peers.sources import Source
from benchmarks.provider import BY_ITS_HOST_CODE, FromSources
from benchmarks.workload import Layout, Workload

_FORMATS = {"sbhd": 0, "bshd": 1, "thd": 2}  # NVTE_QKV_Format of our stub


class TransformerEngine(FromSources):
    """The kernels alone, in bshd or packed; one tensor a call, into a new one."""

    name = "TransformerEngine"
    source = Source(
        "TransformerEngine",
        "https://github.com/NVIDIA/TransformerEngine",
        "commit d0067d0da6cb01811b8072a7d304f0e00344ce2b",
        {
            "transformer_engine/common/fused_rope/fused_rope.cu": (
                "c7b762e9731d68f67fde71bd9c4f08b1d1c6e900"
            )
        },
    )
    measures, built_with = BY_ITS_HOST_CODE, "-O3"

    def layout(self, case: Case) -> Layout:
        return Layout("thd" if case.tensor_format == "thd" else "bshd")  # faster than sbhd

    def prepare(self) -> CDLL:
        stubs = HERE / "stubs" / "transformer_engine" / "fused_rope"  # for "../common.h" in it
        code = self.source.folder() / "transformer_engine" / "common" / "fused_rope"
        return build("transformer_engine", [stubs, code])

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

        def rotation(*tensors: Tensor) -> tuple[Tensor, ...]:
            return tuple(rotated(t) for t in tensors)

        def rotated(t: Tensor) -> Tensor:
            out = torch.empty_like(t, memory_format=torch.contiguous_format)
            strides = [t.stride(order.index(dim)) if dim in order else 0 for dim in "sbhd"]
            strides[0] = t.stride(0) if order == "thd" else strides[0]
            sizes = s, b, t.shape[-2], case.d, angles.shape[-1]
            pointers = t, cuts, angles, out
            formats = DTYPE_CODES[t.dtype], _FORMATS[order]
            call(rotate, int(backward), *pointers, *formats, *sizes, *strides, t.shape[0])
            return out

        return rotation


PROVIDERS = (TransformerEngine(),)
