"""Notebook 12's measurements of transformers models on a GPU: launches, time, and bits.

`device` and the sizes are arguments so that a test can run each experiment small and on a CPU.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaDecoderLayer,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from ..profiling import steps
from ..rungs import rung_7_any_input
from . import models
from .models import SHAPE_8B, SMALL, WAYS, loss_of, rotated_by

ROUNDINGS = ("once", "upcast", "promoted", "model")
LLAMA_8B = SHAPE_8B | {"intermediate_size": 14336}
SHAPES = {  # layer -> its configuration, sequences, positions
    "small layer": (SMALL, 16, 256),
    "Llama-3-8B layer": (LLAMA_8B, 1, 8192),
}
HOW = ("eager", "compiled")  # a test leaves the second out, which takes a minute


def rotations(shape: dict, positions: int, device: str) -> dict[str, Callable]:
    """Every rotation that is compared: PyTorch's own, our rung 7, the package's, and none."""
    return {
        "PyTorch": apply_rotary_pos_emb,
        "rung 7": models.by_rung(rung_7_any_input.my_rope, positions, shape["head_dim"], device),
        "package": models.by_package(),
        "none": models.nothing,
    }


def tables(shape: dict, x: Tensor, s: int) -> tuple[Tensor, Tensor]:
    """The model's cos and sin for s positions, in the dtype of x."""
    rotary = LlamaRotaryEmbedding(LlamaConfig(**shape)).to(x.device)
    return rotary(x, torch.arange(s, device=x.device)[None])


def layer_step(shape: dict, b: int, s: int, device: str, compiled: bool) -> Callable[[], object]:
    """A call of one layer in bf16, forward and backward."""
    torch.manual_seed(0)
    config = LlamaConfig(**shape, attn_implementation="sdpa")
    layer = LlamaDecoderLayer(config, 0).to(device, torch.bfloat16)
    x = torch.randn(b, s, config.hidden_size, device=device).bfloat16().requires_grad_()
    of_layer, grad = {"position_embeddings": tables(shape, x, s)}, torch.randn_like(x)
    inputs = [x, *layer.parameters()]
    forward = torch.compile(layer) if compiled else layer
    return lambda: torch.autograd.grad(forward(x, **of_layer), inputs, grad)


def rotation_call(rotation: Callable, shape: dict, b: int, s: int, device: str) -> Callable:
    """Forward and backward of a rotation in bf16, of q and k as linear layers write them."""
    heads = shape["num_attention_heads"], shape["num_key_value_heads"]
    q, k = (torch.randn(b, s, h, shape["head_dim"], device=device).bfloat16() for h in heads)
    cos, sin = tables(shape, q, s)
    q, k = q.requires_grad_(), k.requires_grad_()
    grads = [torch.randn_like(x.transpose(1, 2)) for x in (q, k)]

    def call() -> object:
        y = rotation(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
        return torch.autograd.grad(y, (q, k), grads)

    return call


def results(
    rotation: Callable, device: str = "cpu", dtype: torch.dtype = torch.float32, positions: int = 16
) -> tuple[Tensor, Tensor]:
    """Logits of two sequences, and the gradients of all parameters in one tensor."""
    model = models.new_llama(device, dtype)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(256, (2, positions + 1), generator=generator).to(device)
    with rotated_by(rotation):
        logits = model(tokens[:, :-1], use_cache=False).logits
        loss_of(model, tokens).backward()
    return logits.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])


def shares(
    device: str = "cuda", shapes: dict | None = None, runs: int = 20, turns: int = 7
) -> dict:
    """Forward and backward of a layer, a step, with each rotation; and of the rotation alone.

    Returns:
        For each layer and for eager and compiled steps: rotation -> what `steps_of` finds. 'alone'
        has the launches and kernels of the rotations alone.
    """
    found = {}
    for layer, (shape, b, s) in (shapes or SHAPES).items():
        torch._dynamo.reset()
        by = rotations(shape, s, device)
        of_layer = found[layer] = {}
        for how in HOW:
            step = layer_step(shape, b, s, device, compiled=how == "compiled")
            ways = {name: partial(rotated_by, rotation) for name, rotation in by.items()}
            if how == "compiled":
                ways.pop("rung 7")  # its launcher breaks the graph
            of_layer[how] = steps.steps_of(ways, step, turns, runs)
        of_layer["alone"] = {
            name: steps.profiled(rotation_call(by[name], shape, b, s, device))
            for name in ("PyTorch", "rung 7", "package")
        }
    return found


def qwen3(
    device: str = "cuda", shape: dict = SHAPE_8B, length: int = 4096, turns: int = 10
) -> dict:
    """A training step of Qwen3 in bf16: as it is, patched, and by `models.normed_forward`.

    Returns:
        For eager and compiled steps, way -> 'launches' and 'step_ms' of a step.
    """
    model = models.new_qwen3(device, shape, torch.bfloat16)
    tokens = torch.randint(shape["vocab_size"], (1, length + 1), device=device)
    ways = {way: partial(entered, model) for way, entered in WAYS.items()}
    found = {}

    def train_once() -> None:
        model.zero_grad()
        loss_of(model, tokens).backward()

    for how in HOW:
        if how == "compiled":
            torch._dynamo.reset()
            model.compile()
        found[how] = {
            way: {"launches": of["launches"], "step_ms": round(of["step_us"] / 1e3, 2)}
            for way, of in steps.steps_of(ways, train_once, turns, 1).items()
        }
    return found
