"""Bad arguments: the right exception, a message that helps, and nothing launched.

A message names the argument, what came and what is accepted.
"""

import copy
import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from inputs import angles
from pairwise import cover
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    reference,
    rope_bw,
    rope_fw,
    rope_qk,
)
from rope_kernels.launch import launch_rope

S, B, H, D, D2 = 4, 2, 3, 10, 8


def unfused(*args, **kwargs):
    return apply_rotary_pos_emb(*args, fused=False, **kwargs)


def q_and_k(t, *args, **kwargs):
    """`rope_qk`; there `t` is called `q`."""
    return rope_qk(t, t, *args, **kwargs)


CALLS = {"fused": apply_rotary_pos_emb, "unfused": unfused, "rope_fw": rope_fw, "rope_bw": rope_bw}
CALLS["rope_qk"] = q_and_k
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


def name_of_t(call):
    return {rope_bw: "grad", q_and_k: "q"}.get(call, "t")


@dataclass(frozen=True)
class Bad:
    """What differs from a good call, and its error. `{t}` is `t`, `grad` or `q`."""

    what: str
    change: dict
    argument: str  # the message begins with it
    came: str
    accepted: str
    error: type = ValueError
    tensor_format: str = "sbhd"
    on_cpu: bool = False  # checked only where reading values costs nothing


class Reached(Exception):
    """A bad argument got past the checks."""


@pytest.fixture
def nothing_may_run(monkeypatch):
    def reached(*_args, **_kwargs):
        raise Reached

    monkeypatch.setattr(launch_rope, "rotate", reached)
    monkeypatch.setattr(launch_rope, "run", reached)
    monkeypatch.setattr(reference, "rotate", reached)


def t(*shape, dtype=torch.float32):
    return torch.zeros(shape or (S, B, H, D), dtype=dtype)


def table(*shape, dtype=torch.float32):
    return torch.zeros(shape or (S, 1, 1, D2), dtype=dtype)


def cu(*values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


def module(*args, device="cpu", **kwargs):
    return RotaryPositionEmbedding(*(args or (D2,)), **kwargs).to(device)


def trained_module():
    made = module()
    made.inv_freq.requires_grad_()
    return made


def module_with_inv_freq(dtype):
    made = module()
    made._buffers["inv_freq"] = made.inv_freq.to(dtype)  # as FSDP's buffer_dtype does
    return made


class Scaled(RotaryPositionEmbedding):
    def forward(self, max_seq_len, offset=0):
        return super().forward(max_seq_len, offset) / 2


def module_with_own_forward():
    made = module()
    made.forward = lambda max_seq_len, offset=0: table()
    return made


class ModuleOfAnotherLibrary(nn.Module):
    """As in Hugging Face models: gives cos and sin."""

    def forward(self, x, position_ids):
        return cos(), cos()


def interpolating_module():
    return module(seq_len_interpolation_factor=4.0, pretrained_max_position_embeddings=8)


def thd(
    what, cu_seqlens, came, accepted, error=ValueError, argument="cu_seqlens", on_cpu=True, **more
):
    change = {"t": t(S * B, H, D), "cu_seqlens": cu_seqlens, **more}
    return Bad(what, change, argument, came, accepted, error, "thd", on_cpu)


def cos(*shape, dtype=torch.float32):
    """Or sines: a table without angles."""
    return torch.zeros(shape or (S, D2), dtype=dtype)


def starts(what, value, came, accepted, error=ValueError, argument="start_positions", on_cpu=False):
    change = {"start_positions": value}
    return Bad(what, change, argument, came, accepted, error, on_cpu=on_cpu)


def ids(
    what, value, came, accepted, error=ValueError, argument="position_ids", on_cpu=False, **more
):
    change = {"position_ids": value, **more}
    return Bad(what, change, argument, came, accepted, error, on_cpu=on_cpu)


def packed_ids(what, value, came, accepted, on_cpu=False, **more):
    change = {"t": t(S * B, H, D), "position_ids": value, **more}
    return Bad(what, change, "position_ids", came, accepted, ValueError, "thd", on_cpu)


def no_freqs(what, value, came, error=TypeError):
    return Bad(what, {"freqs": value}, "freqs", came, FREQS, error)


def no_freqs_entry(what, value, came):
    return Bad(what, {"freqs": value}, "freqs[0]", came, FREQS, TypeError)


def no_bool(name, value, came):
    return Bad(f"{came}", {name: value}, name, came, "accepted: False, True", TypeError)


def own_forward(what, value, came):
    accepted = "accepted: its table, freqs(max_seq_len)"
    return Bad(what, {"freqs": value}, "freqs", came, accepted, TypeError)


def ranks(what, cp_size, cp_rank, argument, came, accepted, **more):
    change = {"cp_size": cp_size, "cp_rank": cp_rank, **more}
    return Bad(what, change, argument, came, accepted)


def elsewhere(argument, **change):
    came, accepted = "is on meta", "must be on {t}'s device, cpu"
    return Bad("elsewhere, too", change, argument, came, accepted, on_cpu=True)


FREQS = (
    "a torch.Tensor of angles, (s2, 1, 1, d2); a pair of torch.Tensors (cos, sin); "
    "or a RotaryPositionEmbedding"
)
EVEN = "an even number from 2 to {t}'s head dimension d = 10"
T_DTYPES = "accepted: float32, float16, bfloat16, float64"
FORMATS = "accepted: sbhd, bshd, bhsd, thd"
SHORT = "freqs has angles for s2 = 3 positions"
CU_DTYPES = "accepted: int32, int64"
I_DTYPES = "accepted: int32, int64, int16, int8, uint8"
RISING = "values that start at 0 and never fall"
ROOM = "an integer from 0 to 2, for 8 elements within {t}'s head dimension d = 10"
IN_PLACE = "with inplace=True; accepted: 'same'"


def no_rotary_dim(what, value, error=ValueError, accepted=EVEN, **more):
    came = f"rotary_dim is {value!r}".removesuffix(")")  # of a tensor on a GPU it names that too
    return Bad(what, {"rotary_dim": value, **more}, "rotary_dim", came, accepted, error)


def no_rotary_start(what, value, error=ValueError, accepted=ROOM, **more):
    came = f"rotary_start is {value!r}".removesuffix(")")
    return Bad(what, {"rotary_start": value, **more}, "rotary_start", came, accepted, error)


def no_width(what, width, freqs=None, rotary_dim=8):
    change = {"freqs": table(S, 1, 1, width) if freqs is None else freqs, "rotary_dim": rotary_dim}
    came = f"freqs has last dimension {width} with rotary_dim = {rotary_dim}"
    accepted = f"accepted: {rotary_dim}, or one column per pair, {rotary_dim // 2}"
    return Bad(what, change, "freqs", came, accepted)


def no_pairing(what, value, accepted="accepted: same, half", **more):
    came = f"output_pairing is {value!r}"
    return Bad(what, {"output_pairing": value, **more}, "output_pairing", came, accepted)


def no_rounding(value):
    accepted = "accepted: None, once, model"
    return Bad(f"{value!r}", {"rounding": value}, "rounding", f"rounding is {value!r}", accepted)


# what turns, and how
BAD_SLICES = [
    *(no_rotary_dim(f"{value!r}", value, TypeError) for value in (True, False)),
    *(no_rotary_dim(f"{value!r}", value) for value in (8.0, "8", [8], (8,), torch.tensor(8))),
    *(no_rotary_dim("an odd number", value) for value in (7, 1, -1)),
    *(no_rotary_dim("out of range", value) for value in (0, -2, 12, 2**64)),
    no_rotary_dim("too large with a start", 12, rotary_start=2),
    no_rotary_dim(
        "not the module's", 4, freqs=module(), accepted="accepted: None, or that of freqs, 8"
    ),
    no_rotary_dim("twice the module's", 8, freqs=module(4), accepted="or that of freqs, 4"),
    *(no_rotary_start(f"{value!r}", value, TypeError) for value in (True, False)),
    *(no_rotary_start(f"{value!r}", value) for value in (0.0, 2.0, "2", [2], None)),
    no_rotary_start("a tensor", torch.tensor([1, 2])),
    *(no_rotary_start("out of range", value) for value in (-1, -(2**64), 10, 2**64)),
    no_rotary_start("no room after it", 3),
    no_rotary_start(
        "no room after it, one column per pair",
        *(5, ValueError, "accepted: an integer from 0 to 4, for 6 elements within {t}'s head"),
        **{"rotary_dim": 6, "freqs": table(S, 1, 1, 3)},
    ),
    no_rotary_start("no room after it, of a module", 3, freqs=module()),
    no_rotary_start("a whole head turns", 1, accepted="0 to 0, for 10", freqs=table(S, 1, 1, 10)),
    no_width("width neither", 2),
    no_width("width neither, wider", 16),
    no_width("width of cosines neither", 6, (cos(S, 6), cos(S, 6))),
    no_width("a quarter", 2, (cos(B, S, 2), cos(B, S, 2))),
    *(no_bool("inverse", value, f"inverse is {value!r}") for value in (1, 0, 0.0, None, "yes", [])),
    no_bool("inverse", -1, "inverse is -1"),
    *(no_pairing(f"{value!r}", value) for value in ("halves", "Half", "", None, 1, True, ["half"])),
    no_pairing("of the input", "interleaved", interleaved=True),
    *(no_rounding(value) for value in ("twice", "Model", "", 1, True, False, ["once"])),
    no_pairing("in place", "half", IN_PLACE, inplace=True),
    no_pairing("in place, interleaved", "half", IN_PLACE, inplace=True, interleaved=True),
]

BAD = [
    # t
    Bad("t is a list", {"t": [1.0]}, "{t}", "type list", "torch.Tensor", TypeError),
    Bad("t is None", {"t": None}, "{t}", "type NoneType", "torch.Tensor", TypeError),
    Bad("t of int64", {"t": t(dtype=torch.int64)}, "{t}", "dtype int64", T_DTYPES, TypeError),
    Bad("t of bool", {"t": t(dtype=torch.bool)}, "{t}", "dtype bool", T_DTYPES, TypeError),
    Bad("t complex", {"t": t(dtype=torch.cfloat)}, "{t}", "complex64", T_DTYPES, TypeError),
    Bad("t of rank 3", {"t": t(S, H, D)}, "{t}", "(4, 3, 10), 3 dimensions", "'sbhd' needs 4"),
    Bad("t of rank 5", {"t": t(1, S, B, H, D)}, "{t}", "5 dimensions", "'sbhd' needs 4"),
    Bad("t a scalar", {"t": torch.tensor(1.0)}, "{t}", "(), 0 dimensions", "'sbhd' needs 4"),
    Bad(
        "packed t of rank 4",
        {"cu_seqlens": cu(0, 4)},
        "{t}",
        "(4, 2, 3, 10), 4 dimensions",
        "'thd' needs 3",
        tensor_format="thd",
    ),
    # freqs
    Bad("freqs is None", {"freqs": None}, "freqs", "type NoneType", "torch.Tensor", TypeError),
    Bad(
        "freqs of bf16",
        {"freqs": table(dtype=torch.bfloat16)},
        "freqs",
        "dtype bfloat16",
        "accepted with {t} of float32: float32. TransformerEngine casts such angles to float32",
        TypeError,
    ),
    Bad(
        "freqs of fp16, like t",
        {"freqs": table(dtype=torch.float16), "t": t(dtype=torch.float16)},
        "freqs",
        "dtype float16",
        "accepted with {t} of float16: float32",
        TypeError,
    ),
    Bad(
        "freqs of fp64 with fp32 t",
        {"freqs": table(dtype=torch.float64)},
        "freqs",
        "dtype float64",
        "accepted with {t} of float32: float32",
        TypeError,
    ),
    Bad(
        "freqs of int64 with fp64 t",
        {"freqs": table(dtype=torch.int64), "t": t(dtype=torch.float64)},
        "freqs",
        "dtype int64",
        "accepted with {t} of float64: float32, float64",
        TypeError,
    ),
    Bad("freqs of rank 2", {"freqs": table(S, D2)}, "freqs", "(4, 8)", "(s2, 1, 1, d2)"),
    Bad("freqs per batch", {"freqs": table(S, B, 1, D2)}, "freqs", "(4, 2, 1, 8)", "(s2, 1, 1, d2"),
    Bad("freqs per head", {"freqs": table(S, 1, H, D2)}, "freqs", "(4, 1, 3, 8)", "(s2, 1, 1, d2)"),
    Bad("d2 odd", {"freqs": table(S, 1, 1, 5)}, "freqs", "d2 = 5", EVEN),
    Bad("d2 > d", {"freqs": table(S, 1, 1, 12)}, "freqs", "d2 = 12", EVEN),
    Bad("d2 = 0", {"freqs": table(S, 1, 1, 0)}, "freqs", "d2 = 0", EVEN),
    Bad(
        "short, sbhd", {"freqs": table(3, 1, 1, D2)}, "freqs", SHORT, "'sbhd' needs at least s = 4"
    ),
    Bad(
        "short, bshd",
        {"freqs": table(3, 1, 1, D2), "t": t(B, S, H, D)},
        "freqs",
        SHORT,
        "{t} of shape (2, 4, 3, 10) in format 'bshd' needs at least s = 4",
        tensor_format="bshd",
    ),
    Bad(
        "short, bhsd",
        {"freqs": table(3, 1, 1, D2), "t": t(B, 2, S, D)},
        "freqs",
        SHORT,
        "{t} of shape (2, 2, 4, 10) in format 'bhsd' needs at least s = 4",
        tensor_format="bhsd",
    ),
    # tensor_format
    Bad("unknown format", {}, "tensor_format", "'shbd'", FORMATS, tensor_format="shbd"),
    Bad("format in capitals", {}, "tensor_format", "'SBHD'", FORMATS, tensor_format="SBHD"),
    Bad("format None", {}, "tensor_format", "None", FORMATS, tensor_format=None),
    Bad("format a list", {}, "tensor_format", "['sbhd']", FORMATS, tensor_format=["sbhd"]),
    # cu_seqlens
    Bad("with sbhd", {"cu_seqlens": cu(0, 4)}, "cu_seqlens", "'sbhd'", "accepted only with 'thd'"),
    Bad(
        "with bhsd",
        {"cu_seqlens": cu(0, 4), "t": t(B, H, S, D)},
        "cu_seqlens",
        "'bhsd'",
        "TransformerEngine ignores it",
        tensor_format="bhsd",
    ),
    Bad(
        "with bshd",
        {"cu_seqlens": cu(0, 4)},
        "cu_seqlens",
        "'bshd'",
        "accepted only with 'thd'",
        tensor_format="bshd",
    ),
    thd("missing", None, "is None", "int32 or int64 of shape (b + 1,)", on_cpu=False),
    thd("a list", [0, 4], "type list", "torch.Tensor", TypeError, on_cpu=False),
    thd("of int16", cu(0, 4, dtype=torch.int16), "int16", CU_DTYPES, TypeError, on_cpu=False),
    thd("of fp32", cu(0, 4, dtype=torch.float32), "float32", CU_DTYPES, TypeError, on_cpu=False),
    thd("of bool", cu(0, 1, dtype=torch.bool), "bool", CU_DTYPES, TypeError, on_cpu=False),
    thd("of rank 2", cu(0, 4)[None], "(1, 2)", "(b + 1,)", on_cpu=False),
    thd("a scalar", torch.tensor(4), "()", "(b + 1,)", on_cpu=False),
    thd("of length 0", cu(), "(0,)", "(b + 1,)", on_cpu=False),
    thd("not from 0", cu(1, 4), "[1, 4]", RISING),
    thd("below 0", cu(-1, 4), "[-1, 4]", RISING),
    thd("falling", cu(0, 4, 3, 5), "[0, 4, 3, 5]", RISING),
    thd("long and falling", cu(0, 1, 2, 3, 4, 5, 4), "[0, 1, 2, 3, 4, 5, ...]", RISING),
    thd("falling, int64", cu(0, 4, 2, dtype=torch.int64), "[0, 4, 2]", RISING),
    thd("past t", cu(0, 4, 9), "[0, 4, 9]", "values up to 8, the number of tokens on all ranks"),
    thd("too long for freqs", cu(0, 2, 7), "s2 = 4", "in use needs 5", argument="freqs"),
    # freqs: cosines and sines
    Bad("no tables", {"freqs": ()}, "freqs", "0 entries", "(cos, sin)"),
    Bad("one table", {"freqs": (cos(),)}, "freqs", "1 entries", "(cos, sin)"),
    Bad("three tables", {"freqs": [cos()] * 3}, "freqs", "3 entries", "(cos, sin)"),
    Bad("no cos", {"freqs": (None, cos())}, "freqs[0]", "NoneType", "torch.Tensor", TypeError),
    Bad("a number as sin", {"freqs": (cos(), 0.5)}, "freqs[1]", "float", "torch.Tensor", TypeError),
    Bad(
        "cos of int64",
        {"freqs": (cos(dtype=torch.int64), cos(dtype=torch.int64))},
        "freqs[0]",
        "dtype int64",
        T_DTYPES,
        TypeError,
    ),
    Bad(
        "sin of another dtype",
        {"freqs": (cos(dtype=torch.bfloat16), cos())},
        "freqs[1]",
        "dtype float32",
        "accepted beside freqs[0]: bfloat16",
        TypeError,
    ),
    Bad("cos of rank 1", {"freqs": (cos(D2), cos(D2))}, "freqs[0]", "(8,)", "(s2, d2) or (b, s2,"),
    Bad(
        "cos like angles",
        {"freqs": (table(), table())},
        "freqs[0]",
        "(4, 1, 1, 8)",
        "(s2, d2) or (b, s2, d2), b = 2 or 1",
    ),
    Bad(
        "cos of another batch",
        {"freqs": (cos(3, S, D2), cos(3, S, D2))},
        "freqs[0]",
        "(3, 4, 8)",
        "(b, s2, d2), b = 2 or 1",
    ),
    Bad(
        "cos of an entry each for packed tokens",
        {"freqs": (cos(B, S, D2), cos(B, S, D2)), "t": t(8, H, D), "cu_seqlens": cu(0, 4, 8)},
        "freqs[0]",
        "(2, 4, 8)",
        "(s2, d2) or (b, s2, d2), b = 1",
        tensor_format="thd",
    ),
    Bad("sin shorter", {"freqs": (cos(5, D2), cos())}, "freqs[1]", "(4, 8)", "[0]: (5, 8)"),
    Bad("sin shared", {"freqs": (cos(B, S, D2), cos())}, "freqs[1]", "(4, 8)", "[0]: (2, 4, 8)"),
    Bad("cos of odd d2", {"freqs": (cos(S, 5), cos(S, 5))}, "freqs", "d2 = 5", EVEN),
    Bad("cos of d2 > d", {"freqs": (cos(S, 12), cos(S, 12))}, "freqs", "d2 = 12", EVEN),
    Bad("cos short", {"freqs": (cos(3, D2), cos(3, D2))}, "freqs", SHORT, "at least s = 4"),
    Bad(
        "cos short, an entry each",
        {"freqs": (cos(B, 3, D2), cos(B, 3, D2))},
        "freqs",
        SHORT,
        "{t} of shape (4, 2, 3, 10) in format 'sbhd' needs at least s = 4",
    ),
    # freqs: none of the three kinds
    no_freqs("no freqs", None, "type NoneType"),
    no_freqs("a module of another library", ModuleOfAnotherLibrary(), "ModuleOfAnotherLibrary"),
    no_freqs("an array", table().numpy(), "type ndarray"),
    no_freqs("a dict", {"cos": cos(), "sin": cos()}, "type dict"),
    no_freqs("a list of numbers", [0.5, 0.25, 0.125], "3 entries", ValueError),
    no_freqs_entry("two numbers", [0.5, 0.25], "type float"),
    no_freqs_entry("two arrays", (cos().numpy(), cos().numpy()), "type ndarray"),
    # freqs: the module
    *(
        Bad(
            f"inv_freq of {dtype}",
            {"freqs": module_with_inv_freq(dtype)},
            "freqs",
            f"dtype {dtype}".replace("torch.", ""),
            "accepted for inv_freq: float32, float64",
            TypeError,
        )
        for dtype in (torch.bfloat16, torch.float16, torch.int64)
    ),
    own_forward("a subclass with its own forward", Scaled(D2), "a Scaled that overrides forward"),
    own_forward("a module with its own forward", module_with_own_forward(), "overrides forward"),
    Bad("a class", {"freqs": RotaryPositionEmbedding}, "freqs", "type type", "Tensor", TypeError),
    Bad("module of d2 > d", {"freqs": module(12)}, "freqs", "d2 = 12", EVEN),
    Bad(
        "module of the other pairing",
        {"freqs": module(interleaved=True)},
        "freqs",
        "interleaved = True",
        "accepted: the call's, False",
    ),
    Bad(
        "half-split module, interleaved call",
        {"freqs": module(), "interleaved": True},
        "freqs",
        "interleaved = False",
        "accepted: the call's, True",
    ),
    Bad(
        "module that is trained",
        {"freqs": trained_module()},
        "freqs",
        "inv_freq that requires a gradient",
        "freqs.cos_sin_per_pair(max_seq_len)",
    ),
    Bad(
        "interpolation from starts",
        {"freqs": interpolating_module(), "start_positions": cu(0, 1)},
        "freqs",
        "interpolates",
        "freqs.cos_sin_per_pair(max_seq_len)",
    ),
    Bad(
        "interpolation of ids",
        {"freqs": interpolating_module(), "position_ids": cu(0, 1, 2, 3)[None]},
        "freqs",
        "interpolates",
        "freqs.cos_sin_per_pair(max_seq_len)",
    ),
    Bad(
        "interpolation of packed tokens",
        {"freqs": interpolating_module(), "t": t(8, H, D), "cu_seqlens": cu(0, 4, 8)},
        "freqs",
        "interpolates",
        "freqs.cos_sin_per_pair(max_seq_len)",
        tensor_format="thd",
    ),
    # start_positions
    starts("a list", [0, 0], "type list", "torch.Tensor", TypeError),
    starts("a bool", True, "is True", "an int from -2^62 to 2^62", TypeError),
    starts("a float", 1.5, "type float", "an int from -2^62 to 2^62", TypeError),
    starts("a large int", 2**62 + 1, "is 46116", "an int from -2^62 to 2^62"),
    starts("a larger int", -(2**70), "is -1180", "an int from -2^62 to 2^62"),
    starts("one of fp32", cu(0, dtype=torch.float32), "float32", I_DTYPES, TypeError),
    starts("of fp32", cu(0, 0, dtype=torch.float32), "float32", I_DTYPES, TypeError),
    starts("of bool", cu(0, 1, dtype=torch.bool), "bool", I_DTYPES, TypeError),
    starts("too many", cu(0, 0, 0), "(3,)", "(2,) or (1,) or ()"),
    starts("of rank 2", cu(0, 0)[:, None], "(2, 1)", "(2,)"),
    starts("below 0", cu(0, -1), "[0, -1]", "values from 0 with a table", on_cpu=True),
    starts("an int below 0", -2, "[-2, -2]", "values from 0 with a table", on_cpu=True),
    starts(
        "far below 0",
        cu(0, -(2**63), dtype=torch.int64),
        "[0, -92",
        "from -2^62 to 2^62",
        on_cpu=True,
    ),
    starts(
        "starts past freqs", cu(0, 3), "s2 = 4", "in use needs 7", argument="freqs", on_cpu=True
    ),
    thd(
        "packed, too many",
        cu(0, 4, 8),
        "(3,)",
        "(2,)",
        argument="start_positions",
        on_cpu=False,
        start_positions=cu(0, 0, 0),
    ),
    thd(
        "packed, past freqs",
        cu(0, 1, 4),
        "s2 = 4",
        "in use needs 5",
        argument="freqs",
        start_positions=cu(3, 2),
    ),
    thd(
        "packed, without cu_seqlens",
        None,
        "is None",
        "or position_ids",
        on_cpu=False,
        start_positions=cu(0),
    ),
    # position_ids
    ids("a list", [[0, 1, 2, 3]], "type list", "torch.Tensor", TypeError),
    ids("of fp32", cu(0, 1, 2, 3, dtype=torch.float32)[None], "float32", I_DTYPES, TypeError),
    ids("of bf16", cu(0, 1, 2, 3, dtype=torch.bfloat16)[None], "bfloat16", I_DTYPES, TypeError),
    ids("of bool", cu(0, 1, 1, 1, dtype=torch.bool)[None], "bool", I_DTYPES, TypeError),
    ids("of rank 1", cu(0, 1, 2, 3), "(4,)", "(2, 4) or (1, 4)"),
    ids("of rank 3", cu(0, 1, 2, 3)[None, None], "(1, 1, 4)", "(2, 4) or (1, 4)"),
    ids("of another batch", cu(0, 1, 2, 3).expand(3, 4), "(3, 4)", "(2, 4) or (1, 4)"),
    ids("s first", cu(0, 1).expand(4, 2), "(4, 2)", "(2, 4) or (1, 4)"),
    ids("too few", cu(0, 1, 2)[None], "(1, 3)", "(2, 4) or (1, 4)"),
    ids("below 0", cu(0, 1, -3, 3)[None], "has -3", "values from 0 with a table", on_cpu=True),
    ids(
        "ids past freqs", cu(0, 1, 9, 3)[None], "= 4", "use needs 10", argument="freqs", on_cpu=True
    ),
    ids("with starts", cu(0, 1, 2, 3)[None], "start_positions", "one", start_positions=cu(0, 0)),
    packed_ids("packed, of rank 2", cu(*range(4), *range(4))[None], "(1, 8)", "(8,)"),
    packed_ids("packed, too few", cu(0, 1, 2), "(3,)", "(8,)"),
    packed_ids("packed, below 0", cu(0, 1, 2, 3, 0, 1, -2, 3), "has -2", "from 0", on_cpu=True),
    packed_ids("packed, with starts", cu(*[0] * 8), "start", "one", start_positions=cu(0)),
    Bad(
        "a word for interleaved",
        {"interleaved": "no"},
        "interleaved",
        "is 'no'",
        "False, True",
        TypeError,
    ),
    # flags
    no_bool("interleaved", 0, "is 0"),
    no_bool("interleaved", None, "is None"),
    no_bool("inplace", "False", "is 'False'"),
    no_bool("inplace", 1, "is 1"),
    no_bool("inplace", None, "is None"),
    no_bool("inplace", np.True_, "is np.True_"),
    no_bool("inplace", torch.tensor(True), "is tensor(True"),
    # cp_size and cp_rank
    Bad("size True", {"cp_size": True}, "cp_size", "is True", "an integer from 1", TypeError),
    Bad(
        "rank True",
        {"cp_size": 2, "cp_rank": True, "freqs": table(8, 1, 1, D2)},
        "cp_rank",
        "is True",
        "an integer from 0 to cp_size - 1 = 1",
        TypeError,
    ),
    Bad("rank False", {"cp_rank": False}, "cp_rank", "is False", "an integer from 0", TypeError),
    ranks("no rank", 0, 0, "cp_size", "is 0", "an integer from 1"),
    ranks("fewer than none", -2, 0, "cp_size", "is -2", "an integer from 1"),
    ranks("half a rank", 1.5, 0, "cp_size", "is 1.5", "an integer from 1"),
    ranks("a string", "2", 0, "cp_size", "is '2'", "an integer from 1"),
    ranks("size None", None, 0, "cp_size", "is None", "an integer from 1"),
    ranks("below 0", 2, -1, "cp_rank", "is -1", "from 0 to cp_size - 1 = 1"),
    ranks("past the last", 2, 2, "cp_rank", "is 2", "from 0 to cp_size - 1 = 1"),
    ranks("a rank of one", 1, 1, "cp_rank", "is 1", "from 0 to cp_size - 1 = 0"),
    ranks("between two", 2, 0.5, "cp_rank", "is 0.5", "from 0 to cp_size - 1 = 1"),
    ranks("rank None", 2, None, "cp_rank", "is None", "from 0 to cp_size - 1 = 1"),
    ranks(
        "odd s", 2, 0, "cp_size", "is 2, and {t} has s = 3 positions", "an even s", t=t(3, B, H, D)
    ),
    ranks("short", 2, 1, "freqs", "s2 = 4 positions", "'sbhd' needs at least s = 8"),
    ranks(
        "short for all ranks, cos and sin",
        3,
        1,
        "freqs",
        "s2 = 4 positions",
        "needs at least s = 12",
        freqs=(cos(), cos()),
    ),
    Bad("an order", {"cp_order": "ring"}, "cp_order", "is 'ring'", "zigzag, contiguous, round"),
    Bad("no order", {"cp_order": None}, "cp_order", "is None", "zigzag, contiguous, round"),
    Bad("a list of orders", {"cp_order": ["zigzag"]}, "cp_order", "is ['zigzag']", "zigzag"),
    ranks(
        *("short for contiguous ranks", 2, 0, "freqs", "s2 = 4 positions", "at least s = 8"),
        cp_order="contiguous",
    ),
    *(
        thd(
            f"that ranks cannot share, {order}",
            cu(0, 4, 7),
            "[0, 4, 7]",
            "lengths that cp_size = 2 divides",
            cp_size=2,
            cp_order=order,
        )
        for order in ("contiguous", "round_robin")
    ),
    thd(
        "of contiguous ranks, too long for freqs",
        cu(0, 4, 10),
        "s2 = 4",
        "in use needs 6",
        argument="freqs",
        cp_size=2,
        cp_order="contiguous",
    ),
    thd(
        "that the ranks cannot share",
        cu(0, 4, 6),
        "[0, 4, 6]",
        "lengths that 2 * cp_size = 4 divides",
        cp_size=2,
    ),
    thd(
        "past the tokens of all ranks",
        cu(0, 4, 20),
        "[0, 4, 20]",
        "values up to 16",
        cp_size=2,
    ),
    thd(
        "of ranks, too long for freqs",
        cu(0, 4, 12),
        "s2 = 4",
        "in use needs 8",
        argument="freqs",
        cp_size=2,
    ),
    # inplace
    Bad(
        "in place, expanded",
        {"t": t(S, B, 1, D).expand(S, B, H, D), "inplace": True},
        "{t}",
        "elements in one place",
        "{t}.clone()",
    ),
    Bad(
        "in place, windows",
        {"t": torch.zeros(99).as_strided((S, B, H, D), (20, 10, 5, 1)), "inplace": True},
        "{t}",
        "strides (20, 10, 5, 1)",
        "{t}.clone()",
    ),
    # layouts
    Bad("t sparse", {"t": t().to_sparse()}, "{t}", "torch.sparse_coo", "torch.strided"),
    Bad("freqs sparse", {"freqs": table().to_sparse()}, "freqs", "torch.sparse", "torch.strided"),
    # devices
    Bad(
        "t elsewhere",
        {"t": t().to("meta")},
        "freqs",
        "is on cpu",
        "must be on {t}'s device, meta",
        on_cpu=True,
    ),
    Bad(
        "freqs elsewhere",
        {"freqs": table().to("meta")},
        "freqs",
        "is on meta",
        "must be on {t}'s device, cpu",
        on_cpu=True,
    ),
    thd("elsewhere", cu(0, 4).to("meta"), "is on meta", "must be on {t}'s device, cpu"),
    elsewhere("freqs[0]", freqs=(cos().to("meta"), cos())),
    elsewhere("freqs[1]", freqs=(cos(), cos().to("meta"))),
    elsewhere("freqs", freqs=module(device="meta")),
    elsewhere("start_positions", start_positions=cu(0, 0).to("meta")),
    elsewhere("position_ids", position_ids=cu(0, 1, 2, 3)[None].to("meta")),
]

BAD += BAD_SLICES


def to(device, value):
    if isinstance(value, tuple | list):
        return type(value)(to(device, x) for x in value)
    # a layer that is no parameter of anything: its copy moves
    value = copy.deepcopy(value) if isinstance(value, RotaryPositionEmbedding) else value
    moved = value.to(device) if isinstance(value, torch.Tensor | nn.Module) else value
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return moved
    if moved.stride() != value.stride():  # elements in one place move to places of their own
        memory = value.new_empty(0).set_(value.untyped_storage()).to(device)
        moved = memory.as_strided(value.shape, value.stride(), value.storage_offset())
    return moved


def check_message(error, bad, t_name):
    message = str(error.value)
    assert message.startswith(bad.argument.format(t=t_name) + " "), message
    assert bad.came.format(t=t_name) in message, message
    assert bad.accepted.format(t=t_name) in message, message


def of_each_kind(bads):
    """One of each argument, error and format: the functions share the checks, not the calls."""
    kinds = {(bad.argument, bad.error, str(bad.tensor_format), bad.on_cpu): bad for bad in bads}
    return list(kinds.values())


def all_for_one(bads, calls):
    """All for the first function, one of each kind for every other one."""
    first = next(iter(calls))
    return pytest.mark.parametrize(
        ("call", "bad"),
        [
            pytest.param(call, bad, id=f"{name}-{bad.argument.strip('{}')}: {bad.what}")
            for name, call in calls.items()
            for bad in (bads if name == first else of_each_kind(bads))
        ],
    )


@all_for_one(BAD, CALLS)
def test_bad_argument(bad, call, device, nothing_may_run):
    arguments = {"t": t(), "freqs": table(), **bad.change}
    if not bad.on_cpu:
        arguments = {name: to(device, value) for name, value in arguments.items()}
    with pytest.raises(bad.error) as error:
        call(arguments.pop("t"), arguments.pop("freqs"), bad.tensor_format, **arguments)
    assert error.type is bad.error
    check_message(error, bad, name_of_t(call))


@all_for_one(BAD_SLICES, {name: call for name, call in CALLS.items() if name != "rope_qk"})
def test_nothing_is_written_by_a_call_that_fails(bad, call, device):
    """In place, after good calls of the same kind, whose signatures are remembered."""
    freqs = to(device, bad.change.get("freqs", table() + 1))
    x = torch.randn(S, B, H, D, device=device)
    before = x.clone()
    call(x.clone(), table().to(device) + 1, inplace=True)
    options = {name: to(device, value) for name, value in bad.change.items() if name != "freqs"}
    with pytest.raises(bad.error):
        call(x, freqs, **options | {"inplace": True})
    assert torch.equal(x, before)


@pytest.mark.parametrize("value", ("no", 0, 1, None, np.True_), ids=repr)
@pytest.mark.parametrize("call", (apply_rotary_pos_emb, rope_fw, rope_bw, q_and_k))
def test_fused_is_a_bool(call, value, device, nothing_may_run):
    with pytest.raises(TypeError) as error:
        call(t().to(device), table().to(device), fused=value)
    assert str(error.value) == f"fused is {value!r}; accepted: False, True"


@each_call
def test_a_module_that_was_good_before_is_refused_too(call, device):
    """What earlier calls proved of it no longer holds."""
    x, freqs = t().to(device), module(device=device)
    for _ in range(2):
        call(x, freqs)
    freqs.forward = lambda max_seq_len: table()
    with pytest.raises(TypeError, match=r"^freqs .*forward.*freqs\(max_seq_len\)$"):
        call(x, freqs)
    del freqs.forward
    call(x, freqs)


@each_call
def test_a_subclass_that_keeps_forward_is_fine(call, device, nothing_may_run):
    class Named(RotaryPositionEmbedding):
        def extra_repr(self):
            return "named"

    with pytest.raises(Reached):
        call(t().to(device), Named(D2).to(device))


def test_bad_arguments_are_as_bad_on_another_device():
    """Or a test would hand over something good there."""
    for bad in BAD:
        for value in bad.change.values():
            if isinstance(value, torch.Tensor) and value.layout == torch.strided:
                moved = to("meta", value)
                assert (moved.shape, moved.dtype) == (value.shape, value.dtype)
                assert moved.stride() == value.stride(), bad.what


@each_call
def test_good_arguments_get_past_the_checks(call, device, nothing_may_run):
    """Else the tests above would prove nothing."""
    with pytest.raises(Reached):
        call(t().to(device), table().to(device))
    with pytest.raises(Reached):
        call(t(S * B, H, D), table(), "thd", cu_seqlens=cu(0, 4, 4, 8))


GOOD = {
    "cos and sin": {"freqs": (cos(), cos())},
    "an entry each": {"freqs": [cos(B, S, D2), cos(B, S, D2)]},
    "cos of fp64": {"freqs": (cos(dtype=torch.float64), cos(dtype=torch.float64))},
    "the module": {"freqs": module()},
    "the interleaved module": {"freqs": module(interleaved=True), "interleaved": True},
    "an interpolating module": {"freqs": interpolating_module()},
    "starts": {"start_positions": cu(0, 5), "freqs": table(9, 1, 1, D2)},
    "ids": {"position_ids": cu(3, 0, 1, 3)[None]},
    "ids below 0 of the module": {"position_ids": cu(-3, 0, 1, 3)[None], "freqs": module()},
    "ids of a table shorter than t": {
        "position_ids": cu(0, 0, 0, 0)[None],
        "freqs": table(1, 1, 1, 2),
    },
    "ranks": {"cp_size": 2, "cp_rank": 1, "freqs": table(8, 1, 1, D2)},
    "an odd s of contiguous ranks": {
        **{"cp_size": 2, "cp_order": "contiguous", "t": t(3, B, H, D)},
        "freqs": table(6, 1, 1, D2),
    },
    "no rank beside me": {"cp_size": 1, "cp_rank": 0, "t": t(3, B, H, D)},
    "a rotary_dim": {"rotary_dim": 8},
    "one column per pair": {"rotary_dim": 8, "freqs": table(S, 1, 1, 4)},
    "one cosine per pair": {"rotary_dim": 4, "freqs": (cos(S, 2), cos(S, 2)), "rotary_start": 6},
    "the module's rotary_dim": {"rotary_dim": 8, "freqs": module()},
    "the last start": {"rotary_start": 2},
    "inverse": {"inverse": True},
    "half-split results": {"output_pairing": "half"},
    "the same pairing": {"output_pairing": "same", "interleaved": True},
    "a model's rounding": {"rounding": "model"},
    "a rounding by name": {"rounding": "once"},
}


@pytest.mark.parametrize("which", GOOD)
def test_each_new_argument_can_be_good(which, device, nothing_may_run):
    arguments = {"t": t(), "freqs": table(), **GOOD[which]}
    arguments = {name: to(device, value) for name, value in arguments.items()}
    with pytest.raises(Reached):
        apply_rotary_pos_emb(**arguments)


@each_call
def test_the_table_ends_right_where_the_positions_do(call, nothing_may_run):
    """One position less is enough for each of these, and none is refused."""
    packed = t(S * B, H, D)
    for x, form, options in (
        (t(), "sbhd", {"start_positions": cu(0, 5)}),
        (t(), "sbhd", {"position_ids": cu(8, 0, 3, 3)[None]}),
        (packed, "thd", {"cu_seqlens": cu(0, 3, 7), "start_positions": cu(6, 5)}),
        (packed, "thd", {"position_ids": cu(8, *range(7))}),
    ):
        with pytest.raises(Reached):
            call(x, table(9, 1, 1, D2), form, **options)
        with pytest.raises(ValueError, match=r"^freqs has angles for s2 = 8 .* needs 9$"):
            call(x, table(8, 1, 1, D2), form, **options)


# what rope_qk says of k

K_BESIDE_Q = "accepted beside q: "
BAD_K = {
    "a list": ([1.0], TypeError, "is of type list", "torch.Tensor"),
    "None": (None, TypeError, "is of type NoneType", "torch.Tensor"),
    "of int64": (t(dtype=torch.int64), TypeError, "dtype int64", T_DTYPES),
    "of another dtype": (
        t(dtype=torch.bfloat16),
        TypeError,
        "dtype bfloat16",
        K_BESIDE_Q + "float32",
    ),
    "of rank 3": (t(S, H, D), ValueError, "(4, 3, 10), 3 dimensions", "'sbhd' needs 4"),
    "longer": (t(S + 1, B, 5, D), ValueError, "(5, 2, 5, 10)", K_BESIDE_Q + "(4, 2, 5, 10)"),
    "of another batch": (t(S, 1, 5, D), ValueError, "(4, 1, 5, 10)", K_BESIDE_Q + "(4, 2, 5, 10)"),
    "wider": (t(S, B, 5, D + 2), ValueError, "(4, 2, 5, 12)", K_BESIDE_Q + "(4, 2, 5, 10)"),
    "in another format": (t(B, S, H, D), ValueError, "(2, 4, 3, 10)", K_BESIDE_Q + "(4, 2, 3, 10)"),
    "sparse": (t().to_sparse(), ValueError, "layout torch.sparse_coo", "torch.strided"),
    "elsewhere": (t().to("meta"), ValueError, "is on meta", "must be on q's device, "),
}


@cover(which=tuple(BAD_K), fused=(True, False), inplace=(False, True))
def test_bad_k(which, fused, inplace, device, nothing_may_run):
    k, kind, came, accepted = BAD_K[which]
    k = k if which == "elsewhere" else to(device, k)
    with pytest.raises(kind) as error:
        rope_qk(t().to(device), k, table().to(device), fused=fused, inplace=inplace)
    message = str(error.value)
    assert error.type is kind and message.startswith("k ")
    assert came in message and accepted in message


def test_k_may_have_heads_of_its_own(device, nothing_may_run):
    for heads in (0, 1, H, 99):
        with pytest.raises(Reached):
            rope_qk(t().to(device), t(S, B, heads, D).to(device), table().to(device))


# what inplace cannot overwrite; more of it in test_inplace.py

WITH_AUTOGRAD = {"fused": apply_rotary_pos_emb, "unfused": unfused, "rope_qk": q_and_k}


@pytest.mark.parametrize("call", WITH_AUTOGRAD.values(), ids=WITH_AUTOGRAD.keys())
def test_inplace_refuses_what_autograd_forbids(call, device, nothing_may_run):
    name, freqs = name_of_t(call), table().to(device)
    leaf = t().to(device).requires_grad_()
    for x, came, accepted in (
        (leaf, "a leaf that requires a gradient", "clone()"),
        (leaf[:], "a leaf that requires a gradient", "clone()"),
        # was written before autograd refused it
        (t().to(device)[:].requires_grad_(), "a leaf that requires a gradient", "clone()"),
        ((leaf * 1).chunk(1)[0], "a view that autograd cannot overwrite", "clone()"),
    ):
        with pytest.raises(ValueError) as error:
            call(x, freqs, inplace=True)
        message = str(error.value)
        assert message.startswith(f"{name} is {came}") and f"{name}.{accepted}" in message
    for changed in (freqs.clone().requires_grad_(), (cos().requires_grad_(), cos())):
        with pytest.raises(ValueError, match=r"^freqs requires a gradient; accepted: .*detach\(\)"):
            call(t().to(device), to(device, changed), inplace=True)


@pytest.mark.parametrize("fused", (True, False))
def test_inplace_refuses_a_k_that_is_q(fused, device, nothing_may_run):
    both = t(S, B, 2 * H, D).to(device)
    for q, k in ((both, both), (both[:, :, : H + 1], both[:, :, H:])):
        with pytest.raises(ValueError, match=r"^k shares memory with q; accepted: .*inplace=True"):
            rope_qk(q, k, table().to(device), fused=fused, inplace=True)
    with pytest.raises(Reached):
        rope_qk(both[:, :, :H], both[:, :, H:], table().to(device), fused=fused, inplace=True)


@pytest.mark.gpu
@each_call
@pytest.mark.parametrize("argument", ("t", "freqs", "cu_seqlens", "start_positions"))
def test_a_tensor_on_the_cpu_among_tensors_on_a_gpu(argument, call, nothing_may_run):
    arguments = {"t": t(S * B, H, D), "freqs": table(), "cu_seqlens": cu(0, 4)}
    check_one_on_the_cpu(call, argument, **arguments, start_positions=cu(0), tensor_format="thd")


@pytest.mark.gpu
@each_call
@pytest.mark.parametrize("argument", ("t", "freqs", "freqs[0]", "freqs[1]", "position_ids"))
def test_a_dense_tensor_on_the_cpu_among_tensors_on_a_gpu(argument, call, nothing_may_run):
    freqs = (cos(), cos()) if argument.startswith("freqs[") else module()
    check_one_on_the_cpu(call, argument, t=t(), freqs=freqs, position_ids=cu(0, 1, 2, 3)[None])


def check_one_on_the_cpu(call, argument, **arguments):
    on_gpu = {name: to("cuda", value) for name, value in arguments.items()}
    if argument.startswith("freqs["):
        pair, which = list(on_gpu["freqs"]), int(argument[-2])
        pair[which] = pair[which].cpu()
        on_gpu["freqs"] = tuple(pair)
    else:
        on_gpu[argument] = arguments[argument]
    named = r"\w+(\[0\])?" if argument == "t" else re.escape(argument)
    with pytest.raises(ValueError, match=f"^{named} is on (cpu|cuda:0); it must be on "):
        call(on_gpu.pop("t"), on_gpu.pop("freqs"), **on_gpu)


def cases_on_the_gpu():
    """t, freqs, format and options, by name: each argument whose values lie on the GPU."""
    dense, packed = torch.randn(S, B, H, D, device="cuda"), torch.randn(8, H, D, device="cuda")
    freqs, cu_seqlens = angles(8, D2, "cuda"), cu(0, 4, 8).cuda()
    pair = torch.randn(2, B, 8, D2, device="cuda").unbind(0)
    ids = cu(3, 0, 1, 3).cuda()[None]
    return {
        "sequences": (packed, freqs, "thd", {"cu_seqlens": cu_seqlens}),
        "packed starts": (
            *(packed, freqs, "thd"),
            {"cu_seqlens": cu_seqlens, "start_positions": cu(0, 1).cuda()},
        ),
        "packed ids": (packed, freqs, "thd", {"position_ids": ids[0].repeat(2)}),
        "starts": (dense, pair, "sbhd", {"start_positions": cu(0, 1).cuda()}),
        "ids": (dense, module(device="cuda"), "sbhd", {"position_ids": ids}),
        "ranks": (packed, freqs, "thd", {"cu_seqlens": cu_seqlens, "cp_size": 2, "cp_rank": 1}),
    }


class NoSynchronization:
    def __enter__(self):
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")

    def __exit__(self, *_):
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@each_call
def test_no_value_is_read_back_from_the_gpu(call):
    for x, freqs, tensor_format, options in cases_on_the_gpu().values():
        call(x, freqs, tensor_format, **options)  # compiles
        with NoSynchronization():
            call(x, freqs, tensor_format, **options)


@pytest.mark.gpu
@pytest.mark.parametrize("fused", (True, False))
def test_no_value_is_read_back_from_the_gpu_for_gradients(fused):
    for x, freqs, tensor_format, options in cases_on_the_gpu().values():
        x.requires_grad_()
        if isinstance(freqs, RotaryPositionEmbedding):
            wanted = [x]
        else:
            leaves = [freqs] if isinstance(freqs, torch.Tensor) else freqs
            leaves = [leaf.detach().requires_grad_() for leaf in leaves]
            wanted = [x, *leaves]
            freqs = leaves[0] if len(leaves) == 1 else tuple(leaves)
        grad = torch.randn_like(x)

        def gradients(x=x, freqs=freqs, form=tensor_format, options=options, wanted=wanted, g=grad):
            out = apply_rotary_pos_emb(x, freqs, form, fused=fused, **options)
            return torch.autograd.grad(out, wanted, g)

        gradients()  # compiles
        with NoSynchronization():
            gradients()


@pytest.mark.parametrize("call", (rope_fw, rope_bw))
def test_only_the_named_arguments_are_positional(call, device):
    with pytest.raises(TypeError):
        call(t(S * B, H, D), table(), "thd", cu(0, 4))
    with pytest.raises(TypeError):
        apply_rotary_pos_emb(t(), table(), "sbhd", False)
    with pytest.raises(TypeError):
        rope_qk(t(), t(), table(), "sbhd", False)


@each_call
def test_an_option_that_does_not_exist_is_an_error(call, nothing_may_run):
    with pytest.raises(TypeError, match="max_seqlen"):
        call(t(), table(), max_seqlen=4)


# freqs that require a gradient


def test_freqs_that_require_a_gradient_are_fine_where_none_is_asked_for(device):
    x, freqs = torch.randn(S, B, H, D, device=device), angles(S, D2, device).requires_grad_()
    with torch.no_grad():
        out = apply_rotary_pos_emb(x, freqs)
        assert not out.requires_grad
    with torch.inference_mode():
        assert torch.equal(apply_rotary_pos_emb(x, freqs), out)
    assert torch.equal(rope_fw(x, freqs), out) and not rope_fw(x, freqs).requires_grad
    assert not rope_bw(x, freqs).requires_grad
    assert torch.equal(apply_rotary_pos_emb(x, freqs.detach()), out)
    assert not apply_rotary_pos_emb(x, freqs.detach()).requires_grad
    for fused in (True, False):
        assert apply_rotary_pos_emb(x, freqs, fused=fused).requires_grad
        assert all(y.requires_grad for y in rope_qk(x, x, freqs, fused=fused))
