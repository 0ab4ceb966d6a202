"""FlashAttention: its Triton rotary, of the installed package or from its sources.

Installed: `flash_attn.layers.rotary.apply_rotary_emb(x, cos, sin, interleaved=False, inplace=False,
seqlen_offsets=0, cu_seqlens=None, max_seqlen=None)`, read in 2.8.3.post2. This adapter has never
run with the package: it was not to be had where this was written. A stand-in with the same
signature tests it.

From sources: `apply_rotary`, with the same arguments and `conjugate`, of
`flash_attn/ops/triton/rotary.py`, imported alone. The autograd function around it calls the same
with `conjugate=True` in the backward.
"""

from types import ModuleType

from benchmarks.case import Case
from benchmarks.peers.importing import import_file
from benchmarks.peers.sources import FLASH_ATTENTION
from benchmarks.providers.base import Provider
from benchmarks.providers.from_sources import FromSources
from benchmarks.workload import Layout, Workload


class FlashAttention(Provider):
    """bshd or thd; one tensor a call; cos and sin of each pair, in the dtype of x."""

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

        return _rotation(apply_rotary_emb, workload, inplace=workload.case.inplace)


class FlashAttentionFromSources(FromSources, FlashAttention):
    """The function around the kernel; new tensors."""

    source, measures = FLASH_ATTENTION, "its function apply_rotary"

    def overwrites(self, case: Case, direction: str) -> bool:
        return False

    def prepare(self) -> ModuleType:
        path = self.source.folder() / "flash_attn" / "ops" / "triton" / "rotary.py"
        return import_file(path, "flash_attn.ops.triton.rotary")

    def function(self, workload: Workload):
        return _rotation(self.code.apply_rotary, workload, conjugate=False)

    def gradient(self, workload: Workload):
        return _rotation(self.code.apply_rotary, workload, conjugate=True)


def _rotation(apply, workload: Workload, **options):
    cos, sin = workload.table(workload.x.dtype)
    options["interleaved"] = workload.case.interleaved
    if workload.starts is not None:
        options["seqlen_offsets"] = workload.starts
    if workload.cu_seqlens is not None:
        options["cu_seqlens"] = workload.cu_seqlens
        options["max_seqlen"] = int(workload.cu_seqlens.diff().max())
    return lambda *tensors: tuple(apply(t, cos, sin, **options) for t in tensors)
