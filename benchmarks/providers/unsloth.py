"""Unsloth: its Triton kernel, of the installed package or from its sources.

Installed: `unsloth.kernels.rope_embedding.fast_rope_embedding(Q, K, cos, sin,
rope_embedding_indices=None)`, read in 2026.10.9: in place on q and k if their memory is
(b, s, h, d), else into new tensors; gradients always go into new tensors. This adapter has never
run with the package: it was not to be had where this was written. A stand-in with the same
signature tests it.

From sources: `Fast_RoPE_Embedding.apply(Q, cos, sin)` of `unsloth/kernels/rope_embedding.py`,
imported alone. What the file imports of the package is stood in for. The public function calls the
same kernel with q and k in one launch.
"""

import contextlib
from types import ModuleType

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.peers.importing import import_file
from benchmarks.peers.sources import UNSLOTH
from benchmarks.providers.base import Provider
from benchmarks.providers.from_sources import FromSources
from benchmarks.providers.hugging_face import as_models_have_them
from benchmarks.workload import Layout, Workload


class Unsloth(Provider):
    """cos and sin (s, d), in the dtype of q; other positions than the index as one a token."""

    name = "Unsloth"
    package = distribution = "unsloth"
    interleaves = rotates_partly = packs = False
    takes_a_pair = True
    dtypes = ("float16", "bfloat16", "float32")

    def layout(self, case: Case) -> Layout:
        return as_models_have_them(case)

    def overwrites(self, case: Case, direction: str) -> bool:
        by_index = case.positions == "index"
        return direction == "forward" and self.layout(case).memory == (
            "bshd" if by_index else "bhsd"
        )

    def function(self, workload: Workload):
        from unsloth.kernels.rope_embedding import fast_rope_embedding

        cos, sin = _cos_and_sin(workload)
        indices = None
        if workload.case.positions != "index":
            indices = workload.positions.reshape(-1).to(torch.int32)
        return lambda q, k: fast_rope_embedding(q, k, cos, sin, indices)


class UnslothFromSources(FromSources, Unsloth):
    """The autograd function of one tensor (b, s, h, d): in place, gradients into new tensors."""

    source, measures = UNSLOTH, "its autograd function"
    ids = starts = takes_a_pair = False

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
        cos, sin = _cos_and_sin(workload)
        apply = self.code.Fast_RoPE_Embedding.apply
        return lambda t: (apply(t, cos, sin),)


def _cos_and_sin(workload: Workload) -> tuple[Tensor, ...]:
    return tuple(torch.cat((x, x), dim=-1) for x in workload.table(workload.x.dtype))


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
