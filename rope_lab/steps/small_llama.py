"""A small Llama in plain PyTorch. Notebook 12 patches its rotation.

As in the models of transformers, attention looks `apply_rotary_pos_emb` up in its module at every
call. So `small_llama.apply_rotary_pos_emb = mine` replaces it, and `rotated_by` does for a while.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Cache = dict[int, tuple[Tensor, Tensor]]  # layer -> rotated keys and values, (b, g, s, d)


@dataclass(frozen=True)
class Size:
    """What a Llama's configuration says. Tokens are bytes."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    mlp: int = 352
    vocabulary: int = 256


SIZE = Size()


def apply_rotary_pos_emb(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    """Rotate q (b, h, s, d) and k (b, g, s, d) by tables (b, s, d), in eager PyTorch."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotated_by(function: Callable) -> AbstractContextManager:
    """Rotate all models of this module by another function while the context lasts."""
    return patch.object(sys.modules[__name__], "apply_rotary_pos_emb", function)


class Rotary(nn.Module):
    """cos and sin of every position: computed in fp32, then rounded to the model's dtype."""

    def __init__(self, head_dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        self.inv_freq = base**-exponent  # no buffer, so that model.bfloat16() leaves it in fp32
        self.attention_factor = 1.0

    def forward(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        if self.inv_freq.device != positions.device:
            self.inv_freq = self.inv_freq.to(positions.device)
        angles = positions[..., None].float() * self.inv_freq
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos() * self.attention_factor, angles.sin() * self.attention_factor
        return cos.to(dtype), sin.to(dtype)


class RMSNorm(nn.Module):
    """Divide by the root mean square in fp32, round, then multiply by a weight."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        r = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide * r).to(x.dtype)


class Attention(nn.Module):
    """Causal attention in which `heads / kv_heads` queries share a key."""

    def __init__(self, size: Size, layer: int) -> None:
        super().__init__()
        self.layer, self.head_dim = layer, size.head_dim
        self.q = nn.Linear(size.width, size.heads * size.head_dim, bias=False)
        self.k = nn.Linear(size.width, size.kv_heads * size.head_dim, bias=False)
        self.v = nn.Linear(size.width, size.kv_heads * size.head_dim, bias=False)
        self.out = nn.Linear(size.heads * size.head_dim, size.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None) -> Tensor:
        b, s, _ = x.shape
        q, k, v = (
            linear(x).view(b, s, -1, self.head_dim).transpose(1, 2)  # (b, heads, s, head_dim)
            for linear in (self.q, self.k, self.v)
        )
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        if cache is not None:
            if self.layer in cache:
                old_k, old_v = cache[self.layer]
                k, v = torch.cat((old_k, k), dim=2), torch.cat((old_v, v), dim=2)
            cache[self.layer] = k, v
        causal = k.shape[2] == s  # with a cache there is one query, and it sees all keys
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(b, s, -1))


class Layer(nn.Module):
    """Attention and a SwiGLU MLP, each after a norm and added to its input."""

    def __init__(self, size: Size, layer: int) -> None:
        super().__init__()
        self.attention, self.norm = Attention(size, layer), RMSNorm(size.width)
        self.mlp_norm = RMSNorm(size.width)
        self.gate, self.up = (nn.Linear(size.width, size.mlp, bias=False) for _ in range(2))
        self.down = nn.Linear(size.mlp, size.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None = None) -> Tensor:
        x = x + self.attention(self.norm(x), cos, sin, cache)
        normal = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(normal)) * self.up(normal))


class SmallLlama(nn.Module):
    """Bytes in, logits of the next byte out."""

    def __init__(self, size: Size = SIZE) -> None:
        super().__init__()
        self.size, self.rotary = size, Rotary(size.head_dim)
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(Layer(size, layer) for layer in range(size.layers))
        self.norm = RMSNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(
        self, tokens: Tensor, positions: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Logits (b, s, 256) of tokens (b, s).

        Args:
            tokens: bytes; with a cache that has keys already, one for each sequence.
            positions: (b, s) or (1, s); by default they go on where the cache ends.
            cache: an empty dict, or that of the call before; it gets this call's keys and values.
        """
        x = self.embedding(tokens)
        if positions is None:
            past = cache[0][0].shape[2] if cache else 0
            positions = past + torch.arange(tokens.shape[1], device=tokens.device)[None]
        cos, sin = self.rotary(positions, x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin, cache)
        return self.head(self.norm(x))

    def loss(self, tokens: Tensor) -> Tensor:
        """Mean cross-entropy of each byte after the first, in nats, in fp32."""
        logits = self(tokens[:, :-1]).float()
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
