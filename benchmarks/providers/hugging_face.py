"""Hugging Face transformers: the function of its Llama, eager and compiled.

`transformers.models.llama.modeling_llama.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1)`,
read in transformers 5.23.0. cos and sin come as its `LlamaRotaryEmbedding` hands them over: of each
token, in the dtype of q.

A model's projections leave q and k as views of (b, s, h, d) memory, and attention hands back
gradients in that order or contiguous. A compiled backward copies a view before it starts. So both
orders are measured, of tensors and gradients alike, and the rows' names say which. Where the case
itself is bhsd it says the order, and one row is enough.
"""

from importlib.metadata import version

from benchmarks.case import Case
from benchmarks.provider import Function, Provider
from benchmarks.providers.pytorch import COMPILED, compiled
from benchmarks.workload import Layout, Workload, own_layout

VIEWS, CONTIGUOUS = "bshd", "bhsd"  # how (b, h, s, d) lies in memory


class HuggingFace(Provider):
    """Eager: new tensors by elementwise PyTorch."""

    base_name = "Hugging Face"
    rotates_partly = packs = False
    takes_a_pair = True

    def __init__(self, memory: str = VIEWS) -> None:
        self.memory = memory
        self.name = self.base_name + (", contiguous" if memory == CONTIGUOUS else "")

    @property
    def origin(self) -> str:
        return f"transformers {version('transformers')}"

    def layout(self, case: Case) -> Layout:
        return as_models_have_them(case, self.memory)

    def cannot(self, case: Case, direction: str) -> str | None:
        if case.tensor_format == "bhsd" and self.memory != VIEWS:
            return f"that is {self.base_name} itself here"
        return super().cannot(case, direction)

    def function(self, workload: Workload) -> Function:
        cos, sin = workload.cos_sin(workload.x.dtype)
        apply = self.apply()
        return lambda q, k: tuple(apply(q, k, cos, sin))

    def apply(self) -> Function:
        """The project's function."""
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        return apply_rotary_pos_emb


class HuggingFaceCompiled(HuggingFace):
    """The same by torch.compile."""

    base_name = "Hugging Face, compiled"
    measures = COMPILED

    def apply(self) -> Function:
        return compiled(super().apply())


def as_models_have_them(case: Case, memory: str = VIEWS) -> Layout:
    """(b, h, s, d), as views of (b, s, h, d) memory unless another order is asked for."""
    if case.tensor_format == "bhsd":
        return own_layout(case, pair=True)
    return Layout("bhsd", memory, pair=True)


PROVIDERS = (
    HuggingFace(),
    HuggingFace(CONTIGUOUS),
    HuggingFaceCompiled(),
    HuggingFaceCompiled(CONTIGUOUS),
)
