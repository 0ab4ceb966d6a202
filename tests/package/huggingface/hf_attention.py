"""Attentions of transformers with stand-ins for what surrounds their norms and their rotation.

Their own `forward` runs, up to the attention itself: what it is given, is what is compared.
"""

import importlib
import inspect
import re
import sys
from functools import cache
from types import SimpleNamespace

import torch
from torch import nn

import hugging_face

WIDTH, HEADS, KEY_HEADS, D = 24, 4, 2, 16


@cache
def attentions(family):
    """Those that are fused. Code2Wav of Qwen3-Omni has no norms, but what returns its argument."""
    return [x for x in hugging_face.attentions(family) if x.normed and has_norms(x.cls)]


def has_norms(cls):
    return "= nn.Identity()" not in inspect.getsource(cls)


class Reached(Exception):
    """The attention, with the q and k that it is given."""

    def __init__(self, q, k):
        super().__init__()
        self.q, self.k = q, k


def reached(module, q, k, *args, **kwargs):
    raise Reached(q, k)


class Cache:
    """Of an indexer, which hands its keys to it."""

    @property
    def layers(self):
        return [self]

    def update_index(self, k):
        raise Reached(sys._getframe(1).f_locals["idx_q"], k)


def of_its_own(attention, device):
    """What only one of them has: attributes, and arguments."""
    others = torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(6)).to(device)
    return {
        "DogeAttention": (
            {
                "dt_proj": nn.Linear(KEY_HEADS * D, KEY_HEADS),
                "A": nn.Parameter(torch.zeros(KEY_HEADS)),
                "keep_window_size": 8,
                "prepare_dynamic_mask": lambda **given: torch.ones(1, 1, 1, 1),
            },
            {},
        ),
        "T5Gemma2MergedAttention": (
            {},
            {"merged_attention_mask": None, "encoder_hidden_states": others},
        ),
        "MiniMaxM3VLIndexer": (
            {"k_proj": nn.Linear(WIDTH, D)},
            {"past_key_values": Cache(), "position_ids": None},
        ),
    }.get(attention.name, ({}, {}))


def stand_in(attention, dtype, device, **attributes):
    """An attention with projections and norms of random weights, and the flags that are given."""
    cls = attention.cls
    made = type("StandIn", (cls,), {"__init__": nn.Module.__init__})()
    config = SimpleNamespace(head_dim=D, _attn_implementation="reached", num_attention_heads=HEADS)
    generator = torch.Generator().manual_seed(4)
    parts = {
        "config": config,
        "head_dim": D,
        "layer_idx": 0,
        "layer_type": "full_attention",
        "scaling": 1.0,
        "attention_dropout": 0.0,
        "num_key_value_groups": 2,
        "use_qk_norm": True,
        "sliding_window": 8,
        "is_sliding": True,
        "is_local_attention": True,
        "is_kv_shared_layer": False,
        "store_full_length_kv": False,
        "is_causal": True,
        "q_proj": nn.Linear(WIDTH, HEADS * D * (1 + ("chunk" in inspect.getsource(cls.forward)))),
        "k_proj": nn.Linear(WIDTH, KEY_HEADS * D),
        "v_proj": nn.Linear(WIDTH, KEY_HEADS * D),
        "gate_proj": nn.Linear(WIDTH, HEADS * D),
        "g_proj": nn.Linear(WIDTH, HEADS),
        "v_norm": nn.Identity(),
        "sinks": None,
        "indexer": lambda *args: None,
    }
    for name in attention.normed.norm_names.values():
        parts[name] = norm_of(cls, name, D)
    for name, part in (parts | of_its_own(attention, device)[0] | attributes).items():
        setattr(made, name, part)
    for parameter in made.parameters():
        mean = 1.0 if parameter.dim() == 1 else 0.0
        with torch.no_grad():
            parameter.copy_(mean + 0.3 * torch.randn(parameter.shape, generator=generator))
    return made.to(device, dtype)


def norm_of(cls, name, width):
    """A norm of the class that the attention itself makes."""
    (found,) = {*re.findall(rf"self\.{name} = (\w+)\(", inspect.getsource(cls))}
    kind = vars(importlib.import_module(cls.__module__))[found]
    takes_width = {"dim", "hidden_size"} & {*inspect.signature(kind).parameters}
    return kind(width, eps=1e-5) if takes_width else kind(eps=1e-5)


def inputs_of_attention(attention, dtype, device, s=7):
    """Hidden states and a table, of the width that the rotation reads."""
    generator = torch.Generator().manual_seed(5)
    hidden = torch.randn(2, s, WIDTH, generator=generator).to(device, dtype)
    width = D // 2 if attention.normed.rule.rest == "after" else D
    angles = torch.rand(2, s, width // 2, generator=generator) * 6
    angles = torch.cat((angles, angles), -1).to(device)
    table = angles.cos().to(dtype), angles.sin().to(dtype)
    return hidden.requires_grad_(), table


def q_and_k_of(module, attention, hidden, table, monkeypatch, shared_keys=None):
    """What the attention is given, with its gradients to all that the forward has read."""
    of_forward = inspect.signature(attention.cls.forward).parameters
    others = {
        "attention_mask": torch.ones(1, dtype=torch.bool, device=hidden.device),
        "shared_kv_states": shared_keys or {},
        "context_hidden_states": None,
        "past_key_values": None,
    }
    found = vars(importlib.import_module(attention.module))
    if "ALL_ATTENTION_FUNCTIONS" in found:
        interface = SimpleNamespace(get_interface=lambda *args: reached)
        monkeypatch.setitem(found, "ALL_ATTENTION_FUNCTIONS", interface)
    given = {name: x for name, x in others.items() if name in of_forward}
    given |= of_its_own(attention, hidden.device)[1]
    for name, x in given.items():
        given[name] = x.to(hidden.dtype) if name == "encoder_hidden_states" else x
    try:
        module(hidden, position_embeddings=table, **given)
    except Reached as at:
        outs = at.q, at.k
    inputs = [hidden, *module.parameters()]
    names = ["hidden_states", *dict(module.named_parameters())]
    grads = [torch.linspace(-1, 1, x.numel(), device=x.device).view(x.shape).to(x) for x in outs]
    found = torch.autograd.grad(outs, inputs, grads, allow_unused=True)
    pairs = zip(names, found, strict=True)
    return outs, {name: grad for name, grad in pairs if grad is not None}
