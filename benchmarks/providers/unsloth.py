"""Unsloth: its Triton kernel, from its sources.

`Fast_RoPE_Embedding.apply(Q, cos, sin)` of `unsloth/kernels/rope_embedding.py`, imported alone.
What the file imports of the package is stood in for. The public function calls the same kernel with
q and k in one launch.
"""

import contextlib

import torch

from benchmarks.case import Case
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
    rotates_partly = packs = False

    def layout(self, case: Case) -> Layout:
        return Layout("bshd")

    def overwrites(self, case: Case, direction: str) -> bool:
        return direction == "forward"

    def stand_ins(self) -> dict[str, dict]:
        import triton

        return {
            "unsloth.device_type": {"DEVICE_COUNT": 1, "DEVICE_TYPE_TORCH": "cuda"},
            "unsloth.kernels.utils": {
                "long_indexing": lambda *tensors, **_: any(t.numel() >= 2**31 for t in tensors),
                "next_power_of_2": triton.next_power_of_2,
                "torch_gpu_device": lambda device: contextlib.nullcontext(),  # one GPU
                "torch_device_stream": lambda device: torch.cuda.current_stream(device),
            },
            "unsloth.kernels.rms_layernorm": {  # tracing, for torch.compile, switched off
                **{"_TRACEABLE": False, "_BF16_TRACEABLE": False, "_traced_kernel": None},
                **{"_tag_compile_cache": None, "_eager_kernel": lambda kernel: kernel},
            },
        }

    def function(self, workload: Workload):
        cos, sin = (torch.cat((x, x), dim=-1) for x in workload.table(workload.x.dtype))
        apply = self.code.Fast_RoPE_Embedding.apply
        return lambda *tensors: tuple(apply(t, cos, sin) for t in tensors)


PROVIDERS = (Unsloth(),)
