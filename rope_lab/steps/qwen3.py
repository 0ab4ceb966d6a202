"""Qwen3 as notebook 12 trains it: of random weights, in the shape that it asks for."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import Qwen3Config, Qwen3ForCausalLM

from rope_kernels.huggingface import patch

WAYS = {"unpatched": None, "patched": {}, "with norms": {"norms": True}}  # options of `patch`
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "vocab_size": 256,
}
SHAPE_8B = SMALL | {  # two of 36 layers, and a part of the vocabulary
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 32000,
}


def new_qwen3(
    device: str, shape: dict = SMALL, dtype: torch.dtype = torch.float32
) -> Qwen3ForCausalLM:
    """The same random weights everywhere: they are drawn on the CPU, in fp32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Qwen3ForCausalLM(Qwen3Config(**shape)).to(device, dtype)


def patched(model: nn.Module, options: dict | None) -> AbstractContextManager:
    return nullcontext() if options is None else patch(model, strict=True, **options)


def loss_of(model: Qwen3ForCausalLM, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of each token after the first, in nats, in fp32."""
    logits = model(tokens[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
