"""Everybody who is measured: the limits, ours, the others; in the order of the tables."""

from benchmarks.bars import COS_AND_SIN, ON_THE_FLY
from benchmarks.providers import norm
from benchmarks.providers.base import Provider
from benchmarks.providers.flash_attention import FlashAttention, FlashAttentionFromSources
from benchmarks.providers.flashinfer import (
    FlashInfer,
    FlashInferFromSources,
    FlashInferInPlace,
    FlashInferOnTheFly,
)
from benchmarks.providers.hugging_face import HuggingFace, HuggingFaceCompiled
from benchmarks.providers.liger import Liger, LigerFromSources
from benchmarks.providers.limits import Copy, TimesTwo
from benchmarks.providers.ours import Ours
from benchmarks.providers.pytorch import Compiled, PyTorch
from benchmarks.providers.transformer_engine import (
    TransformerEngine,
    TransformerEngineBshd,
    TransformerEngineFromSources,
)
from benchmarks.providers.unsloth import Unsloth, UnslothFromSources
from benchmarks.providers.vllm import Vllm, VllmPair
from benchmarks.rows import LIMITS, OURS

__all__ = ["FROM_SOURCES", "LIMITS", "NORMS", "OURS", "PROVIDERS"]


def _by_name(*providers: Provider) -> dict[str, Provider]:
    return {provider.name: provider for provider in providers}


_OURS = (Ours(OURS), Ours(ON_THE_FLY, "module"), Ours(COS_AND_SIN, "cos and sin"))
_ELSEWHERE = (PyTorch(), Compiled(), HuggingFace(), HuggingFaceCompiled())

# who rotates: kernels of other projects by their installed packages ...
PROVIDERS = _by_name(
    *(Copy(), TimesTwo(), *_OURS, *_ELSEWHERE),
    *(Liger(), TransformerEngine(), FlashAttention(), FlashInfer(), Unsloth()),
)
# ... or built and imported from their sources, without these packages
FROM_SOURCES = _by_name(
    *(Copy(), *_OURS),
    *(TransformerEngineFromSources(), TransformerEngineBshd(), FlashAttentionFromSources()),
    *(FlashInferFromSources(), FlashInferInPlace(), FlashInferOnTheFly()),
    *(Vllm(), VllmPair(), UnslothFromSources(), LigerFromSources()),
    *_ELSEWHERE,
)
# who normalizes and rotates
NORMS = _by_name(Copy(), *norm.EVERYBODY)
