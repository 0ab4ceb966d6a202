"""Everybody who is measured, in the order of the tables' columns."""

from benchmarks.bars import COS_AND_SIN, ON_THE_FLY
from benchmarks.providers.base import Provider
from benchmarks.providers.flash_attention import FlashAttention
from benchmarks.providers.flashinfer import FlashInfer
from benchmarks.providers.hugging_face import HuggingFace, HuggingFaceCompiled
from benchmarks.providers.liger import Liger
from benchmarks.providers.limits import Copy, TimesTwo
from benchmarks.providers.ours import Ours
from benchmarks.providers.pytorch import Compiled, PyTorch
from benchmarks.providers.transformer_engine import TransformerEngine
from benchmarks.providers.unsloth import Unsloth
from benchmarks.rows import LIMITS, OURS

__all__ = ["LIMITS", "OURS", "PROVIDERS"]

PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        Copy(),
        TimesTwo(),
        PyTorch(),
        Compiled(),
        HuggingFace(),
        HuggingFaceCompiled(),
        Liger(),
        TransformerEngine(),
        FlashAttention(),
        FlashInfer(),
        Unsloth(),
        Ours(COS_AND_SIN, "cos and sin"),
        Ours(ON_THE_FLY, "module"),
        Ours(OURS),
    )
}
