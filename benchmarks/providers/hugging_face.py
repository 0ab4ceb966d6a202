"""Hugging Face transformers: the function of its Llama, eager and compiled.

`transformers.models.llama.modeling_llama.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1)`,
read in transformers 5.23.0. cos and sin come as its `LlamaRotaryEmbedding` hands them over: of each
token, in the dtype of q. Where the case is bhsd, q and k lie in memory as the case says; else as
the model's projections leave them, views of (b, s, h, d).
"""

from importlib.metadata import version

import torch

from benchmarks.case import Case
from benchmarks.provider import Provider
from benchmarks.workload import Layout, Workload


class HuggingFace(Provider):
    """Eager: new tensors by elementwise PyTorch."""

    name = "Hugging Face"
    rotates_partly = packs = False
    takes_a_pair = True

    @property
    def origin(self) -> str:
        return f"transformers {version('transformers')}"

    def layout(self, case: Case) -> Layout:
        return as_models_have_them(case)

    def function(self, workload: Workload):
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        return self._with_tables(workload, apply_rotary_pos_emb)

    def _with_tables(self, workload: Workload, apply):
        cos, sin = workload.cos_sin(workload.x.dtype)
        return lambda q, k: tuple(apply(q, k, cos, sin))


class HuggingFaceCompiled(HuggingFace):
    """The same by torch.compile, each shape for itself."""

    name = "Hugging Face, compiled"

    def _with_tables(self, workload: Workload, apply):
        return super()._with_tables(workload, torch.compile(apply))


def as_models_have_them(case: Case) -> Layout:
    """(b, h, s, d), as views of (b, s, h, d) memory unless the case says another order."""
    if case.tensor_format == "bhsd":
        return Layout("bhsd", case.stored, pair=True)
    return Layout("bhsd", "bshd", pair=True)


PROVIDERS = HuggingFace(), HuggingFaceCompiled()
