"""Everybody who is measured, in the order of the tables: the limit, ours, then the peers."""

from benchmarks.bars import COS_AND_SIN, ON_THE_FLY
from benchmarks.peers.flash_attention import FlashAttention
from benchmarks.peers.flashinfer import FlashInfer, FlashInferInPlace, FlashInferOnTheFly
from benchmarks.peers.liger import Liger
from benchmarks.peers.transformer_engine import TransformerEngine, TransformerEngineBshd
from benchmarks.peers.unsloth import Unsloth
from benchmarks.peers.vllm import Vllm, VllmPair
from benchmarks.providers import OURS, PROVIDERS
from benchmarks.providers.base import Provider

_OF_THE_BENCHMARK = ("copy_", OURS, ON_THE_FLY, COS_AND_SIN)
_MODELS = ("Hugging Face", "Hugging Face, compiled")

EVERYBODY: tuple[Provider, ...] = (
    *(PROVIDERS[name] for name in _OF_THE_BENCHMARK),
    TransformerEngine(),
    TransformerEngineBshd(),
    FlashAttention(),
    FlashInfer(),
    FlashInferInPlace(),
    FlashInferOnTheFly(),
    Vllm(),
    VllmPair(),
    Unsloth(),
    Liger(),
    *(PROVIDERS[name] for name in _MODELS),
)
EVERYBODY_BY_NAME = {provider.name: provider for provider in EVERYBODY}
