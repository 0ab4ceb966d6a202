"""Models of transformers as notebook 12 runs them: of random weights, in any shape."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

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
    return _new(Qwen3ForCausalLM, Qwen3Config(**shape)).to(device, dtype)


def new_llama(device: str = "cpu", dtype: torch.dtype = torch.float32) -> LlamaForCausalLM:
    """Its attention is plain PyTorch, so that equal runs have equal bits."""
    model = _new(LlamaForCausalLM, LlamaConfig(**SMALL, attn_implementation="eager"))
    inv_freq = model.model.rotary_emb.inv_freq
    model.to(device, dtype)
    model.model.rotary_emb.inv_freq = inv_freq.to(device)  # as `from_pretrained` keeps it, in fp32
    return model


def _new(kind: type[nn.Module], config) -> nn.Module:
    """Weights are drawn on the CPU, in fp32: the same everywhere."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(config)


def patched(model: nn.Module, options: dict | None) -> AbstractContextManager:
    return nullcontext() if options is None else patch(model, strict=True, **options)


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of each token after the first, in nats, in fp32."""
    logits = model(tokens[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
