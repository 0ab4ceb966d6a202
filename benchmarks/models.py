"""Patched transformers models on a GPU: bits, launches per layer, time of a step.

A training step, forward and backward, of four layers in the shape of Llama 3 8B with random
weights, one sequence of 4096 tokens: unpatched, with its rotation patched, and for Qwen3 also with
norms and rotation in one launch. Steps alternate. The unpatched model is measured twice, which
shows the noise.
"""

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial

import torch
import transformers
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from rope_kernels.huggingface import patch
from rope_lab.compiler.plans import kernel_names
from rope_lab.n12.models import with_norms
from rope_lab.profiling.steps import Ways, kernels_of, step_us

LAYERS, TOKENS = 4, 4096
SHAPE = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DEEPSEEK = {"num_key_value_heads": 32, "first_k_dense_replace": LAYERS, "head_dim": 64}
GLM4_MOE = {"first_k_dense_replace": LAYERS, "use_qk_norm": True}  # no layer has experts
MODELS = {  # name on the page -> transformers' classes, options
    "Llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "Qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {}),
    "GLM4": ("Glm4Config", "Glm4ForCausalLM", {"num_key_value_heads": 2}),
    "GLM4-MoE, dense": ("Glm4MoeConfig", "Glm4MoeForCausalLM", GLM4_MOE),
    "Gemma 3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {}),
    "DeepSeek V3, dense": ("DeepseekV3Config", "DeepseekV3ForCausalLM", DEEPSEEK),
}


def steps(turns: int) -> Iterator[dict]:
    """A row of the page's table for each model."""
    for name, autocast in (*((name, False) for name in MODELS), ("Llama", True), ("Qwen3", True)):
        yield row_of(name, autocast, turns)


def row_of(name: str, autocast: bool, turns: int) -> dict:
    """Bits, launches and times of one model."""
    model, tokens = inputs(name, torch.float32 if autocast else torch.bfloat16)
    call, ways = (model, tokens, autocast), ways_of(name, model)
    wanted = results_of(*call)
    row = {"model": name, "precision": "autocast" if autocast else "bf16", "tokens": TOKENS}
    row |= {"tensors": len(wanted), "launches": {}}
    unpatched, _ = launches(*call)
    for way in ("patched", "norms"):
        if way in ways:
            with ways[way]():
                every, ours = launches(*call)
                if way == "patched":
                    row["differ"] = count_different(wanted, results_of(*call))
            before = (unpatched - every + ours) / LAYERS
            row["launches"][way] = {"before": before, "after": ours / LAYERS}
    del wanted
    turns = turns if "norms" in ways else min(turns, 8)
    times = step_us(ways, partial(train, *call), turns)
    return row | {"ms": {way: [round(us / 1e3, 3) for us in some] for way, some in times.items()}}


def inputs(name: str, dtype: torch.dtype) -> tuple[nn.Module, Tensor]:
    """A model with random weights, and tokens."""
    config, model, options = MODELS[name]
    torch.manual_seed(1)
    asked = getattr(transformers, config)(**SHAPE | options)
    with torch.device("cuda"):
        made = getattr(transformers, model)._from_config(asked, attn_implementation="sdpa")
        return made.to(dtype), torch.randint(3, SHAPE["vocab_size"], (1, TOKENS))


def ways_of(name: str, model: nn.Module) -> Ways:
    """The versions of a model, as context managers for one step."""
    ways = {"unpatched": nullcontext, "again": nullcontext, "patched": lambda: patch(model)}
    if name == "Qwen3":
        ways["norms"] = lambda: with_norms(model)
    return ways


def train(model: nn.Module, tokens: Tensor, autocast: bool) -> Tensor:
    """One step without an optimizer: the logits, and gradients of all parameters."""
    model.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        logits = model(tokens, use_cache=False).logits
        loss = nn.functional.cross_entropy(logits[0, :-1].float(), tokens[0, 1:])
    loss.backward()
    return logits.detach()


def results_of(model: nn.Module, tokens: Tensor, autocast: bool) -> list[Tensor]:
    """Logits and gradients, without fast attention, whose backward sums in a random order."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):
        warnings.simplefilter("ignore")
        logits = train(model, tokens, autocast)
    torch.use_deterministic_algorithms(False)
    found = [logits, *(p.grad for p in model.parameters() if p.grad is not None)]
    model.zero_grad(set_to_none=True)
    return found


def count_different(one: list[Tensor], other: list[Tensor]) -> int:
    """How many tensors differ in any bit."""
    return sum(not torch.equal(x, y) for x, y in zip(one, other, strict=True))


def launches(model: nn.Module, tokens: Tensor, autocast: bool) -> tuple[int, int]:
    """The number of kernels in a step: all, and ours."""
    train(model, tokens, autocast)
    kernels, names = kernels_of(partial(train, model, tokens, autocast)), kernel_names()
    return len(kernels), sum(kernel.name in names for kernel in kernels)
