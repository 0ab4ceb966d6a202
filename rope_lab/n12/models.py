"""Models of transformers as notebook 12 runs them, and rotations to put into its Llama."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama import modeling_llama
from transformers.models.qwen3.modeling_qwen3 import eager_attention_forward

from rope_kernels import RotaryPositionEmbedding, rope_qk
from rope_kernels.huggingface import patch
from rope_kernels.norms import qk_norm_rope

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
    """Weights are random, drawn on the CPU, in fp32: the same everywhere."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(config)


def normed_forward(
    self: Any,
    hidden_states: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor | None,
    past_key_values: Any = None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """The forward of Qwen3Attention, with its norms and its rotation in one launch."""
    shape = (*hidden_states.shape[:-1], -1, self.head_dim)
    q = self.q_proj(hidden_states).view(shape)
    k = self.k_proj(hidden_states).view(shape)
    v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
    norms = {"eps": self.q_norm.variance_epsilon, "rounding": "model"}
    weights = self.q_norm.weight, self.k_norm.weight
    q, k = qk_norm_rope(q, k, *weights, position_embeddings, "bshd", **norms)
    q, k = q.transpose(1, 2), k.transpose(1, 2)
    if past_key_values is not None:
        k, v = past_key_values.update(k, v, self.layer_idx)
    name, dropout = self.config._attn_implementation, self.attention_dropout
    attend = ALL_ATTENTION_FUNCTIONS.get_interface(name, eager_attention_forward)
    out, of_heads = attend(
        self,
        q,
        k,
        v,
        attention_mask,
        dropout=dropout if self.training else 0.0,
        scaling=self.scaling,
        sliding_window=self.sliding_window,
        **options,
    )
    return self.o_proj(out.flatten(2)), of_heads


@contextmanager
def with_norms(model: Qwen3ForCausalLM) -> Iterator[None]:
    """In this context, the attentions of a model use `normed_forward`.

    Of the model and not of its class: a compiled model doesn't notice what a class was given later.
    """
    attentions = [layer.self_attn for layer in model.model.layers]
    for attention in attentions:
        attention.forward = partial(normed_forward, attention)
    try:
        yield
    finally:
        for attention in attentions:
            del attention.forward


# How a Qwen3 may run: what is entered with the model. A compiled one is measured with `patch`, too,
# although that has no effect on it.
WAYS = {
    "unpatched": nullcontext,
    "patched": partial(patch, strict=False),
    "with norms": with_norms,
}


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of each token after the first, in nats, in fp32."""
    logits = model(tokens[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


# rotations: in place of the Llama's `apply_rotary_pos_emb`


class RungRope(torch.autograd.Function):
    """Rung 7 for x (b, h, s, d), which it gets as a view (s, b, h, d)."""

    @staticmethod
    def forward(ctx, x: Tensor, angles: Tensor, my_rope: Callable) -> Tensor:
        ctx.save_for_backward(angles)
        ctx.my_rope = my_rope
        return my_rope(x.permute(2, 0, 1, 3), angles).permute(1, 2, 0, 3)

    @staticmethod
    def backward(ctx, grad: Tensor):
        (angles,) = ctx.saved_tensors
        dx = ctx.my_rope(grad.permute(2, 0, 1, 3), angles, transpose=True)
        return dx.permute(1, 2, 0, 3), None, None


def by_rung(my_rope: Callable, positions: int, head_dim: int, device: str) -> Callable:
    """Rung 7, or a kernel like it. It computes cos and sin from fp32 angles by itself."""
    angles = RotaryPositionEmbedding(head_dim).to(device)(positions)

    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return RungRope.apply(q, angles, my_rope), RungRope.apply(k, angles, my_rope)

    return rotate


def by_package(rounding: str = "model", fused: bool = True) -> Callable:
    """The package's kernel, with the model's own tables."""

    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return rope_qk(q, k, (cos, sin), "bhsd", rounding=rounding, fused=fused)

    return rotate


def nothing(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """No rotation: no RoPE kernel can be faster than the time that is left."""
    return q, k


def rotated_by(rotation: Callable) -> AbstractContextManager:
    """In this context, every Llama rotates with this function of q, k, cos and sin."""
    return mock.patch.object(modeling_llama, "apply_rotary_pos_emb", rotation)
