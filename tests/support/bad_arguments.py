"""What the public functions refuse: of a good call a change, and how the whole message reads.

A change has a value for each of some arguments; a function as a value makes it out of the good one.
`tensor_format` and `dtype` are those of the good call. It is tried with each function that has all
of the arguments: "t" is the first that turns, and "weight" the first weight, whatever their names.
In a message ... stands for any words, and names in braces for what depends on the call: {t} and
{weight} for these names, {read} for how the function has read t's shape.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from types import FunctionType

import numpy as np
import torch
from torch import nn

from inputs import FORMATS
from ops import AXES, BF16, FP16, FP32, FP64, Op
from rope_kernels import RotaryPositionEmbedding
from rope_kernels.rotation import CP_ORDERS

INT64, SPARSE, META = torch.int64, torch.sparse_coo, torch.device("meta")
S, B, D, D2 = 4, 3, 10, 8  # of the good call; packed, it has S * B tokens


def ints(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


def table(rows, columns=D2):
    return torch.zeros(rows, 1, 1, columns)


def cos(*shape, dtype=FP32):
    """Or sines: a table without angles."""
    return torch.zeros(shape, dtype=dtype)


def module(dim=D2, device="cpu", **options):
    return RotaryPositionEmbedding(dim, **options).to(device)


def of_bf16(good):
    made = module()
    made._buffers["inv_freq"] = made.inv_freq.bfloat16()  # as FSDP's buffer_dtype does
    return made


def with_own_forward(good):
    made = module()
    made.forward = lambda max_seq_len, offset=0: table(S)
    return made


class Scaled(RotaryPositionEmbedding):
    def forward(self, max_seq_len, offset=0):
        return super().forward(max_seq_len, offset) / 2


def with_hook(register, **options):
    """A module with a hook that changes nothing."""

    def make(good):
        made = module()
        getattr(made, register)(lambda *given: None, **options)
        return made

    return make


class ModuleOfAnotherLibrary(nn.Module):
    """As in Hugging Face models: gives cos and sin."""

    def forward(self, x, position_ids):
        return cos(S, D2), cos(S, D2)


# Changes of a call of that format.


def dense(**change):
    return {"tensor_format": "sbhd", **change}


def packed(**change):
    return {"tensor_format": "thd", **change}


def of_a_rank(**change):
    return packed(cp_size=2, cp_rank=0, freqs=module(), **change)


# (names, what is accepted, values of a wrong type, other wrong values, what else is in the call)
OPTIONS = (
    ("tensor_format", "{formats}", (), ("shbd", "SBHD", ["sbhd"]), {}),
    ("interleaved", "False, True", ("no", 0), (), {}),
    ("fused inplace inverse norm_after", "False, True", (1, None, np.True_), (), {}),
    ("cp_size", "an integer from 1, below 2^31", (True,), (0, -2, 1.5, "2", None, 2**31), {}),
    (
        "cp_rank",
        "an integer from 0 to cp_size - 1 = 1",
        (True,),
        (-1, 2, 0.5, None),
        {"cp_size": 2},
    ),
    ("cp_rank", "an integer from 0 to cp_size - 1 = 0", (), (1,), {}),
    ("cp_order", "zigzag, contiguous, round_robin", (), ("ring", None, ["zigzag"]), {}),
    (
        "rotary_dim",
        "an even number from 2 to {t}'s head dimension d = 10",
        (True,),
        (8.0, "8", [8]),
        {},
    ),
    (
        "rotary_dim",
        "an even number from 2 to {t}'s head dimension d = 10; {read}",
        (),
        (7, -2, 0, 12, 2**64),
        {},
    ),
    (
        "rotary_dim",
        "an even number from 2 to {t}'s head dimension d = 10; {read}",
        (),
        (12,),
        {"rotary_start": 2},
    ),
    (
        "rotary_start",
        "an integer from 0 to 2, for 8 elements within {t}'s head dimension d = 10",
        (False,),
        (2.0, "2", None, -1, 3, 2**64),
        {},
    ),
    (
        "rotary_start",
        "an integer from 0 to 4, for 6 elements within {t}'s head dimension d = 10",
        (),
        (5,),
        {"rotary_dim": 6, "freqs": table(12, 3)},
    ),
    (
        "rotary_start",
        "an integer from 0 to 2, for 8 elements within {t}'s head dimension d = 10",
        (),
        (3,),
        {"freqs": module()},
    ),
    ("output_pairing", "same, half", (), ("halves", "", None, True, ["half"]), {}),
    # an array compares by elements
    ("rounding", "{roundings}", (), ("twice", "", 1, False, ["once"], np.array(["once"])), {}),
    (
        "eps",
        "a finite number of fp32 from 0",
        (None, True, "1e-6"),
        (-1e-6, 10**400, float("nan")),
        {},
    ),
    ("weight_offset", "a finite number of fp32", (None, True), (float("nan"),), {}),
    ("packing", "qkv, grouped", (), ("kqv", 3), {}),
    ("output_format", "sbhd, bshd, bhsd", (), ("thd", 1), dense()),
    ("num_heads num_kv_heads", "an integer from 1, below 2^31", (True,), (0, 1.5), {}),
)
TYPE_ERRORS = {
    "tensor_format is missing; accepted: the order of the dimensions, {formats}": {
        "tensor_format": None,
        "freqs": (cos(12, D2), cos(12, D2)),
        "rotary_dim": D2,
    },
    "tensor_format is a tensor of shape (12, 8); accepted: {formats}; pass cos and sin as "
    "one argument, freqs=(cos, sin)": {"tensor_format": cos(12, D2)},
    "tensor_format is a tensor of shape (5,); accepted: {formats}; pass positions by "
    "name, position_ids=...": {"tensor_format": ints(0, 1, 2, 3, 4)},
    # what turns
    "{t} is of type list; accepted: torch.Tensor": {"t": [1.0]},
    "{t} has dtype int64; accepted: float32, float16, bfloat16, float64": {"t": INT64},
    "{t} has dtype complex64; accepted: float32, float16, bfloat16, float64": {"t": torch.cfloat},
    "k is of type NoneType; accepted: torch.Tensor": {"k": None},
    "k has dtype int64; accepted: float32, float16, bfloat16, float64": {"k": INT64},
    "k has dtype bfloat16; accepted with q: float32": {"k": BF16},
    "v has dtype float16; accepted: float32": {"v": FP16},
    "qkv is of type list; accepted: torch.Tensor": {"qkv": [1.0]},
    "qkv has dtype int64; accepted: float32, float16, bfloat16, float64": {"qkv": INT64},
    # freqs
    "freqs is of type NoneType; accepted: a torch.Tensor of angles, (s2, 1, 1, d2); a pair of "
    "torch.Tensors (cos, sin); or a RotaryPositionEmbedding": {"freqs": None},
    "freqs is 'bshd'; accepted: a torch.Tensor of angles, (s2, 1, 1, d2); a pair of torch.Tensors "
    "(cos, sin); or a RotaryPositionEmbedding; is an argument before freqs missing?": {
        "freqs": "bshd"
    },
    "freqs is of type dict; accepted: a torch.Tensor of angles, (s2, 1, 1, d2); a pair of "
    "torch.Tensors (cos, sin); or a RotaryPositionEmbedding": {"freqs": {"cos": cos(S, D2)}},
    "freqs is of type type; accepted: a torch.Tensor of angles, (s2, 1, 1, d2); a pair of "
    "torch.Tensors (cos, sin); or a RotaryPositionEmbedding": {"freqs": RotaryPositionEmbedding},
    "freqs is of type ModuleOfAnotherLibrary; accepted: a torch.Tensor of angles, (s2, 1, 1, d2); "
    "a pair of torch.Tensors (cos, sin); or a RotaryPositionEmbedding": {
        "freqs": lambda good: ModuleOfAnotherLibrary()
    },
    "freqs has dtype bfloat16; accepted for angles, with {t} of float32: float32": {"freqs": BF16},
    "freqs has dtype complex64; accepted: a torch.Tensor of angles, (s2, 1, 1, d2); a pair of "
    "torch.Tensors (cos, sin); or a RotaryPositionEmbedding; pass complex numbers as (freqs.real, "
    "freqs.imag), with rotary_dim=2 * freqs.shape[-1], interleaved=True": [
        {"freqs": cos(S, D2 // 2, dtype=torch.cfloat)},
        {"freqs": torch.tensor(1j)},
    ],
    "freqs has dtype int64; accepted: a torch.Tensor of angles, (s2, 1, 1, d2); a pair of "
    "torch.Tensors (cos, sin); or a RotaryPositionEmbedding; pass positions by name, "
    "position_ids=...": [
        {"freqs": ints(*range(12))},
        # as flashinfer's calls
        {"freqs": ints(*range(12)), "tensor_format": None, "k": lambda good: good},
    ],
    "freqs has dtype float64; accepted for angles, with {t} of float32: float32": {"freqs": FP64},
    "freqs has dtype bfloat16; accepted for angles, with {t} of float64: float32, float64": {
        "dtype": FP64,
        "freqs": BF16,
    },
    "freqs.inv_freq has dtype bfloat16; accepted: float32, float64": {"freqs": of_bf16},
    "freqs is a Scaled that overrides forward; accepted: its table, freqs(max_seq_len)": {
        "freqs": lambda good: Scaled(D2)
    },
    "freqs is a RotaryPositionEmbedding that overrides forward; accepted: its table, "
    "freqs(max_seq_len)": {"freqs": with_own_forward},
    "freqs is a RotaryPositionEmbedding with a hook, which this call would not run; accepted: its "
    "table, freqs(max_seq_len), or a module without hooks": [
        {"freqs": with_hook("register_forward_hook")},
        {"freqs": with_hook("register_forward_hook", with_kwargs=True, always_call=True)},
        {"freqs": with_hook("register_forward_pre_hook")},
        {"freqs": with_hook("register_forward_pre_hook", with_kwargs=True)},
        {"freqs": with_hook("register_full_backward_hook")},
        {"freqs": with_hook("register_full_backward_pre_hook")},
    ],
    "freqs[0] is of type NoneType; accepted: torch.Tensor": {"freqs": (None, cos(12, D2))},
    "freqs[0] is of type float; accepted: torch.Tensor": {"freqs": [0.5, 0.25]},
    "freqs[0] has dtype int64; accepted: float32, float16, bfloat16, float64": {
        "freqs": [cos(12, D2).long()] * 2
    },
    "freqs[1] is of type float; accepted: torch.Tensor": {"freqs": (cos(12, D2), 0.5)},
    "freqs[1] has dtype float32; accepted with freqs[0]: bfloat16": {
        "freqs": (cos(12, D2, dtype=BF16), cos(12, D2))
    },
    # where tokens are
    "cu_seqlens is of type list; accepted: torch.Tensor": packed(cu_seqlens=[0, 4]),
    "cu_seqlens has dtype int16; accepted: int32, int64": packed(cu_seqlens=torch.int16),
    "start_positions is of type list; accepted: an int from -2^62 to 2^62, or a torch.Tensor": {
        "start_positions": [0, 0]
    },
    "start_positions is True; accepted: an int from -2^62 to 2^62, or a torch.Tensor": {
        "start_positions": True
    },
    "start_positions is of type float; accepted: an int from -2^62 to 2^62, or a torch.Tensor": {
        "start_positions": 1.5
    },
    "start_positions has dtype float32; accepted...: int32, int64, int16, int8, uint8": {
        "start_positions": cos(3)
    },
    "start_positions has dtype bool; accepted...: int32, int64, int16, int8, uint8": {
        "start_positions": cos(3).bool()
    },
    "position_ids is of type list; accepted: torch.Tensor": {"position_ids": [[0, 1, 2, 3]]},
    "position_ids is 3; accepted: torch.Tensor, or start_positions=3 for the first position of all "
    "sequences": [{"position_ids": 3}, {"position_ids": np.int64(3), "cp_size": 2, "cp_rank": 1}],
    "position_ids has dtype float32; accepted: int32, int64, int16, int8, uint8": {
        "position_ids": cos(1, S)
    },
    # weights
    "{weight} is of type list; accepted: torch.Tensor": {"weight": [1.0] * D},
    "{weight} is of type RMSNorm; accepted: torch.Tensor; pass {weight}=norm.weight, and the "
    "module's eps by name": {"weight": lambda good: nn.RMSNorm(D)},
    "k_weight is of type RMSNorm; accepted: torch.Tensor; pass k_weight=norm.weight, and the "
    "module's eps by name": {"k_weight": lambda good: nn.RMSNorm(D)},
    "{weight} has dtype int64; accepted: float32": {"weight": INT64},
    "{weight} has dtype bfloat16; accepted: float32": {"weight": BF16},
    "{weight} has dtype float64; accepted: float16, float32": {"dtype": FP16, "weight": FP64},
    # a cache
    "k_cache has dtype float8_e4m3fn; accepted: float32": {
        name: torch.float8_e4m3fn for name in ("k_cache", "v_cache")
    },
    "v_cache has dtype bfloat16; accepted with k_cache: float32": {"v_cache": BF16},
    "slot_mapping has dtype float32; accepted: int32, int64": {"slot_mapping": FP32},
}
VALUE_ERRORS = {
    "tensor_format is (a tensor of shape (12, 8), a tensor of shape (12, 8)); accepted: "
    "{formats}": {"tensor_format": (cos(12, D2), cos(12, D2))},
    # what turns
    "{t} has shape (12, 3, 10), 3 dimensions; accepted: 4 in format 'sbhd': (s, b, h, d)": dense(
        t=cos(12, 3, D)
    ),
    "{t} has shape (), 0 dimensions; accepted: ... in format {format!r}: (...)": {
        "t": torch.tensor(1.0)
    },
    "{t} has shape (4, 3, 3, 10), 4 dimensions; accepted: 3 in format 'thd': (t, h, d)": packed(
        t=cos(S, B, 3, D)
    ),
    "{t} has layout torch.sparse_coo; accepted: torch.strided": {"t": SPARSE},
    "{t} has layout of a nested tensor; accepted: torch.strided": {
        "t": lambda good: torch.nested.nested_tensor([*good]),
        "start_positions": 1,
    },
    "k has shape (12, 3, 10), 3 dimensions; accepted: 4 in format 'sbhd': (s, b, h, d)": dense(
        k=cos(12, 3, D)
    ),
    "k has shape (5, 3, 7, 10); accepted with q: (4, 3, 7, 10); {read}": dense(k=cos(5, B, 7, D)),
    "k has shape (4, 3, 7, 12); accepted with q: (4, 3, 7, 10); {read}": dense(k=cos(S, B, 7, 12)),
    "k has shape (4, 2, 7, 10); accepted with q: (4, 3, 7, 10); {read}": dense(k=cos(S, 2, 7, D)),
    "k has shape (3, 7, 5, 10); accepted with q: (3, 7, 4, 10); {read}": {
        "tensor_format": "bhsd",
        "k": cos(B, 7, 5, D),
    },
    "k has shape (11, 2, 10); accepted with q: (12, 2, 10); {read}": packed(
        k=lambda good: good[1:]
    ),
    "k has layout torch.sparse_coo; accepted: torch.strided": {"k": SPARSE},
    "k is on meta; it must be on {t}'s device, {device}": {"k": META},
    # freqs
    "freqs has 3 entries; accepted: a torch.Tensor of angles, (s2, 1, 1, d2); a pair of "
    "torch.Tensors (cos, sin); or a RotaryPositionEmbedding": {"freqs": [0.5, 0.25, 0.125]},
    "freqs has 1 entries; accepted: a torch.Tensor of angles, (s2, 1, 1, d2); a pair of "
    "torch.Tensors (cos, sin); or a RotaryPositionEmbedding": {"freqs": (cos(S, D2),)},
    "freqs has layout torch.sparse_coo; accepted: torch.strided": {"freqs": SPARSE},
    "freqs has shape (4, 8); accepted for angles, with {t} of float32: (s2, 1, 1, d2); {read}": {
        "freqs": cos(S, D2)
    },
    "freqs has shape (2, 12, 8); accepted for angles, with {t} of float32: (s2, 1, 1, d2); "
    "{read}": {"freqs": cos(2, 12, D2)},
    "freqs has shape (4, 4, 2); accepted for angles, with {t} of float32: (s2, 1, 1, d2); {read}": {
        "freqs": cos(S, D2 // 2, 2)
    },
    "freqs has shape (4, 3, 1, 8); accepted for angles, with {t} of float32: (s2, 1, 1, d2); "
    "{read}": {"freqs": cos(S, B, 1, D2)},
    "freqs has last dimension d2 = 5; accepted: an even number from 2 to {t}'s head dimension d = "
    "10; {read}": {"freqs": table(12, 5)},
    "freqs has last dimension d2 = 12; accepted: an even number from 2 to {t}'s head dimension d "
    "= 10; {read}": {"freqs": table(12, 12)},
    "freqs has last dimension d2 = 0; accepted: an even number from 2 to {t}'s head dimension d = "
    "10; {read}": [
        {"freqs": table(12, 0)},
        {"freqs": (cos(12, 0),) * 2},
    ],
    "freqs has last dimension d2 = 14; accepted: an even number from 2 to {t}'s head dimension d "
    "= 10; {read}": {"freqs": module(14)},
    "freqs has last dimension 2 with rotary_dim = 8; accepted: 8 columns, or 4, one per pair": {
        "freqs": table(12, 2),
        "rotary_dim": 8,
    },
    "freqs has last dimension 16 with rotary_dim = 8; accepted: 8 columns, or 4, one per pair": {
        "freqs": table(12, 16),
        "rotary_dim": 8,
    },
    "freqs has last dimension 6 with rotary_dim = 8; accepted: 8 columns, or 4, one per pair": {
        "freqs": (cos(12, 6), cos(12, 6)),
        "rotary_dim": 8,
    },
    "freqs has 3 rows for 3 batch entries of one token each; accepted: cos[:, None] and "
    "sin[:, None] if each entry has a row of its own, or start_positions=0 if all tokens are at "
    "position 0": dense(
        t=lambda good: good[:1],
        k=lambda good: good[:1],
        freqs=(cos(B, D2), cos(B, D2)),
        rotary_dim=D2,
    ),
    "rotary_dim is 4, but freqs rotates 8 elements; accepted: rotary_dim=None, or "
    "freqs=RotaryPositionEmbedding(4)": {"rotary_dim": 4, "freqs": module()},
    "rotary_dim is 8, but freqs rotates 4 elements; accepted: rotary_dim=None, or "
    "freqs=RotaryPositionEmbedding(8)": {"rotary_dim": 8, "freqs": module(4)},
    # cosines of elements, or of pairs
    "rotary_dim is missing: freqs has 4 columns, and {t} has d = 10; accepted: rotary_dim=4 if "
    "there is one column per element, or rotary_dim=8 if there is one column per pair, as in "
    "FlashAttention, flashinfer, vLLM and GPT-J": {"freqs": (cos(12, 4), cos(12, 4))},
    "rotary_dim is missing: freqs has 5 columns, and {t} has d = 10; accepted: rotary_dim=10 if "
    "there is one column per pair, as in FlashAttention, flashinfer, vLLM and GPT-J": {
        "freqs": (cos(12, 5), cos(12, 5))
    },
    "rotary_dim is missing: freqs has 8 columns, and {t} has d = 10; accepted: rotary_dim=8 if "
    "there is one column per element": {"freqs": (cos(12, 8), cos(12, 8))},
    "rotary_dim is missing: freqs has 4 columns, and {t} has d = 10; accepted: rotary_dim=4 if "
    "there is one column per element": {
        "freqs": (cos(12, 4), cos(12, 4)),
        "rotary_start": 3,
    },
    "freqs has last dimension d2 = 7; accepted: an even number from 2 to {t}'s ...": {
        "freqs": (cos(12, 7), cos(12, 7))
    },
    "freqs has angles for s2 = 3 positions; {t} of shape {shape} in format 'sbhd' needs at least "
    "s = 4": dense(freqs=table(3)),
    "freqs has angles for s2 = 2 positions; {t} of shape {shape} in format 'bhsd' needs at least "
    "s = 4": {
        "tensor_format": "bhsd",
        "freqs": table(2),
    },
    "freqs has angles for s2 = 1 positions; {t} of shape {shape} in format 'bshd' needs at least "
    "s = 4": {
        "tensor_format": "bshd",
        "freqs": (cos(B, 1, D2), cos(B, 1, D2)),
        "rotary_dim": D2,
    },
    "freqs has angles for s2 = 4 positions; {t} of shape {shape} in format 'sbhd' needs at least "
    "s = 12": dense(freqs=table(4), cp_size=3, cp_rank=1),
    "interleaved is False, but freqs has True; accepted: interleaved=None, or a freqs made with "
    "interleaved=False": {
        "freqs": module(interleaved=True),
        "interleaved": False,
    },
    "interleaved is True, but freqs has False; accepted: interleaved=None, or a freqs made with "
    "interleaved=True": {
        "freqs": module(),
        "interleaved": True,
    },
    "freqs[0] has shape (8,); accepted: (s2, d2) or (3, s2, d2) or (1, s2, d2); {read}": dense(
        freqs=(cos(D2), cos(D2))
    ),
    "freqs[0] has shape (2, 4, 8); accepted: (s2, d2) or (3, s2, d2) or (1, s2, d2); {read}": dense(
        freqs=(cos(2, S, D2), cos(2, S, D2))
    ),
    "freqs[0] has shape (3, 12, 8); accepted: (s2, d2) or (1, s2, d2); {read}": packed(
        freqs=(cos(B, 12, D2), cos(B, 12, D2))
    ),
    "freqs[1] has shape (4, 8); accepted with freqs[0]: (5, 8); {read}": {
        "freqs": (cos(5, D2), cos(S, D2))
    },
    "freqs[1] has shape (4, 8); accepted with freqs[0]: (1, 4, 8); {read}": {
        "freqs": (cos(1, S, D2), cos(S, D2))
    },
    "freqs is on meta; it must be on {t}'s device, {device}": {"freqs": table(12).to("meta")},
    "freqs.inv_freq is on meta; it must be on {t}'s device, {device}": {
        "freqs": module(device="meta")
    },
    "freqs[0] is on meta; it must be on {t}'s device, {device}": {
        "freqs": (cos(12, D2).to("meta"), cos(12, D2))
    },
    "freqs[1] is on meta; it must be on {t}'s device, {device}": {
        "freqs": (cos(12, D2), cos(12, D2).to("meta"))
    },
    # where tokens are
    "cu_seqlens was passed with tensor_format 'sbhd'; accepted: cu_seqlens only with 'thd'; "
    "TransformerEngine ignores it elsewhere": dense(cu_seqlens=ints(0, 4)),
    "cu_seqlens is None for packed sequences ('thd'); accepted: cumulative sequence lengths, "
    "int32 or int64 of shape (b + 1,), or position_ids": [
        packed(cu_seqlens=None),
        packed(cu_seqlens=None, start_positions=ints(0)),
    ],
    "cu_seqlens is None for packed sequences ('thd'); accepted: cumulative sequence lengths, "
    "int32 or int64 of shape (b + 1,), or position_ids: torch.arange(12) if row i of cos and sin "
    "belongs to token i": packed(cu_seqlens=None, freqs=(cos(12, D2), cos(12, D2)), rotary_dim=D2),
    "cu_seqlens has shape (1, 2); accepted: (b + 1,); {read}": packed(cu_seqlens=ints(0, 4)[None]),
    "cu_seqlens has shape (0,); accepted: (b + 1,); {read}": packed(cu_seqlens=ints()),
    "cu_seqlens is on meta; it must be on {t}'s device, {device}": packed(cu_seqlens=META),
    "start_positions is 4611686018427387905; accepted: an int from -2^62 to 2^62, or a "
    "torch.Tensor": {"start_positions": 2**62 + 1},
    "start_positions is -1180591620717411303424; accepted: an int from -2^62 to 2^62, or a "
    "torch.Tensor": {"start_positions": -(2**70)},
    "start_positions has shape (2,); accepted: (3,) or (1,) or (); {read}": dense(
        start_positions=ints(0, 0)
    ),
    "start_positions has shape (3, 1); accepted: (3,) or (1,) or (); {read}": dense(
        start_positions=ints(0, 0, 0)[:, None]
    ),
    "start_positions has shape (3,); accepted with cu_seqlens: (4,) or (1,) or ()...": packed(
        start_positions=ints(0, 0, 0)
    ),
    # a batch of one: no shape is named twice
    "start_positions has shape (3,); accepted: (1,) or (); {read}": dense(
        start_positions=ints(0, 0, 0), t=cos(S, 1, 3, D), k=cos(S, 1, 3, D)
    ),
    "position_ids has shape (1, 3); accepted: (1, 4) or (4,); {read}": dense(
        position_ids=ints(0, 1, 2)[None], t=cos(S, 1, 3, D), k=cos(S, 1, 3, D)
    ),
    "freqs[0] has shape (2, 4, 8); accepted: (s2, d2) or (1, s2, d2); {read}": dense(
        freqs=(cos(2, S, D2),) * 2, t=cos(S, 1, 3, D), k=cos(S, 1, 3, D)
    ),
    "start_positions is on meta; it must be on {t}'s device, {device}": dense(
        start_positions=ints(0, 0, 0).to("meta")
    ),
    "position_ids and start_positions were both passed; accepted: one of them": {
        "position_ids": ints(0),
        "start_positions": 0,
    },
    "position_ids requires cp_size=1, but cp_size is 2; accepted: cp_size and cp_rank, or "
    "position_ids=cp_positions(...) alone": [
        dense(position_ids=ints(0, 1, 2, 3), cp_size=2, cp_rank=0, freqs=table(8)),
        packed(position_ids=ints(*range(12)), cp_size=2, cp_rank=0),
        packed(position_ids=ints(*range(12)), cp_size=2, cp_rank=0, cu_seqlens=ints(0, 24)),
    ],
    "position_ids was passed with freqs of shape (3, 4, 8), one row per token; accepted: (cos, "
    "sin) alone if a model's rotary module returned them for these positions, or tables of shape "
    "(s2, d2), whose rows position_ids select": dense(
        freqs=(cos(B, S, D2), cos(B, S, D2)), position_ids=ints(0, 1, 2, 3), rotary_dim=D2
    ),
    "position_ids was passed with freqs of shape (1, 4, 8), one row per token; accepted: (cos, "
    "sin) alone if a model's rotary module returned them for these positions, or tables of shape "
    "(s2, d2), whose rows position_ids select": dense(
        freqs=(cos(1, S, D2), cos(1, S, D2)), position_ids=ints(0, 0, 1, 2), rotary_dim=D2
    ),
    "position_ids was passed with freqs of shape (1, 12, 8), one row per token; accepted: cos[0] "
    "and sin[0] with position_ids=torch.arange(t) if a model's rotary module returned them for "
    "these positions, or tables of shape (s2, d2), whose rows position_ids select": packed(
        freqs=(cos(1, S * B, D2), cos(1, S * B, D2)),
        position_ids=ints(*range(S * B)),
        rotary_dim=D2,
    ),
    "cu_seqlens was passed with freqs of shape (1, 12, 8), one row per token; accepted: cos[0] and "
    "sin[0] with position_ids=torch.arange(t) and without cu_seqlens if row i belongs to token i, "
    "as from a model's rotary module, or cos[0] and sin[0] with start_positions=0 if row i belongs "
    "to position i of each sequence": packed(
        freqs=(cos(1, S * B, D2),) * 2, cu_seqlens=ints(0, 5, 12), rotary_dim=D2
    ),
    "cu_seqlens was passed with freqs of shape (1, 12, 8), one row per token; accepted: cos[0] and "
    "sin[0] with position_ids=torch.arange(t) and without cu_seqlens if row i belongs to token i, "
    "as from a model's rotary module, or cos[0] and sin[0] if row i belongs to position i of each "
    "sequence": packed(
        freqs=(cos(1, S * B, D2),) * 2,
        cu_seqlens=ints(0, 5, 9),
        start_positions=ints(0, 1),
        rotary_dim=D2,
    ),
    "cu_seqlens was passed with freqs of shape (12, 8), one row per token; accepted: cos and sin "
    "with position_ids=torch.arange(t) and without cu_seqlens if row i belongs to token i, as from "
    "a model's rotary module, or cos and sin with start_positions=0 if row i belongs to position i "
    "of each sequence": packed(
        freqs=(cos(S * B, D2),) * 2, cu_seqlens=ints(0, 5, 12), rotary_dim=D2
    ),
    "position_ids has shape (3,); accepted: (3, 4) or (1, 4) or (4,); {read}": dense(
        position_ids=ints(0, 1, 2)
    ),
    "position_ids has shape (4, 4); accepted: (3, 4) or (1, 4) or (4,); {read}": dense(
        position_ids=ints(0, 1, 2, 3).expand(4, 4)
    ),
    "position_ids has shape (1, 3); accepted: (3, 4) or (1, 4) or (4,); {read}": dense(
        position_ids=ints(0, 1, 2)[None]
    ),
    "position_ids has shape (3, 3, 4), with several axes (M-RoPE); accepted: a table as freqs "
    "instead, made by RotaryPositionEmbedding.cos_sin(position_ids): docs/positions.md, "
    "M-RoPE": dense(position_ids=ints(0, 1, 2, 3).expand(3, 3, 4)),
    "position_ids has shape (3, 12), with several axes (M-RoPE); accepted: a table as freqs "
    "instead, made by RotaryPositionEmbedding.cos_sin(position_ids): docs/positions.md, "
    "M-RoPE": packed(
        position_ids=ints(*range(12)).expand(3, 12)  # as in vLLM
    ),
    "position_ids has shape (1, 12); accepted: (12,); {read}": packed(
        position_ids=ints(*range(12))[None]
    ),
    "position_ids has shape (3,); accepted: (12,); {read}": packed(position_ids=ints(0, 1, 2)),
    "position_ids is on meta; it must be on {t}'s device, {device}": dense(
        position_ids=ints(0, 1, 2, 3)[None].to("meta")
    ),
    # It would be rank 0 on every rank.
    "cp_rank is None; accepted: an integer from 0 to cp_size - 1 = 2": {"cp_size": 3},
    "cp_size is 2, and {read}; accepted: an even s, for two chunks of equal length": dense(
        cp_size=2, cp_rank=0, t=cos(3, B, 3, D), k=cos(3, B, 3, D)
    ),
    # in place
    "output_pairing is 'half' with inplace=True; accepted: 'same'": {
        "output_pairing": "half",
        "inplace": True,
    },
    # weights
    "{weight} has shape (9,); accepted: (10,); {read}": {"weight": cos(9)},
    "{weight} has shape (1, 10); accepted: (10,); {read}": {"weight": cos(1, D)},
    "{weight} has shape (3, 10); accepted: (10,); {read}": {"weight": cos(3, D)},
    "{weight} has shape (1, 3, 10); accepted: (10,); {read}": {"weight": cos(1, 3, D)},
    "{weight} is on meta; it must be on {t}'s device, {device}": {"weight": cos(D).to("meta")},
    "k_weight has shape (9,); accepted: (10,); k of shape (4, 3, 2, 10) in format 'sbhd' has "
    "s = 4, b = 3, h = 2, d = 10": dense(k_weight=cos(9)),
    # a projection
    "qkv has shape (4, 3, 12, 10); accepted: (s, b, heads of q, k and v together * d) with "
    "tensor_format 'sbhd'": dense(qkv=lambda good: good.unflatten(-1, (-1, D))),
    "qkv has shape (4, 3, 119); accepted: a last dimension of 12 heads: 6 of q, 3 of k and 3 of "
    "v": dense(qkv=lambda good: good[..., 1:]),
    "qkv has layout of a nested tensor; accepted: torch.strided": {
        "qkv": lambda good: torch.nested.nested_tensor([*good]),
        "start_positions": 1,
    },
    "num_heads is a tensor of shape (12, 8); accepted: an integer from 1, below 2^31": {
        "num_heads": cos(12, D2)
    },
    "num_heads is 4, and num_kv_heads is 3; accepted: a multiple of num_kv_heads with "
    "packing='grouped'": {"packing": "grouped", "num_heads": 4, "num_kv_heads": 3},
    # a cache
    "v has shape (12, 1, 10); accepted: (12, 2, 10); k of shape (12, 2, 10) in format 'thd' has t "
    "= 12, h = 2, d = 10": {"v": lambda good: good[:, :1]},
    "k_cache has shape (24, 2, 10); accepted: (blocks, page, 2, 10); k of shape (12, 2, 10) in "
    "format 'thd' has t = 12, h = 2, d = 10": {"k_cache": lambda good: good.flatten(0, 1)},
    "k_cache has shape (6, 2, 4, 10); accepted: (blocks, page, 2, 10); k of shape (12, 2, 10) in "
    "format 'thd' has t = 12, h = 2, d = 10": {"k_cache": lambda good: good.transpose(1, 2)},
    "v_cache has shape (2, 4, 2, 10); accepted with k_cache: (6, 4, 2, 10); k of shape (12, 2, "
    "10) in format 'thd' has t = 12, h = 2, d = 10": {"v_cache": lambda good: good[:2]},
    "slot_mapping has shape (13,); accepted: at most 12 slots, one for each of the first tokens": {
        "slot_mapping": ints(*range(13))
    },
    "slot_mapping is on meta; it must be on k's device, {device}": {"slot_mapping": META},
}
# What is refused where reading values costs nothing: on a CPU. A module has all positions.
VALUES = {
    "freqs has angles for s2 = 4 positions; the last position in use needs 7": dense(
        start_positions=ints(0, 3, 1)
    ),
    "freqs has angles for s2 = 4 positions; the last position in use needs 7. Leave out "
    "start_positions if the rows were already looked up": dense(
        freqs=(cos(4, D2), cos(4, D2)), rotary_dim=D2, start_positions=ints(0, 3, 1)
    ),
    "freqs has angles for s2 = 4 positions; the last position in use needs 10": dense(
        position_ids=ints(0, 1, 9, 3)[None]
    ),
    "freqs has angles for s2 = 4 positions; "
    "the last position in use needs 9223372036854775808": dense(
        position_ids=torch.full((1, S), 2**63 - 1)
    ),
    "freqs has angles for s2 = 4 positions; the last position in use needs 5": [
        packed(freqs=table(4), cu_seqlens=ints(0, 2, 7)),
        packed(freqs=table(4), cu_seqlens=ints(0, 1, 4), start_positions=ints(3, 2)),
        packed(freqs=table(4), position_ids=ints(4, *range(4), *range(7)) % 5),
    ],
    "freqs has angles for s2 = 4 positions; the last position in use needs 8": packed(
        cp_size=2, cp_rank=0, freqs=table(4), cu_seqlens=ints(0, 4, 12, 16)
    ),
    "freqs has angles for s2 = 4 positions; the last position in use needs 6": [
        packed(cp_size=2, cp_rank=0, cp_order=order, freqs=table(4), cu_seqlens=ints(0, 4, 10))
        for order in ("contiguous", "round_robin")
    ],
    "freqs has angles for s2 = 12 positions; the last position in use needs 13": [
        # of all ranks, or some would wait for the others
        dense(cp_size=3, cp_rank=i, start_positions=ints(1, 0, 0), freqs=table(12))
        for i in range(3)
    ],
    "start_positions is -2; accepted: values from 0 with a table": dense(start_positions=-2),
    "position_ids has -3; accepted: values from 0 with a table": [
        dense(position_ids=ints(0, 1, -3, 3)[None]),
        packed(position_ids=ints(-3, *range(11))),
    ],
    "cu_seqlens is [1, 4]; accepted: values that start at 0 and never decrease": packed(
        cu_seqlens=ints(1, 4)
    ),
    "cu_seqlens is [0, 1, 2, 3, 4, 5, ...]; accepted: values "
    "that start at 0 and never decrease": packed(cu_seqlens=ints(0, 1, 2, 3, 4, 5, 4)),
    "cu_seqlens is [0, 4, 13]; accepted: values up to 12, "
    "the number of tokens on all ranks": packed(cu_seqlens=ints(0, 4, 13)),
    "cu_seqlens is [0, 4, 28]; accepted: values up to 24, "
    "the number of tokens on all ranks": of_a_rank(cu_seqlens=ints(0, 4, 28)),
    "cu_seqlens ends at 12, the number of tokens of one of 2 ranks; accepted: cu_seqlens * "
    "cp_size, if it describes this rank's part of each sequence; tensors with this rank's tokens "
    "only, if yours contain those of all ranks; or tensors without padding, if 12 of the 24 tokens "
    "of all ranks are padding": [
        of_a_rank(cp_order=order, cu_seqlens=ints(0, 4, 12)) for order in CP_ORDERS
    ],
    "cu_seqlens ends at 12, the number of tokens of one of 3 ranks; accepted: cu_seqlens * "
    "cp_size, if it describes this rank's part of each sequence; tensors with this rank's tokens "
    "only, if yours contain those of all ranks; or tensors without padding, if 24 of the 36 tokens "
    "of all ranks are padding": [
        packed(freqs=module(), cp_size=3, cp_rank=0, cp_order=order, cu_seqlens=ints(0, 4, 12))
        for order in CP_ORDERS
    ],
    "cu_seqlens is [0, 4, 6]; accepted: lengths that are multiples of 2 * cp_size = 4": of_a_rank(
        cu_seqlens=ints(0, 4, 6)
    ),
    "cu_seqlens is [0, 4, 7]; accepted: lengths that are multiples of cp_size = 2": [
        of_a_rank(cp_order=order, cu_seqlens=ints(0, 4, 7))
        for order in ("contiguous", "round_robin")
    ],
    "slot_mapping has 24; accepted: slots below 24, or negative ones, which skip the write": {
        "slot_mapping": ints(0, 24)
    },
}


@dataclass(frozen=True)
class Bad:
    """A row of the tables, for one function."""

    op: Op
    said: str
    change: dict
    error: type
    on_cpu: bool

    def __str__(self):
        return f"{self.op}: {self.said.split(';')[0]}"

    @property
    def case(self):
        """Of the good call: the function's first format, and float32, if the row names no other."""
        of_axes = {x: self.change[x] for x in ("tensor_format", "dtype") if x in self.change}
        if of_axes.get("tensor_format") not in formats_of(self.op):
            of_axes.pop("tensor_format", None)
        return {"s": S, "d": D, "rotary": D2, "rows": "just enough", **of_axes}

    def call(self, sample, **options):
        """What is bad beside options that may be anything."""
        names = {"t": self.op.tensors[0], "weight": (*self.op.weights, "")[0]}
        given = {**sample.given, **sample.written, "freqs": sample.freqs}
        given |= {**sample.options(), **options}
        for name, value in self.change.items():
            if name == "dtype" or (name == "tensor_format" and value in FORMATS):
                continue
            if name != "k" or "k" in self.op.tensors:
                name = names.get(name, name)
                given[name] = changed(given.get(name), value, sample.device)
        return self.op.function(**given)

    def message(self, sample):
        """As the function words it."""
        t, is_split = sample.given[self.op.tensors[0]], self.op.name == "split_qkv_rope"
        t = self.change.get("t", t) if isinstance(self.change.get("t"), torch.Tensor) else t
        if is_split:
            t = t[..., : sample.HEADS * D].unflatten(-1, (-1, D))
        sizes = ", ".join(f"{x} = {n}" for x, n in zip(sample.format, t.shape, strict=False))
        words = {
            "t": "q" if is_split else self.op.tensors[0],
            "weight": (*self.op.weights, "")[0],
            "shape": tuple(t.shape),
            "format": sample.format,
            "sizes": sizes,
            "device": t.device,
            "formats": ", ".join(formats_of(self.op)),
            "roundings": "None, once, model, "
            + ("model_cast_last" if self.op.weights else "upcast, promoted"),
        }
        words["read"] = "{t} of shape {shape} in format {format!r} has {sizes}".format(**words)
        return self.said.format(**words)


def formats_of(op):
    return (AXES | op.axes)["tensor_format"]


def changed(good, value, device):
    """A good value of another dtype, layout or device; made by a function; or another value."""
    if isinstance(value, FunctionType):
        return changed(None, value(good), device)
    if isinstance(value, torch.dtype | torch.device):
        return good.to(value)
    if value is SPARSE:
        return good.to_sparse()
    if isinstance(value, tuple | list):
        return type(value)(changed(None, x, device) for x in value)
    if isinstance(value, RotaryPositionEmbedding) and not value.inv_freq.is_meta:
        return copy.deepcopy(value).to(device)
    return value.to(device) if isinstance(value, torch.Tensor) and not value.is_meta else value


def bad_arguments_of(op: Op) -> Iterator[Bad]:
    """All that one function refuses."""
    shown = {"t", *signature(op.function).parameters}
    shown -= {"t"} if op.name == "split_qkv_rope" else set()
    shown |= {"dtype", *(["weight"] if op.weights else [])}
    for said, change, error, on_cpu in rows():
        of_format = change.get("tensor_format")
        elsewhere = of_format in FORMATS and of_format not in formats_of(op)
        needed = {*change} - ({"tensor_format"} if of_format in FORMATS else set())
        if not elsewhere and needed <= shown:
            yield Bad(op, said, change, error, on_cpu)


def rows():
    for names, accepted, of_a_wrong_type, wrong, more in OPTIONS:
        for name in names.split():
            for error, values in ((TypeError, of_a_wrong_type), (ValueError, wrong)):
                for x in values:
                    yield f"{name} is {x!r}; accepted: {accepted}", {**more, name: x}, error, False
    for table, error, on_cpu in (
        (TYPE_ERRORS, TypeError, False),
        (VALUE_ERRORS, ValueError, False),
        (VALUES, ValueError, True),
    ):
        for said, changes in table.items():
            for change in changes if isinstance(changes, list) else [changes]:
                yield said, change, error, on_cpu
