"""Unsloth: its Triton kernel, from its sources.

`Fast_RoPE_Embedding.apply(Q, cos, sin)` of `unsloth/kernels/rope_embedding.py`, imported alone.
What the file imports of the package is stood in for. The public function calls the same kernel with
q and k in one launch.
"""

import contextlib
from types import ModuleType

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.code import import_file
from benchmarks.peers.sources import Source
from benchmarks.provider import FromSources
from benchmarks.workload import Layout, Workload


class Unsloth(FromSources):
    """The autograd function of one tensor (b, s, h, d): in place, gradients into new tensors.

    cos and sin are (s, d), in the dtype of the tensor.
    """

    name = "Unsloth"
    source = Source(
        "Unsloth",
        "https://github.com/unslothai/unsloth",
        "release 2026.10.9",
        {"unsloth/kernels/rope_embedding.py": "dc5f3962688a113811bdeef02c501141b0b6e899"},
    )
    measures = "its autograd function"
    interleaves = rotates_partly = packs = False
    ids = starts = False
    dtypes = ("float16", "bfloat16", "float32")

    def layout(self, case: Case) -> Layout:
        return Layout("bshd")

    def overwrites(self, case: Case, direction: str) -> bool:
        return direction == "forward"

    def prepare(self) -> ModuleType:
        return import_file(
            self.source.folder() / "unsloth" / "kernels" / "rope_embedding.py",
            "unsloth.kernels.rope_embedding",
            {
                "unsloth.device_type": {"DEVICE_COUNT": 1, "DEVICE_TYPE_TORCH": "cuda"},
                "unsloth.kernels.utils": _utils(),
                "unsloth.kernels.rms_layernorm": _tracing(),
            },
        )

    def function(self, workload: Workload):
        cos, sin = (torch.cat((x, x), dim=-1) for x in workload.table(workload.x.dtype))
        apply = self.code.Fast_RoPE_Embedding.apply
        return lambda *tensors: tuple(apply(t, cos, sin) for t in tensors)


def needs_long_indices(*tensors: Tensor, block: int = 0) -> bool:
    """Is there an element that 32 bits do not reach, a block past the end included?"""
    return any(t.numel() + block >= 2**31 for t in tensors)


def _utils() -> dict:
    import triton

    return {
        "long_indexing": needs_long_indices,
        "next_power_of_2": triton.next_power_of_2,
        "torch_gpu_device": lambda device: contextlib.nullcontext(),  # one GPU: nothing to switch
        "torch_device_stream": lambda device: torch.cuda.current_stream(device),
    }


def _tracing() -> dict:
    """What it needs under torch.compile, switched off; eager calls take the kernel as it is."""
    return {
        "_TRACEABLE": False,
        "_BF16_TRACEABLE": False,
        "_eager_kernel": lambda kernel: kernel,
        "_traced_kernel": None,
        "_tag_compile_cache": None,
    }


PROVIDERS = (Unsloth(),)
