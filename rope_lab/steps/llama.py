"""A Llama of transformers for notebook 12: of random weights, and with another rotation in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

from .qwen3 import SMALL


def new_llama(
    device: str = "cpu", dtype: torch.dtype = torch.float32, shape: dict = SMALL
) -> LlamaForCausalLM:
    """The same random weights everywhere: they are drawn on the CPU, in fp32.

    Its attention is plain PyTorch, so that equal runs have equal bits.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(**shape, attn_implementation="eager"))
    inv_freq = model.model.rotary_emb.inv_freq
    model.to(device, dtype)
    model.model.rotary_emb.inv_freq = inv_freq.to(device)  # as `from_pretrained` keeps it, in fp32
    return model


@contextmanager
def rotated_by(rotation: Callable) -> Iterator[None]:
    """Every Llama rotates by this function of q, k, cos and sin for a while."""
    own = modeling_llama.apply_rotary_pos_emb
    modeling_llama.apply_rotary_pos_emb = rotation
    try:
        yield
    finally:
        modeling_llama.apply_rotary_pos_emb = own
