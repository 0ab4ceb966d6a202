"""Bad arguments of `norm_rope` and `qk_norm_rope`: a message that helps, and nothing written.

A message names the argument, what came and what is accepted. `test_checks.py` has all that is wrong
with the rotation's arguments.
"""

import numpy as np
import pytest
import torch

from rope_kernels import norm_rope, qk_norm_rope, reference
from rope_kernels.launch import launch

S, BATCH, H, D = 4, 2, 3, 10
NAN = float("nan")


@pytest.fixture
def nothing_may_run(monkeypatch):
    def reached(*_args, **_kwargs):
        raise AssertionError("a bad argument got past the checks")

    for module, name in (
        (launch, "run"),
        (launch, "norm_rope"),
        (reference, "norm_rope"),
    ):
        monkeypatch.setattr(module, name, reached)


def t(*shape, dtype=torch.float32):
    return torch.zeros(shape or (S, BATCH, H, D), dtype=dtype)


def table():
    return torch.zeros(S, 1, 1, 8)


def to(device, value):
    if isinstance(value, tuple | list):
        return type(value)(to(device, x) for x in value)
    return value.to(device) if isinstance(value, torch.Tensor) else value


def of_one(x, weight, freqs, tensor_format="sbhd", **options):
    return norm_rope(x, weight, freqs, tensor_format, **options)


def of_one_unfused(x, weight, freqs, tensor_format="sbhd", **options):
    return norm_rope(x, weight, freqs, tensor_format, fused=False, **options)


def of_two(x, weight, freqs, tensor_format="sbhd", **options):
    """The bad one is q's; k is good."""
    return qk_norm_rope(x, x, weight, None, freqs, tensor_format, **options)


each_call = pytest.mark.parametrize("call", (of_one, of_one_unfused, of_two))


OF_THE_ROTATION = {  # test_checks.py has the other bad values; here each argument is looked at
    "{t} ": {"t": t(S, BATCH, H)},
    "freqs ": {"freqs": torch.zeros(S - 1, 1, 1, 8)},
    "tensor_format ": {"tensor_format": "hsbd"},
    "fused ": {"fused": 1},
    "cu_seqlens ": {"cu_seqlens": torch.tensor([0, S])},  # of a dense format
    "start_positions ": {"start_positions": 0.5},
    "position_ids ": {"position_ids": torch.zeros(1, S)},
    "interleaved ": {"interleaved": 0},
    "inplace ": {"inplace": None},
    "cp_size ": {"cp_size": 0},
    "cp_rank ": {"cp_size": 2, "cp_rank": 2},
    "cp_order ": {"cp_order": "reversed"},
    "rotary_dim ": {"rotary_dim": 7},
    "rotary_start ": {"rotary_start": 3},
    "inverse ": {"inverse": 1},
    "output_pairing ": {"output_pairing": "whole"},
}


@pytest.mark.parametrize("call", (of_one, of_two))
@pytest.mark.parametrize("begins", OF_THE_ROTATION)
def test_bad_arguments_of_the_rotation(begins, call, device, nothing_may_run):
    given = {"t": t(), "freqs": table()} | OF_THE_ROTATION[begins]
    given = {name: to(device, value) for name, value in given.items()}
    with pytest.raises((TypeError, ValueError)) as error:
        call(given.pop("t"), None, given.pop("freqs"), **given)
    assert str(error.value).startswith(begins.format(t="q" if call is of_two else "t"))


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype)


NUMBER = "a finite number of fp32"
SCALARS = {  # what is accepted; values of a wrong type; other wrong values
    "eps": (f"{NUMBER} from 0", (None, True, "1e-6", torch.tensor(1e-6)), (-1e-6, 10**400, NAN)),
    "weight_offset": (NUMBER, (None, True), (NAN,)),
    "norm_after": ("False, True", (1, None, np.True_), ()),
    "rounding": ("None, once, model, model_cast_last", (), ("twice", "upcast", ["once"])),
}


@each_call
@pytest.mark.parametrize("name", SCALARS)
def test_a_bad_number_or_flag(name, call, device, nothing_may_run):
    accepted, of_a_wrong_type, wrong = SCALARS[name]
    x, weight, freqs = (to(device, x) for x in (t(), ones(D), table()))
    for kind, values in ((TypeError, of_a_wrong_type), (ValueError, wrong)):
        for value in values:
            with pytest.raises(kind) as error:
                call(x, weight, freqs, **{name: value})
            assert error.type is kind
            assert str(error.value).startswith(f"{name} is {value!r}; accepted: {accepted}")


FLOATS = "accepted: torch.Tensor"
READ = "{t} of shape (4, 2, 3, 10) in format 'sbhd' has s = 4, b = 2, h = 3, d = 10"
SHAPES = f"accepted: ({D},); {READ}"
# what differs from a good call; how the message begins, what it says of what is accepted, its type
TENSORS = {
    "weight a list": ({"weight": [1.0] * D}, "{w} is of type list", FLOATS, TypeError),
    "weight of int64": (
        {"weight": ones(D, dtype=torch.int64)},
        *("{w} has dtype int64", "accepted: float32", TypeError),
    ),
    "weight of bf16 with fp32 x": (
        {"weight": ones(D, dtype=torch.bfloat16)},
        *("{w} has dtype bfloat16", "accepted: float32", TypeError),
    ),
    "weight of fp64 with fp16 x": (
        {"weight": ones(D, dtype=torch.float64), "t": t(dtype=torch.float16)},
        *("{w} has dtype float64", "accepted: float16, float32", TypeError),
    ),
    "weight too short": ({"weight": ones(D - 1)}, "{w} has shape (9,); ", SHAPES, ValueError),
    "weight of a row": ({"weight": ones(1, D)}, "{w} has shape (1, 10); ", SHAPES, ValueError),
    "a weight of each head": ({"weight": ones(H, D)}, "{w} has shape (3, ", SHAPES, ValueError),
    "weight of rank 3": ({"weight": ones(1, H, D)}, "{w} has shape (1, 3,", SHAPES, ValueError),
    "weight elsewhere": (
        {"weight": ones(D).to("meta")},
        *("{w} is on meta; ", "it must be on the rotated tensor's, ", ValueError),
    ),
}


@each_call
@pytest.mark.parametrize("name", TENSORS)
def test_bad_weights(name, call, device, nothing_may_run):
    change, begins, accepted, kind = TENSORS[name]
    given = {"t": t(), "weight": ones(D), "freqs": table(), **change}
    if "t" in change and "weight" not in change:
        given["weight"] = given["weight"].to(change["t"].dtype)
    if not name.endswith("elsewhere"):
        given = {n: to(device, x) for n, x in given.items()}
    with pytest.raises(kind) as error:
        call(given.pop("t"), given.pop("weight"), given.pop("freqs"), **given)
    assert error.type is kind
    names = ("q", "q_weight") if call is of_two else ("t", "weight")
    message, names = str(error.value), dict(zip("tw", names, strict=True))
    assert message.startswith(begins.format(**names)), message
    assert accepted.format(**names) in message, message


def test_a_bad_weight_of_k(device, nothing_may_run):
    q, k, freqs = (to(device, x) for x in (t(), t(S, BATCH, 1, D), table()))
    weights = to(device, (ones(D), ones(D - 1)))
    message = r"^k_weight has shape \(9,\); accepted: \(10,\); k of shape .* h = 1, d = 10$"
    with pytest.raises(ValueError, match=message):
        qk_norm_rope(q, k, *weights, freqs)


WRITTEN_TWICE = {  # in place a norm writes all of a row, what does not turn too
    # rows share their last element with the next row's first
    "elements": lambda x: (x.as_strided((S, BATCH, H, D), (BATCH * H * 9, H * 9, 9, 1)), x[-1:]),
    # two elements in both: the tail of q, the head of k, which `rope_qk` leaves alone
    "k": lambda x: [x.view(S, BATCH, H, -1)[..., i : i + D] for i in (0, 8)],
}


@pytest.mark.parametrize("name", WRITTEN_TWICE)
def test_nothing_is_written_twice_in_place(name, device):
    memory = torch.randn(S * BATCH * H * (D + 8), device=device)
    before, (q, k) = memory.clone(), WRITTEN_TWICE[name](memory)
    freqs = torch.randn(S, 1, 1, 2, device=device)
    message = r"^k shares memory with q; accepted: .*k\.clone\(\)" if name == "k" else "^t has"
    with pytest.raises(ValueError, match=message):
        if name == "k":
            qk_norm_rope(q, k, None, None, freqs, inplace=True)
        else:
            norm_rope(q, None, freqs, inplace=True)
    assert torch.equal(memory, before)


@pytest.mark.parametrize(
    "change",
    ({"eps": -1e-6}, {"q_weight": ones(D - 1)}, {"k_weight": ones(H, D)}),
)
def test_nothing_is_written_by_a_call_that_fails(change, device):
    q, k = torch.randn(2, S, BATCH, H, D, device=device)
    before, weight = (q.clone(), k.clone()), ones(D).to(device)
    given = {"q_weight": weight, "k_weight": weight, "freqs": table().to(device)}
    given |= {name: to(device, value) for name, value in change.items()}
    with pytest.raises((TypeError, ValueError)):
        qk_norm_rope(q, k, inplace=True, **given)
    assert torch.equal(q, before[0]) and torch.equal(k, before[1])
