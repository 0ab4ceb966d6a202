"""Qwen3 of transformers on several ranks: FSDP2, activation checkpointing, and `patch`."""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from rope_kernels.huggingface import patch

from .qwen3 import SMALL, loss_of, new_qwen3

WAYS = {"unpatched": None, "patched": {}, "with norms": {"norms": True}}  # options of `patch`


def sharded_qwen3(
    device: str, shape: dict = SMALL, dtype: torch.dtype = torch.float32
) -> nn.Module:
    """A model of which each rank keeps a part of the weights, and gathers a layer to run it."""
    model = new_qwen3(device, shape, dtype)
    model.gradient_checkpointing_enable()  # a layer runs again in the backward
    for layer in model.model.layers:
        fully_shard(layer)
    return fully_shard(model)


def patched(model: nn.Module, options: dict | None) -> AbstractContextManager:
    return nullcontext() if options is None else patch(model, strict=True, **options)


def train_on_ranks(device: str, options: dict | None, steps: int = 5) -> list[float]:
    """The losses of some steps, each the mean of all ranks, which have sequences of their own."""
    model, losses = sharded_qwen3(device), []
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    torch.manual_seed(dist.get_rank())
    with patched(model, options):
        for _ in range(steps):
            tokens = torch.randint(256, (2, 65)).to(device)
            loss = loss_of(model, tokens)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            mean = loss.detach() / dist.get_world_size()
            dist.all_reduce(mean)
            losses.append(mean.item())
    return losses
