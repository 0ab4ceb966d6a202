"""Unsloth: its Triton kernel, by its autograd function; in place, gradients too.

`Fast_RoPE_Embedding.apply(Q, cos, sin)` of `unsloth/kernels/rope_embedding.py`, imported alone; its
`fast_rope_embedding` calls this for q, then for k. What the file imports of the package is stood in
for. `calculate_settings` of `unsloth/kernels/utils.py` gives four warps to every head dimension
that is measured here.
"""

import contextlib
from types import SimpleNamespace

import torch

from benchmarks.case import Case
from benchmarks.peers.importing import import_file
from benchmarks.peers.peer import Peer
from benchmarks.peers.sources import UNSLOTH
from benchmarks.workload import Layout, Workload

_WIDEST = 2048  # from this many columns on the real function takes more warps


class Unsloth(Peer):
    """(b, s, h, d), one tensor a call; cos and sin (s, d), in the dtype of the tensor."""

    name = "Unsloth"
    source, measures = UNSLOTH, "its autograd function"
    interleaves = rotates_partly = packs = ids = starts = False
    dtypes = ("float16", "bfloat16", "float32")

    def layout(self, case: Case) -> Layout:
        return Layout("bshd")

    def overwrites(self, case: Case, direction: str) -> bool:
        return True

    def prepare(self) -> SimpleNamespace:
        utils = {
            "calculate_settings": calculate_settings,
            "torch_gpu_device": lambda device: contextlib.nullcontext(),
            "torch_device_stream": torch.cuda.current_stream,
        }
        module = import_file(
            self.source.folder() / "unsloth" / "kernels" / "rope_embedding.py",
            "unsloth.kernels.rope_embedding",
            {"unsloth.device_type": {"DEVICE_COUNT": 1}, "unsloth.kernels.utils": utils},
        )
        return SimpleNamespace(apply=module.Fast_RoPE_Embedding.apply)

    def function(self, workload: Workload):
        cos, sin = (torch.cat((x, x), dim=-1) for x in workload.table(workload.x.dtype))
        return lambda t: (self.calls.apply(t, cos, sin),)


def calculate_settings(columns: int) -> tuple[int, int]:
    """Block size and warps of a kernel, for rows below 2048 columns.

    Raises:
        ValueError: the row has 2048 columns or more.
    """
    block = 1 << (columns - 1).bit_length()
    if block >= _WIDEST:
        raise ValueError(f"columns is {columns}; accepted: up to {_WIDEST // 2}")
    return block, 4
