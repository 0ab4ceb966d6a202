"""Bad arguments: the right exception, a message that helps, and nothing launched.

A message names the argument, what came and what is accepted. All public functions share the checks:
one function gets the whole list, every other one a few of it.
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
    qk_norm_rope,
    reference,
    rope_bw,
    rope_fw,
    rope_qk,
)
from rope_kernels.launch import launch

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
    tensor_format: str
    change: dict
    argument: str  # the message begins with it
    came: str
    accepted: str
    error: type = ValueError
    on_cpu: bool = False  # checked only where reading values costs nothing


class Reached(Exception):
    """A bad argument got past the checks."""


@pytest.fixture
def nothing_may_run(monkeypatch):
    def reached(*_args, **_kwargs):
        raise Reached

    monkeypatch.setattr(launch, "rotate", reached)
    monkeypatch.setattr(launch, "run", reached)
    monkeypatch.setattr(reference, "rotate", reached)


def t(*shape, dtype=torch.float32):
    return torch.zeros(shape or (S, B, H, D), dtype=dtype)


def table(*shape, dtype=torch.float32):
    return torch.zeros(shape or (S, 1, 1, D2), dtype=dtype)


def cu(*values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


def cos(*shape, dtype=torch.float32):
    """Or sines: a table without angles."""
    return torch.zeros(shape or (S, D2), dtype=dtype)


def module(*args, device="cpu", **kwargs):
    return RotaryPositionEmbedding(*(args or (D2,)), **kwargs).to(device)


def trained_module():
    made = module()
    made.inv_freq.requires_grad_()
    return made


def bf16_module():
    made = module()
    made._buffers["inv_freq"] = made.inv_freq.bfloat16()  # as FSDP's buffer_dtype does
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


def of(argument, *rows, error=ValueError, on_cpu=False):
    """Messages about one argument: (what, what differs from a good call, what came, accepted)."""
    return [
        Bad(what, *without_format(change), argument, came, accepted, error, on_cpu)
        for what, change, came, accepted in rows
    ]


def of_option(name, accepted, *values, error=ValueError, **more):
    """Bad values of an argument whose message repeats them."""
    # of a tensor on a GPU it names that, too
    rows = [(repr(x), {name: x, **more}, f"is {x!r}".removesuffix(")"), accepted) for x in values]
    return of(name, *rows, error=error)


def packed(cu_seqlens=None, **more):
    """What differs in a call of packed sequences."""
    return {"tensor_format": "thd", "t": t(S * B, H, D), "cu_seqlens": cu_seqlens, **more}


def without_format(change):
    rest = {name: value for name, value in change.items() if name != "tensor_format"}
    return change.get("tensor_format", "sbhd"), rest


FREQS = (
    "a torch.Tensor of angles, (s2, 1, 1, d2); a pair of torch.Tensors (cos, sin); "
    "or a RotaryPositionEmbedding"
)
EVEN = "an even number from 2 to {t}'s head dimension d = 10"
T_DTYPES = "accepted: float32, float16, bfloat16, float64"
I_DTYPES = "accepted: int32, int64, int16, int8, uint8"
RISING = "values that start at 0 and never fall"
ROOM = "an integer from 0 to 2, for 8 elements within {t}'s head dimension d = 10"
IN_ORDER = {"cp_size": 2, "cp_order": "contiguous"}
NO_BF16 = (
    "accepted with {t} of float32: float32. TransformerEngine casts such angles to float32, which "
    "does not bring back what they lost to bfloat16"
)
SHORT = "has angles for s2 = 3 positions"
UNEVEN = "[0, 4, 7]", "lengths that cp_size = 2 divides"
IN_ONE_PLACE = "elements in one place, or may have, by its strides", "{t}.clone()"
TRAINED = "inv_freq that requires a gradient", "freqs.cos_sin(max_seq_len)"
A_FLAG = "accepted: False, True"
OWN_TABLE = "accepted: its table, freqs(max_seq_len)"
AN_INT = "an int from -2^62 to 2^62"
A_SIZE = "accepted: an integer from 1"
A_RANK = "accepted: an integer from 0 to cp_size - 1 = 1"
PAIRINGS = "accepted: same, half"
ON_META = "is on meta", "must be on {t}'s device, cpu"
INTERPOLATES = "interpolates", "freqs.cos_sin(max_seq_len)"


def width(width, freqs=None):
    change = {"freqs": table(S, 1, 1, width) if freqs is None else freqs, "rotary_dim": 8}
    came = f"has last dimension {width} with rotary_dim = 8"
    return f"of {width}", change, came, "accepted: 8, or one column per pair, 4"


# what turns, and how
BAD_SLICES = [
    *of_option("rotary_dim", EVEN, True, error=TypeError),
    *of_option("rotary_dim", EVEN, 8.0, "8", [8], torch.tensor(8), 7, -2, 0, 12, 2**64),
    *of_option("rotary_dim", EVEN, 12, rotary_start=2),
    *of_option("rotary_dim", "accepted: None, or that of freqs, 8", 4, freqs=module()),
    *of_option("rotary_dim", "or that of freqs, 4", 8, freqs=module(4)),
    *of_option("rotary_start", ROOM, False, error=TypeError),
    *of_option("rotary_start", ROOM, 2.0, "2", None, torch.tensor([1, 2]), -1, 3, 2**64),
    *of_option("rotary_start", "0 to 4, for 6", 5, rotary_dim=6, freqs=table(S, 1, 1, 3)),
    *of_option("rotary_start", ROOM, 3, freqs=module()),
    *of_option("rotary_start", "0 to 0, for 10", 1, freqs=table(S, 1, 1, 10)),
    *of("freqs", width(2), width(16), width(6, (cos(S, 6), cos(S, 6)))),
    *of_option("inverse", A_FLAG, 1, 0.0, None, "yes", error=TypeError),
    *of_option("output_pairing", PAIRINGS, "halves", "", None, True, ["half"]),
    *of_option("output_pairing", PAIRINGS, "interleaved", interleaved=True),
    *of_option("output_pairing", "with inplace=True; accepted: 'same'", "half", inplace=True),
    *of_option("rounding", "accepted: None, once, model", "twice", "", 1, False, ["once"]),
]

BAD = [
    *of(
        "{t}",
        ("a list", {"t": [1.0]}, "type list", "torch.Tensor"),
        ("of int64", {"t": t(dtype=torch.int64)}, "dtype int64", T_DTYPES),
        ("complex", {"t": t(dtype=torch.cfloat)}, "complex64", T_DTYPES),
        error=TypeError,
    ),
    *of(
        "{t}",
        ("of rank 3", {"t": t(S, H, D)}, "(4, 3, 10), 3 dimensions", "'sbhd' needs 4"),
        ("a scalar", {"t": torch.tensor(1.0)}, "(), 0 dimensions", "'sbhd' needs 4"),
        ("packed, of rank 4", packed(cu(0, 4), t=t()), "4 dimensions", "'thd' needs 3"),
        ("sparse", {"t": t().to_sparse()}, "torch.sparse_coo", "torch.strided"),
        ("expanded", {"t": t(S, B, 1, D).expand(S, B, H, D), "inplace": True}, *IN_ONE_PLACE),
    ),
    # freqs, of any kind
    *of(
        "freqs",
        ("none", {"freqs": None}, "type NoneType", FREQS),
        ("a dict", {"freqs": {"cos": cos(), "sin": cos()}}, "type dict", FREQS),
        ("a class", {"freqs": RotaryPositionEmbedding}, "type type", FREQS),
        ("of others", {"freqs": ModuleOfAnotherLibrary()}, "ModuleOfAnotherLibrary", FREQS),
        ("of bf16", {"freqs": table(dtype=torch.bfloat16)}, "dtype bfloat16", NO_BF16),
        ("of fp64", {"freqs": table(dtype=torch.float64)}, "float64", "of float32: float32"),
        (
            "of int64",
            {"freqs": table(dtype=torch.int64), "t": t(dtype=torch.float64)},
            "dtype int64",
            "accepted with {t} of float64: float32, float64",
        ),
        ("inv_freq", {"freqs": bf16_module()}, "bfloat16", "for inv_freq: float32, float64"),
        ("own forward", {"freqs": Scaled(D2)}, "a Scaled that overrides forward", OWN_TABLE),
        ("its forward", {"freqs": module_with_own_forward()}, "overrides forward", OWN_TABLE),
        error=TypeError,
    ),
    *of(
        "freqs",
        ("three numbers", {"freqs": [0.5, 0.25, 0.125]}, "3 entries", FREQS),
        ("one table", {"freqs": (cos(),)}, "1 entries", "(cos, sin)"),
        ("of rank 2", {"freqs": table(S, D2)}, "(4, 8)", "(s2, 1, 1, d2)"),
        ("of each entry", {"freqs": table(S, B, 1, D2)}, "(4, 2, 1, 8)", "(s2, 1, 1, d2"),
        ("of odd d2", {"freqs": table(S, 1, 1, 5)}, "d2 = 5", EVEN),
        ("of d2 > d", {"freqs": table(S, 1, 1, 12)}, "d2 = 12", EVEN),
        ("of d2 = 0", {"freqs": table(S, 1, 1, 0)}, "d2 = 0", EVEN),
        ("cos of odd d2", {"freqs": (cos(S, 5), cos(S, 5))}, "d2 = 5", EVEN),
        ("a module of d2 > d", {"freqs": module(12)}, "d2 = 12", EVEN),
        ("sparse", {"freqs": table().to_sparse()}, "torch.sparse", "torch.strided"),
        (
            "short",
            {"freqs": table(3, 1, 1, D2)},
            SHORT,
            "{t} of shape (4, 2, 3, 10) in format 'sbhd' needs at least s = 4",
        ),
        (
            "short, bhsd",
            {"freqs": table(3, 1, 1, D2), "t": t(B, 2, S, D), "tensor_format": "bhsd"},
            SHORT,
            "{t} of shape (2, 2, 4, 10) in format 'bhsd' needs at least s = 4",
        ),
        ("cos short", {"freqs": (cos(B, 3, D2), cos(B, 3, D2))}, "s2 = 3", "at least s = 4"),
        ("short for all ranks", {"cp_size": 3, "cp_rank": 1}, "s2 = 4", "at least s = 12"),
        ("interleaved", {"freqs": module(interleaved=True)}, "= True", "the call's, False"),
        ("halves", {"freqs": module(), "interleaved": True}, "= False", "the call's, True"),
        ("trained", {"freqs": trained_module()}, *TRAINED),
        *(
            (f"interpolates {what}", {"freqs": interpolating_module(), **where}, *INTERPOLATES)
            for what, where in (
                ("starts", {"start_positions": cu(0, 1)}),
                ("ids", {"position_ids": cu(0, 1, 2, 3)[None]}),
                ("packed tokens", packed(cu(0, 4, 8))),
            )
        ),
    ),
    *of(
        "freqs",
        ("short of starts", {"start_positions": cu(0, 3)}, "s2 = 4", "in use needs 7"),
        ("short of ids", {"position_ids": cu(0, 1, 9, 3)[None]}, "s2 = 4", "in use needs 10"),
        ("far ids", {"position_ids": torch.full((1, S), 2**63 - 1)}, "s2 = 4", "use needs 9223"),
        ("short of tokens", packed(cu(0, 2, 7)), "s2 = 4", "in use needs 5"),
        ("packed starts", packed(cu(0, 1, 4), start_positions=cu(3, 2)), "s2 = 4", "use needs 5"),
        ("short of ranks", packed(cu(0, 4, 12), cp_size=2), "s2 = 4", "in use needs 8"),
        ("ranks in order", packed(cu(0, 4, 10), **IN_ORDER), "s2 = 4", "in use needs 6"),
        ("beside t elsewhere", {"t": t().to("meta")}, "is on cpu", "on {t}'s device, meta"),
        ("a module elsewhere", {"freqs": module(device="meta")}, *ON_META),
        on_cpu=True,
    ),
    # freqs: cosines and sines
    *of(
        "freqs[0]",
        ("none", {"freqs": (None, cos())}, "type NoneType", "torch.Tensor"),
        ("numbers", {"freqs": [0.5, 0.25]}, "type float", FREQS),
        ("int64", {"freqs": [cos(dtype=torch.int64)] * 2}, "dtype int64", T_DTYPES),
        error=TypeError,
    ),
    *of(
        "freqs[0]",
        ("rank 1", {"freqs": (cos(D2), cos(D2))}, "(8,)", "(s2, d2) or (2, s2, d2) or (1, s2, d2)"),
        ("3 entries", {"freqs": (cos(3, S, D2), cos(3, S, D2))}, "(3, 4, 8)", "(2, s2, d2)"),
        (
            "2 entries, packed",
            packed(cu(0, 4, 8), freqs=(cos(B, S, D2), cos(B, S, D2))),
            "(2, 4, 8)",
            "(s2, d2) or (1, s2, d2)",
        ),
    ),
    *of("freqs[0]", ("elsewhere", {"freqs": (cos().to("meta"), cos())}, *ON_META), on_cpu=True),
    *of(
        "freqs[1]",
        ("a number", {"freqs": (cos(), 0.5)}, "float", "torch.Tensor"),
        (
            "of another dtype",
            {"freqs": (cos(dtype=torch.bfloat16), cos())},
            "dtype float32",
            "accepted beside freqs[0]: bfloat16",
        ),
        error=TypeError,
    ),
    *of(
        "freqs[1]",
        ("shorter", {"freqs": (cos(5, D2), cos())}, "(4, 8)", "[0]: (5, 8)"),
        ("shared", {"freqs": (cos(B, S, D2), cos())}, "(4, 8)", "[0]: (2, 4, 8)"),
    ),
    *of("freqs[1]", ("elsewhere", {"freqs": (cos(), cos().to("meta"))}, *ON_META), on_cpu=True),
    # format and flags
    *of_option("tensor_format", "sbhd, bshd, bhsd, thd", "shbd", "SBHD", None, ["sbhd"]),
    *of_option("interleaved", A_FLAG, "no", 0, None, error=TypeError),
    *of_option("inplace", A_FLAG, 1, None, np.True_, torch.tensor(True), error=TypeError),
    # cu_seqlens
    *of(
        "cu_seqlens",
        ("a list", packed([0, 4]), "type list", "torch.Tensor"),
        ("of int16", packed(cu(0, 4, dtype=torch.int16)), "int16", "accepted: int32, int64"),
        error=TypeError,
    ),
    *of(
        "cu_seqlens",
        ("dense", {"cu_seqlens": cu(0, 4)}, "'sbhd'", "only with 'thd' (elsewhere TransformerEn"),
        ("missing", packed(), "is None", "int32 or int64 of shape (b + 1,)"),
        ("missing beside starts", packed(start_positions=cu(0)), "is None", "or position_ids"),
        ("of rank 2", packed(cu(0, 4)[None]), "(1, 2)", "(b + 1,)"),
        ("of length 0", packed(cu()), "(0,)", "(b + 1,)"),
    ),
    *of(
        "cu_seqlens",
        ("not from 0", packed(cu(1, 4)), "[1, 4]", RISING),
        ("falling", packed(cu(0, 1, 2, 3, 4, 5, 4)), "[0, 1, 2, 3, 4, 5, ...]", RISING),
        ("past t", packed(cu(0, 4, 9)), "[0, 4, 9]", "values up to 8, the number of tokens on all"),
        ("past all ranks", packed(cu(0, 4, 20), cp_size=2), "[0, 4, 20]", "values up to 16"),
        ("uneven", packed(cu(0, 4, 6), cp_size=2), "[0, 4, 6]", "that 2 * cp_size = 4 divides"),
        ("uneven, in order", packed(cu(0, 4, 7), **IN_ORDER), *UNEVEN),
        ("uneven, in turn", packed(cu(0, 4, 7), cp_size=2, cp_order="round_robin"), *UNEVEN),
        ("elsewhere", packed(cu(0, 4).to("meta")), *ON_META),
        on_cpu=True,
    ),
    # start_positions
    *of(
        "start_positions",
        ("a list", {"start_positions": [0, 0]}, "type list", "torch.Tensor"),
        ("a bool", {"start_positions": True}, "is True", AN_INT),
        ("a float", {"start_positions": 1.5}, "type float", AN_INT),
        ("fp32", {"start_positions": cu(0, dtype=torch.float32)}, "float32", I_DTYPES),
        ("bool", {"start_positions": cu(0, 1, dtype=torch.bool)}, "bool", I_DTYPES),
        error=TypeError,
    ),
    *of(
        "start_positions",
        ("a large int", {"start_positions": 2**62 + 1}, "is 46116", AN_INT),
        ("a larger int", {"start_positions": -(2**70)}, "is -1180", AN_INT),
        ("too many", {"start_positions": cu(0, 0, 0)}, "(3,)", "(2,) or (1,) or ()"),
        ("of rank 2", {"start_positions": cu(0, 0)[:, None]}, "(2, 1)", "(2,)"),
        (
            "packed, too many",
            packed(cu(0, 4, 8), start_positions=cu(0, 0, 0)),
            "(3,)",
            "seqlens: (2,)",
        ),
    ),
    *of(
        "start_positions",
        ("an int below 0", {"start_positions": -2}, "[-2, -2]", "values from 0 with a table"),
        ("elsewhere", {"start_positions": cu(0, 0).to("meta")}, *ON_META),
        on_cpu=True,
    ),
    # position_ids
    *of(
        "position_ids",
        ("a list", {"position_ids": [[0, 1, 2, 3]]}, "type list", "torch.Tensor"),
        ("fp32", {"position_ids": cu(0, 1, dtype=torch.float32)}, "float32", I_DTYPES),
        error=TypeError,
    ),
    *of(
        "position_ids",
        ("of rank 1", {"position_ids": cu(0, 1, 2, 3)}, "(4,)", "(2, 4) or (1, 4)"),
        ("of 3 entries", {"position_ids": cu(0, 1, 2, 3).expand(3, 4)}, "(3, 4)", "(2, 4) or (1"),
        ("too few", {"position_ids": cu(0, 1, 2)[None]}, "(1, 3)", "(2, 4) or (1, 4)"),
        ("with starts", {"position_ids": cu(0), "start_positions": 0}, "start_positions", "one"),
        ("packed, of rank 2", packed(position_ids=cu(*range(8))[None]), "(1, 8)", "(8,)"),
        ("packed, too few", packed(position_ids=cu(0, 1, 2)), "(3,)", "(8,)"),
    ),
    *of(
        "position_ids",
        ("below 0", {"position_ids": cu(0, 1, -3, 3)[None]}, "has -3", "from 0 with a table"),
        ("packed, below 0", packed(position_ids=cu(*range(7), -2)), "has -2", "from 0"),
        ("elsewhere", {"position_ids": cu(0, 1, 2, 3)[None].to("meta")}, *ON_META),
        on_cpu=True,
    ),
    # ranks
    *of_option("cp_size", A_SIZE, True, error=TypeError),
    *of_option("cp_size", A_SIZE, 0, -2, 1.5, "2", None, 2**31, 2**64),
    *of("cp_size", ("odd s", {"cp_size": 2, "t": t(3, B, H, D)}, "'sbhd' has s = 3", "an even s")),
    *of_option("cp_rank", A_RANK, True, error=TypeError, cp_size=2),
    *of_option("cp_rank", A_RANK, -1, 2, 0.5, None, cp_size=2),
    *of_option("cp_rank", "from 0 to cp_size - 1 = 0", 1),
    *of_option("cp_order", "accepted: zigzag, contiguous, round_robin", "ring", None, ["zigzag"]),
]

BAD += BAD_SLICES
SOME = [bad for bad in BAD if bad.what in ("of int64", "short", "an int below 0", "-2", "'twice'")]


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


def check_bad_argument(bad, call, device):
    arguments = {"t": t(), "freqs": table(), **bad.change}
    if not bad.on_cpu:
        arguments = {name: to(device, value) for name, value in arguments.items()}
    with pytest.raises(bad.error) as error:
        call(arguments.pop("t"), arguments.pop("freqs"), bad.tensor_format, **arguments)
    assert error.type is bad.error
    check_message(error, bad, name_of_t(call))


def id_of(bad):
    return f"{bad.argument.strip('{}')}: {bad.what}"


@pytest.mark.parametrize("bad", BAD, ids=id_of)
def test_bad_argument(bad, device, nothing_may_run):
    check_bad_argument(bad, apply_rotary_pos_emb, device)


@pytest.mark.parametrize("bad", SOME, ids=id_of)
@pytest.mark.parametrize("call", [*CALLS.values()][1:], ids=[*CALLS][1:])
def test_bad_argument_of_another_function(bad, call, device, nothing_may_run):
    check_bad_argument(bad, call, device)


@pytest.mark.parametrize("bad", BAD_SLICES, ids=id_of)
def test_nothing_is_written_by_a_call_that_fails(bad, device):
    """In place, after good calls of the same kind, whose signatures are remembered."""
    freqs = to(device, bad.change.get("freqs", table() + 1))
    x = torch.randn(S, B, H, D, device=device)
    before = x.clone()
    apply_rotary_pos_emb(x.clone(), table().to(device) + 1, inplace=True)
    options = {name: to(device, value) for name, value in bad.change.items() if name != "freqs"}
    with pytest.raises(bad.error):
        apply_rotary_pos_emb(x, freqs, **options | {"inplace": True})
    assert torch.equal(x, before)


@pytest.mark.parametrize("value", ("no", 0, None, np.True_), ids=repr)
def test_fused_is_a_bool(value, device, nothing_may_run):
    with pytest.raises(TypeError) as error:
        apply_rotary_pos_emb(t().to(device), table().to(device), fused=value)
    assert str(error.value) == f"fused is {value!r}; accepted: False, True"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_has_no_shape():
    nested = torch.nested.nested_tensor([torch.randn(2, 3, D)])
    with pytest.raises(ValueError, match=r"^t has layout of a nested tensor; accepted"):
        apply_rotary_pos_emb(nested, module())


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
    freqs.inv_freq.requires_grad_()
    with pytest.raises(ValueError, match=r"^freqs has an inv_freq that requires a gradient"):
        call(x, freqs)


def test_a_subclass_that_keeps_forward_is_fine(device, nothing_may_run):
    class Named(RotaryPositionEmbedding):
        def extra_repr(self):
            return "named"

    with pytest.raises(Reached):
        apply_rotary_pos_emb(t().to(device), Named(D2).to(device))


@each_call
def test_good_arguments_get_past_the_checks(call, device, nothing_may_run):
    """Else the tests above would prove nothing."""
    with pytest.raises(Reached):
        call(t().to(device), table().to(device))


GOOD = {  # at the edge of what is refused; the matrix has the others
    "an entry each": {"freqs": [cos(B, S, D2), cos(B, S, D2)]},
    "an interpolating module": {"freqs": interpolating_module()},
    "ids below 0 of the module": {"position_ids": cu(-3, 0, 1, 3)[None], "freqs": module()},
    "ids of a table shorter than t": {
        "position_ids": cu(0, 0, 0, 0)[None],
        "freqs": table(1, 1, 1, 2),
    },
    "an odd s of contiguous ranks": {
        **{"cp_size": 2, "cp_order": "contiguous", "t": t(3, B, H, D)},
        "freqs": table(6, 1, 1, D2),
    },
    "an odd s of one rank": {"cp_size": 1, "t": t(3, B, H, D)},
    "the last start": {"rotary_start": 2},
    "the last start of pairs": {"rotary_dim": 4, "freqs": table(S, 1, 1, 2), "rotary_start": 6},
    "the module's rotary_dim": {"rotary_dim": 8, "freqs": module()},
    "the largest start": {"start_positions": 2**62, "freqs": module()},
}


@pytest.mark.parametrize("which", GOOD)
def test_what_is_just_good(which, device, nothing_may_run):
    arguments = {"t": t(), "freqs": table(), **GOOD[which]}
    arguments = {name: to(device, value) for name, value in arguments.items()}
    with pytest.raises(Reached):
        apply_rotary_pos_emb(**arguments)


def test_the_table_ends_right_where_the_positions_do(nothing_may_run):
    """One position less is enough for each of these, and none is refused."""
    tokens = t(S * B, H, D)
    for x, form, options in (
        (t(), "sbhd", {"start_positions": cu(0, 5)}),
        (t(), "sbhd", {"position_ids": cu(8, 0, 3, 3)[None]}),
        (tokens, "thd", {"cu_seqlens": cu(0, 3, 7), "start_positions": cu(6, 5)}),
        (tokens, "thd", {"position_ids": cu(8, *range(7))}),
    ):
        with pytest.raises(Reached):
            apply_rotary_pos_emb(x, table(9, 1, 1, D2), form, **options)
        with pytest.raises(ValueError, match=r"^freqs has angles for s2 = 8 .* needs 9$"):
            apply_rotary_pos_emb(x, table(8, 1, 1, D2), form, **options)


@pytest.mark.parametrize("cp_rank", (0, 1, 2))
def test_all_ranks_refuse_a_table_that_is_too_short_for_one(cp_rank, nothing_may_run):
    """Or some of them would wait for the others."""
    ranks = {"cp_size": 3, "cp_rank": cp_rank, "start_positions": cu(1, 0)}
    with pytest.raises(ValueError, match=r"^freqs has angles for s2 = 12 .* needs 13$"):
        apply_rotary_pos_emb(t(), table(12, 1, 1, D2), **ranks)
    with pytest.raises(Reached):
        apply_rotary_pos_emb(t(), table(13, 1, 1, D2), **ranks)


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


# sizes as the format reads them


def normalized_q_and_k(t, *args, **kwargs):
    return qk_norm_rope(t, t, None, None, *args, **kwargs)


READ = "{t} of shape (6, 5, 4, 16) in format 'sbhd' has s = 6, b = 5, h = 4, d = 16"
MEANT_AS_BSHD = {  # by argument: what a newcomer gives beside t, and the message
    "start_positions": (
        {"start_positions": cu(*range(6))},
        f"start_positions has shape (6,); accepted: (5,) or (1,) or (); {READ}",
    ),
    "position_ids": (
        {"position_ids": cu(*range(5)).expand(6, 5)},
        f"position_ids has shape (6, 5); accepted: (5, 6) or (1, 6); {READ}",
    ),
    "cos and sin": (
        {"freqs": (cos(6, 5, 16), cos(6, 5, 16))},
        "freqs[0] has shape (6, 5, 16); accepted: (s2, d2) or (5, s2, d2) or (1, s2, d2); " + READ,
    ),
    "a table": (
        {"freqs": table(5, 1, 1, 16)},
        "freqs has angles for s2 = 5 positions; "
        "{t} of shape (6, 5, 4, 16) in format 'sbhd' needs at least s = 6",
    ),
}


@pytest.mark.parametrize("call", (apply_rotary_pos_emb, q_and_k, normalized_q_and_k))
@pytest.mark.parametrize("argument", MEANT_AS_BSHD)
def test_an_error_says_how_the_default_format_reads_a_bshd_tensor(
    argument, call, device, nothing_may_run
):
    change, message = MEANT_AS_BSHD[argument]
    options = {name: to(device, x) for name, x in {"freqs": module(16), **change}.items()}
    with pytest.raises(ValueError) as error:
        call(t(6, 5, 4, 16).to(device), **options)
    assert str(error.value) == message.format(t="t" if call is apply_rotary_pos_emb else "q")


def test_an_error_says_how_each_format_reads_q(device, nothing_may_run):
    for shape, form, sizes in (
        ((2, 5, 4, 16), "bshd", "b = 2, s = 5, h = 4, d = 16"),
        ((2, 4, 5, 16), "bhsd", "b = 2, h = 4, s = 5, d = 16"),
        ((5, 4, 16), "thd", "t = 5, h = 4, d = 16"),
    ):
        q, k = t(*shape).to(device), t(*shape[:-1], 8).to(device)
        read = f"; q of shape {shape} in format '{form}' has {sizes}"
        with pytest.raises(ValueError, match=rf"^k has shape .*{re.escape(read)}$"):
            rope_qk(q, k, table().to(device), form)


ONE_SEQUENCE = {  # what does not fit (4, 1, 3, 10), and which shapes do
    "start_positions": ({"start_positions": cu(0, 0, 0)}, "(1,) or ()"),
    "position_ids": ({"position_ids": cu(0, 1, 2)[None]}, "(1, 4)"),
    "freqs[0]": ({"freqs": (cos(2, S, D2), cos(2, S, D2))}, "(s2, d2) or (1, s2, d2)"),
}


@pytest.mark.parametrize("argument", ONE_SEQUENCE)
def test_an_error_names_a_shape_once(argument, device, nothing_may_run):
    change, accepted = ONE_SEQUENCE[argument]
    given = {"t": t(S, 1, H, D), "freqs": table(), **change}
    with pytest.raises(ValueError, match=f"^{re.escape(argument)} has shape") as error:
        apply_rotary_pos_emb(**{name: to(device, x) for name, x in given.items()})
    assert f"; accepted: {accepted}; t of shape " in str(error.value)


@pytest.mark.gpu
@pytest.mark.parametrize("argument", ("t", "freqs", "cu_seqlens", "start_positions"))
def test_a_tensor_on_the_cpu_among_tensors_on_a_gpu(argument, nothing_may_run):
    arguments = {"t": t(S * B, H, D), "freqs": table(), "cu_seqlens": cu(0, 4)}
    check_one_on_the_cpu(argument, **arguments, start_positions=cu(0), tensor_format="thd")


@pytest.mark.gpu
@pytest.mark.parametrize("argument", ("t", "freqs", "freqs[0]", "freqs[1]", "position_ids"))
def test_a_dense_tensor_on_the_cpu_among_tensors_on_a_gpu(argument, nothing_may_run):
    freqs = (cos(), cos()) if argument.startswith("freqs[") else module()
    check_one_on_the_cpu(argument, t=t(), freqs=freqs, position_ids=cu(0, 1, 2, 3)[None])


def check_one_on_the_cpu(argument, **arguments):
    on_gpu = {name: to("cuda", value) for name, value in arguments.items()}
    if argument.startswith("freqs["):
        pair, which = list(on_gpu["freqs"]), int(argument[-2])
        pair[which] = pair[which].cpu()
        on_gpu["freqs"] = tuple(pair)
    else:
        on_gpu[argument] = arguments[argument]
    named = r"\w+(\[0\])?" if argument == "t" else re.escape(argument)
    with pytest.raises(ValueError, match=f"^{named} is on (cpu|cuda:0); it must be on "):
        apply_rotary_pos_emb(**on_gpu)


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
    """Nor for a table's, which plain PyTorch has."""
    for x, freqs, tensor_format, options in cases_on_the_gpu().values():
        wanted = [x.requires_grad_()]
        if isinstance(freqs, torch.Tensor) and not fused:
            wanted.append(freqs := freqs.detach().requires_grad_())
        grad = torch.randn_like(x)

        def gradients(x=x, freqs=freqs, form=tensor_format, options=options, wanted=wanted, g=grad):
            out = apply_rotary_pos_emb(x, freqs, form, fused=fused, **options)
            return torch.autograd.grad(out, wanted, g)

        gradients()  # compiles
        with NoSynchronization():
            gradients()


def test_only_the_first_arguments_are_positional(device):
    for call in (rope_fw, rope_bw, apply_rotary_pos_emb, q_and_k):
        with pytest.raises(TypeError, match="positional"):
            call(t(S * B, H, D), table(), "thd", cu(0, 4))


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
