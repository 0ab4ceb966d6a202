"""Liger-Kernel: Triton, in place on q and k if their memory is (b, s, h, d), else on copies.

`liger_kernel.transformers.rope.liger_rotary_pos_emb(q, k, cos, sin, position_ids=None,
unsqueeze_dim=1, rotary_dim=None)`, read in 0.8.5, whose wheel needs torch and Triton alone. The
backward overwrites the gradients that it is given, likewise.
"""

from benchmarks.case import Case
from benchmarks.providers.base import Provider
from benchmarks.providers.hugging_face import as_models_have_them
from benchmarks.workload import Layout, Workload


class Liger(Provider):
    """cos and sin of each token in the dtype of q, as Hugging Face's models hand them over."""

    name = "Liger-Kernel"
    package, distribution = "liger_kernel", "liger-kernel"
    interleaves = packs = False
    takes_a_pair = True
    dtypes = ("float16", "bfloat16", "float32")

    def layout(self, case: Case) -> Layout:
        return as_models_have_them(case)

    def overwrites(self, case: Case, direction: str) -> bool:
        return self.layout(case).memory == "bshd"

    def function(self, workload: Workload):
        from liger_kernel.transformers.rope import liger_rotary_pos_emb

        cos, sin = workload.cos_sin(workload.x.dtype)
        return lambda q, k: liger_rotary_pos_emb(q, k, cos, sin)
