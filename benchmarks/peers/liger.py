"""Liger-Kernel: its Triton kernel, by the functions around it; q and k at once, in place.

`rope_forward(q, k, cos, sin)` and `rope_backward(dq, dk, cos, sin)` of
`src/liger_kernel/ops/rope.py`, imported alone. Its autograd function calls these two. They work in
place if the memory is (b, s, h, d), as it is here.
"""

from types import SimpleNamespace

from benchmarks.case import Case
from benchmarks.peers.importing import import_file
from benchmarks.peers.peer import Peer
from benchmarks.peers.sources import LIGER
from benchmarks.workload import Layout, Workload


class Liger(Peer):
    """(b, h, s, d) as views of (b, s, h, d) memory; cos and sin (1, s, d) in the dtype of q."""

    name = "Liger-Kernel"
    source, measures = LIGER, "its functions rope_forward and rope_backward"
    interleaves = rotates_partly = packs = False
    takes_a_pair = True
    dtypes = ("float16", "bfloat16", "float32")

    def layout(self, case: Case) -> Layout:
        return Layout("bhsd", "bshd", pair=True)

    def overwrites(self, case: Case, direction: str) -> bool:
        return True

    def prepare(self) -> SimpleNamespace:
        path = self.source.folder() / "src" / "liger_kernel" / "ops" / "rope.py"
        module = import_file(path, "liger_kernel.ops.rope")
        return SimpleNamespace(forward=module.rope_forward, backward=module.rope_backward)

    def function(self, workload: Workload):
        cos, sin = workload.cos_sin(workload.x.dtype)
        return lambda q, k: self.calls.forward(q, k, cos, sin)[:2]

    def gradient(self, workload: Workload):
        cos, sin = workload.cos_sin(workload.x.dtype)
        return lambda dq, dk: self.calls.backward(dq, dk, cos, sin)[:2]
