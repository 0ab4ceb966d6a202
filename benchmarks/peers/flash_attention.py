"""FlashAttention: its Triton rotary, by the function around it.

`apply_rotary(x, cos, sin, seqlen_offsets, cu_seqlens, max_seqlen, interleaved, inplace, conjugate)`
of `flash_attn/ops/triton/rotary.py`, imported alone. Its autograd function calls the same with
`conjugate=True` in the backward. cos and sin are half as wide as the head, in the dtype of x.
"""

from types import SimpleNamespace

from benchmarks.case import Case
from benchmarks.peers.importing import import_file
from benchmarks.peers.peer import Peer
from benchmarks.peers.sources import FLASH_ATTENTION
from benchmarks.workload import Layout, Workload


class FlashAttention(Peer):
    """bshd or thd; one tensor a call; new tensors."""

    name = "FlashAttention"
    source, measures = FLASH_ATTENTION, "its function apply_rotary"
    ids = False

    def layout(self, case: Case) -> Layout:
        return Layout("thd" if case.tensor_format == "thd" else "bshd")

    def cannot(self, case: Case, direction: str) -> str | None:
        if case.d > 256:
            return "head dimensions up to 256"
        return super().cannot(case, direction)

    def prepare(self) -> SimpleNamespace:
        path = self.source.folder() / "flash_attn" / "ops" / "triton" / "rotary.py"
        module = import_file(path, "flash_attn.ops.triton.rotary")
        return SimpleNamespace(apply_rotary=module.apply_rotary)

    def function(self, workload: Workload):
        return self._rotation(workload, conjugate=False)

    def gradient(self, workload: Workload):
        return self._rotation(workload, conjugate=True)

    def _rotation(self, workload: Workload, conjugate: bool):
        apply, (cos, sin) = self.calls.apply_rotary, workload.table(workload.x.dtype)
        options = {"interleaved": workload.case.interleaved, "conjugate": conjugate}
        if workload.starts is not None:
            options["seqlen_offsets"] = workload.starts
        if workload.cu_seqlens is not None:
            options["cu_seqlens"] = workload.cu_seqlens
            options["max_seqlen"] = int(workload.cu_seqlens.diff().max())
        return lambda t: (apply(t, cos, sin, **options),)
