"""FlashAttention: its Triton rotary, from its sources.

`apply_rotary(x, cos, sin, seqlen_offsets=0, cu_seqlens=None, max_seqlen=None, interleaved=False,
inplace=False, conjugate=False)` of `flash_attn/ops/triton/rotary.py`, imported alone. The autograd
function around it calls the same with `conjugate=True` in the backward.
"""

from benchmarks.case import Case
from benchmarks.peers.sources import Source
from benchmarks.provider import FromSources
from benchmarks.workload import Layout, Workload


class FlashAttention(FromSources):
    """bshd or thd; one tensor a call, into a new one; cos and sin of each pair, in its dtype."""

    name = "FlashAttention"
    source = Source(
        "FlashAttention",
        "https://github.com/Dao-AILab/flash-attention",
        "commit 0251105a2fb19d2957484b7f023cd8c115286ced",
        {"flash_attn/ops/triton/rotary.py": "ff4017fda3e4a6e18cf3a51b34f0fb073d8f678a"},
    )
    measures = "its function apply_rotary"

    def layout(self, case: Case) -> Layout:
        return Layout("thd" if case.tensor_format == "thd" else "bshd")

    def cannot(self, case: Case, direction: str) -> str | None:
        if case.d > 256:
            return "head dimensions up to 256"
        return super().cannot(case, direction)

    def function(self, workload: Workload):
        return self._rotation(workload, conjugate=False)

    def gradient(self, workload: Workload):
        return self._rotation(workload, conjugate=True)

    def _rotation(self, workload: Workload, **options):
        cos, sin = workload.table(workload.x.dtype)
        apply = self.code.apply_rotary
        if workload.cu_seqlens is not None:
            options["cu_seqlens"] = workload.cu_seqlens
            options["max_seqlen"] = int(workload.cu_seqlens.diff().max())
        return lambda *tensors: tuple(apply(t, cos, sin, **options) for t in tensors)


PROVIDERS = (FlashAttention(),)
