"""Liger-Kernel: its Triton kernel, from its sources.

It works in place on q and k if their memory is (b, s, h, d), else on copies; the backward
overwrites the gradients that it is given, likewise. `rope_forward(q, k, cos, sin)` and
`rope_backward(dq, dk, cos, sin)` of `src/liger_kernel/ops/rope.py` are imported alone. Its autograd
function calls these two.
"""

from benchmarks.case import Case
from benchmarks.peers.sources import Source
from benchmarks.provider import FromSources
from benchmarks.providers.hugging_face import as_models_have_them
from benchmarks.workload import Layout, Workload


class Liger(FromSources):
    """cos and sin of each token in the dtype of q, as Hugging Face's models hand them over."""

    name = "Liger-Kernel"
    source = Source(
        "Liger-Kernel",
        "https://github.com/linkedin/Liger-Kernel",
        "release 0.8.5",
        {"src/liger_kernel/ops/rope.py": "4a650eae3bc86f100b831b324a4f0812fff87cdc"},
    )
    measures = "its functions rope_forward and rope_backward"
    packs = rotates_partly = False
    takes_a_pair = True

    def layout(self, case: Case) -> Layout:
        return as_models_have_them(case)

    def overwrites(self, case: Case, direction: str) -> bool:
        return self.layout(case).memory == "bshd"

    def function(self, workload: Workload):
        cos, sin = workload.cos_sin(workload.x.dtype)
        return lambda q, k: self.code.rope_forward(q, k, cos, sin)[:2]

    def gradient(self, workload: Workload):
        cos, sin = workload.cos_sin(workload.x.dtype)
        return lambda dq, dk: self.code.rope_backward(dq, dk, cos, sin)[:2]


PROVIDERS = (Liger(),)
