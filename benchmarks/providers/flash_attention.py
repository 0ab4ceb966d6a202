"""FlashAttention: its Triton rotary.

`flash_attn.layers.rotary.apply_rotary_emb(x, cos, sin, interleaved=False, inplace=False,
seqlen_offsets=0, cu_seqlens=None, max_seqlen=None)`, read in 2.8.3.post2; cos and sin of each
position and pair, in the dtype of x, as its own module makes them. This adapter has never run with
the package: it was not to be had where this was written. A stand-in with the same signature tests
it.
"""

from benchmarks.case import Case
from benchmarks.providers.base import Provider
from benchmarks.workload import Layout, Workload


class FlashAttention(Provider):
    """bshd or thd; one tensor a call; in place where the case is."""

    name = "FlashAttention"
    package, distribution = "flash_attn", "flash-attn"
    ids = False

    def layout(self, case: Case) -> Layout:
        return Layout("thd" if case.tensor_format == "thd" else "bshd")

    def cannot(self, case: Case, direction: str) -> str | None:
        if case.d > 256:
            return "head dimensions up to 256"
        return super().cannot(case, direction)

    def overwrites(self, case: Case, direction: str) -> bool:
        return case.inplace

    def function(self, workload: Workload):
        from flash_attn.layers.rotary import apply_rotary_emb

        case, (cos, sin) = workload.case, workload.table(workload.x.dtype)
        options = {"interleaved": case.interleaved, "inplace": case.inplace}
        if workload.starts is not None:
            options["seqlen_offsets"] = workload.starts
        if workload.cu_seqlens is not None:
            options["cu_seqlens"] = workload.cu_seqlens
            options["max_seqlen"] = int(workload.cu_seqlens.diff().max())
        return lambda *tensors: tuple(apply_rotary_emb(t, cos, sin, **options) for t in tensors)
