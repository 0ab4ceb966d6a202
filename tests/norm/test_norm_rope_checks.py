"""Bad arguments of `norm_rope` and `qk_norm_rope`: a message that helps, and nothing written.

A message names the argument, what came and what is accepted. `test_checks.py` has all that is wrong
with the rotation's arguments.
"""

import inspect
import re

import numpy as np
import pytest
import torch

from rope_kernels import norm_rope, qk_norm_rope, reference, rope_qk
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
    if options.get("sumsq") is not None:
        options["sumsq"] = options["sumsq"], options["sumsq"]
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


def sums(*shape, dtype=torch.float32):
    return torch.ones(shape or (S, BATCH, H), dtype=dtype)


NUMBER = "a finite number of fp32"
SCALARS = {  # what is accepted; values of a wrong type; other wrong values
    "eps": (f"{NUMBER} from 0", (None, True, "1e-6", torch.tensor(1e-6)), (-1e-6, 10**400, NAN)),
    "weight_offset": (NUMBER, (None, True), (NAN,)),
    "norm_after": ("False, True", (1, None, np.True_), ()),
    "rounding": ("None, once, model, model_cast_last", (), ("twice", "upcast", ["once"])),
    "norm_dim": ("an integer from 1, below 2^31", (True,), (0, -3, 30.0, 2**31)),
}


@each_call
@pytest.mark.parametrize("name", SCALARS)
def test_a_bad_number_or_flag(name, call, device, nothing_may_run):
    accepted, of_a_wrong_type, wrong = SCALARS[name]
    x, weight, freqs = (to(device, x) for x in (t(), ones(D), table()))
    options = {"sumsq": sums().to(device)} if name == "norm_dim" else {}
    for kind, values in ((TypeError, of_a_wrong_type), (ValueError, wrong)):
        for value in values:
            with pytest.raises(kind) as error:
                call(x, weight, freqs, **options, **{name: value})
            assert error.type is kind
            assert str(error.value).startswith(f"{name} is {value!r}; accepted: {accepted}")


FLOATS = "accepted: torch.Tensor"
READ = "{t} of shape (4, 2, 3, 10) in format 'sbhd' has s = 4, b = 2, h = 3, d = 10"
SHAPES = f"accepted: ({D},), or ({H}, {D}) for a weight of each head; {READ}"
ROWS = f"accepted: ({S}, {BATCH}, {H}), or ({S}, {BATCH}, 1) for all heads; {READ}"
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
    "other heads": ({"weight": ones(H + 1, D)}, "{w} has shape (4, 10); ", SHAPES, ValueError),
    "weight of rank 3": ({"weight": ones(1, H, D)}, "{w} has shape (1, 3,", SHAPES, ValueError),
    "weight elsewhere": (
        {"weight": ones(D).to("meta")},
        *("{w} is on meta; ", "it must be on the rotated tensor's, ", ValueError),
    ),
    # sums of squares
    "sumsq a number": ({"sumsq": 1.0}, "{s} is of type float", FLOATS, TypeError),
    "sumsq of bf16": (
        {"sumsq": sums(dtype=torch.bfloat16), "t": t(dtype=torch.bfloat16)},
        *("{s} has dtype bfloat16", "accepted: float32", TypeError),
    ),
    "sumsq of fp32 with fp64 x": (
        {"sumsq": sums(), "t": t(dtype=torch.float64), "weight": None},
        *("{s} has dtype float32", "accepted: float64", TypeError),
    ),
    "sumsq kept as a row": (
        {"sumsq": sums(S, BATCH, H, 1)},
        *("{s} has shape (4, 2, 3, 1); ", ROWS, ValueError),
    ),
    "sumsq of other heads": ({"sumsq": sums(S, BATCH, 2)}, "{s} has sh", ROWS, ValueError),
    "sumsq of one token": ({"sumsq": sums(1, BATCH, H)}, "{s} has shape (1,", ROWS, ValueError),
    "sumsq elsewhere": ({"sumsq": sums().to("meta")}, "{s} is on meta; ", "must be", ValueError),
    "dim without sumsq": (
        {"norm_dim": 30},
        *("norm_dim is 30 without sumsq; ", f"None, or the head dimension, {D}", ValueError),
    ),
}


@each_call
@pytest.mark.parametrize("name", TENSORS)
def test_bad_weights_and_sums(name, call, device, nothing_may_run):
    change, begins, accepted, kind = TENSORS[name]
    given = {"t": t(), "weight": ones(D), "freqs": table(), **change}
    if "t" in change and "weight" not in change:
        given["weight"] = given["weight"].to(change["t"].dtype)
    if not name.endswith("elsewhere"):
        given = {n: to(device, x) for n, x in given.items()}
    with pytest.raises(kind) as error:
        call(given.pop("t"), given.pop("weight"), given.pop("freqs"), **given)
    assert error.type is kind
    names = ("q", "q_weight", "sumsq[0]") if call is of_two else ("t", "weight", "sumsq")
    message, names = str(error.value), dict(zip("tws", names, strict=True))
    assert message.startswith(begins.format(**names)), message
    assert accepted.format(**names) in message, message


def test_a_bad_weight_of_k(device, nothing_may_run):
    """It is asked for the heads of k; q's weight of each head is good."""
    q, k, freqs = (to(device, x) for x in (t(), t(S, BATCH, 1, D), table()))
    weight = to(device, ones(H, D))
    message = r"^k_weight has shape \(3, 10\); accepted: .*; k of shape .* h = 1, d = 10$"
    with pytest.raises(ValueError, match=message):
        qk_norm_rope(q, k, weight, weight, freqs)


def test_an_error_names_a_shape_of_sums_once(device, nothing_may_run):
    t_of_one_head, freqs, sumsq = (to(device, x) for x in (t(S, BATCH, 1, D), table(), sums()))
    with pytest.raises(ValueError, match=r"^sumsq has .*; accepted: \(4, 2, 1\); t of shape "):
        norm_rope(t_of_one_head, None, freqs, sumsq=sumsq)


@pytest.mark.parametrize(
    "sumsq, message, error",
    (
        (sums(), "sumsq is Tensor; accepted: None, or a pair of tensors", TypeError),
        ((sums(),), "sumsq is tuple; accepted: None, or a pair of tensors", TypeError),
        ((sums(), None), "sumsq has one None; accepted: None, or a sum of squares for", ValueError),
        ((None, sums()), "sumsq has one None; accepted: None, or a sum of squares for", ValueError),
        ((sums(), sums(S, BATCH, 2)), "sumsq[1] has shape (4, 2, 2); accepted: ", ValueError),
        ((sums(), 1.0), "sumsq[1] is of type float; ", TypeError),
    ),
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_bad_pair_of_sums(sumsq, message, error, device, nothing_may_run):
    x, freqs, sumsq = (to(device, x) for x in (t(), table(), sumsq))
    with pytest.raises(error, match="^" + re.escape(message)):
        qk_norm_rope(x, x, None, None, freqs, sumsq=sumsq)


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
    ({"eps": -1e-6}, {"norm_dim": 0}, {"q_weight": ones(D - 1)}, {"sumsq": (ones(1),) * 2}),
)
def test_nothing_is_written_by_a_call_that_fails(change, device):
    q, k = torch.randn(2, S, BATCH, H, D, device=device)
    before, weight = (q.clone(), k.clone()), ones(D).to(device)
    given = {"q_weight": weight, "k_weight": weight, "freqs": table().to(device)}
    given |= {name: to(device, value) for name, value in change.items()}
    with pytest.raises((TypeError, ValueError)):
        qk_norm_rope(q, k, inplace=True, **given)
    assert torch.equal(q, before[0]) and torch.equal(k, before[1])


def test_the_keywords_and_defaults_of_rope_qk_are_here_too():
    """And are keywords here, so that a call to one function can be turned into one to the other."""
    of_rope = inspect.signature(rope_qk).parameters
    for function in (norm_rope, qk_norm_rope):
        here = inspect.signature(function).parameters
        for name, parameter in of_rope.items():
            if name not in ("q", "k"):
                assert here[name].default == parameter.default
                assert here[name].kind == parameter.kind
    one, two = (inspect.signature(function).parameters for function in (norm_rope, qk_norm_rope))
    assert list(one)[2:] == list(two)[4:]


def shared_sums(heads, which, norm_dim, device):
    """A call with sums of squares, of which some are one for all heads."""
    tensors = [torch.randn(S, 2, h, D, device=device) for h in heads]
    sums = [t.square().sum(-1) for t in tensors]
    sums = [x.sum(2, keepdim=True) if i in which else x for i, x in enumerate(sums)]
    freqs = table().to(device)
    if len(heads) == 1:
        return norm_rope(*tensors, None, freqs, sumsq=sums[0], norm_dim=norm_dim)
    return qk_norm_rope(*tensors, None, None, freqs, sumsq=tuple(sums), norm_dim=norm_dim)


SHARED = {  # heads, which sums are shared, norm_dim, the error
    "forgotten": ((4,), (0,), None, "norm_dim is None, and sumsq has one sum for all heads; "),
    "forgotten for q and k": ((4, 4), (0, 1), None, "norm_dim is None, and sumsq[0] has one sum"),
    "one for two": ((4, 2), (0, 1), 40, "norm_dim is 40, and q and k have 4 and 2 heads; "),
    "one for q and k of one head": ((4, 1), (0,), 40, "norm_dim is 40, and q and k have 4 and 1"),
    "meant for k": ((4, 4), (1,), 40, "norm_dim is 40, and only sumsq[1] is shared by heads; "),
    "a pair for one": ((4,), (0,), (40, 40), "norm_dim is (40, 40); accepted: an integer"),
    "a pair of one": ((4, 4), (0, 1), (40,), "norm_dim is (40,); accepted: an integer"),
    "a list": ((4, 4), (0, 1), [40, 40], "norm_dim is [40, 40]; accepted: an integer"),
    "half a pair": ((4, 4), (0, 1), (40, None), "norm_dim is None; accepted: an integer"),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_sum_is_divided_by_no_other_number(name, device):
    heads, which, norm_dim, message = SHARED[name]
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        shared_sums(heads, which, norm_dim, device)


@pytest.mark.parametrize("heads, norm_dim", (((4, 4), 4 * D), ((4, 2), (4 * D, 2 * D))))
def test_a_norm_over_all_heads_of_q_and_of_k(heads, norm_dim, device):
    """k of MiniMax M2, with 8 heads beside 48, came out too large by the root of 6."""
    for out in shared_sums(heads, (0, 1), norm_dim, device):
        norms = out.square().mean((2, 3))
        torch.testing.assert_close(norms, torch.ones_like(norms), rtol=1e-4, atol=1e-4)
