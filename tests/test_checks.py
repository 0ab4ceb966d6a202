"""Bad arguments: the right exception, a message that helps, and nothing launched.

A message names the argument, what came and what is accepted.
"""

from dataclasses import dataclass

import pytest
import torch

from inputs import angles
from rope_kernels import apply_rotary_pos_emb, autograd, launch, reference, rope_bw, rope_fw

S, B, H, D, D2 = 4, 2, 3, 10, 8


def unfused(*args, **kwargs):
    return apply_rotary_pos_emb(*args, fused=False, **kwargs)


CALLS = {"fused": apply_rotary_pos_emb, "unfused": unfused, "rope_fw": rope_fw, "rope_bw": rope_bw}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@dataclass(frozen=True)
class Bad:
    """What differs from a good call, and the error it must give. `{t}` is `t`, or `grad`."""

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

    monkeypatch.setattr(autograd, "rotate", reached)
    monkeypatch.setattr(launch, "launch_rope", reached)
    monkeypatch.setattr(reference, "rotate", reached)


def t(*shape, dtype=torch.float32):
    return torch.zeros(shape or (S, B, H, D), dtype=dtype)


def table(*shape, dtype=torch.float32):
    return torch.zeros(shape or (S, 1, 1, D2), dtype=dtype)


def cu(*values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


def thd(what, cu_seqlens, came, accepted, error=ValueError, argument="cu_seqlens", on_cpu=True):
    change = {"t": t(S * B, H, D), "cu_seqlens": cu_seqlens}
    return Bad(what, change, argument, came, accepted, error, "thd", on_cpu)


EVEN = "an even number from 2 to {t}'s head dimension d = 10"
T_DTYPES = "accepted: float32, float16, bfloat16, float64"
FORMATS = "accepted: sbhd, bshd, bhsd, thd"
SHORT = "freqs has angles for s2 = 3 positions"
CU_DTYPES = "accepted: int32, int64"
RISING = "values that start at 0 and never fall"

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
        "accepted with {t} of float32: float32",
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
    thd("past t", cu(0, 4, 9), "ends at 9", "{t} of shape (8, 3, 10) has only 8 tokens"),
    thd("too long for freqs", cu(0, 2, 7), "s2 = 4", "cu_seqlens needs 5", argument="freqs"),
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
]


def to(device, value):
    return value.to(device) if isinstance(value, torch.Tensor) else value


def check_message(error, bad, t_name):
    message = str(error.value)
    assert message.startswith(bad.argument.format(t=t_name) + " "), message
    assert bad.came in message, message
    assert bad.accepted.format(t=t_name) in message, message


@each_call
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.argument.strip('{}')}: {bad.what}")
def test_bad_argument(bad, call, device, nothing_may_run):
    arguments = {"t": t(), "freqs": table(), "cu_seqlens": None, **bad.change}
    if not bad.on_cpu:
        arguments = {name: to(device, value) for name, value in arguments.items()}
    with pytest.raises(bad.error) as error:
        call(
            arguments["t"],
            arguments["freqs"],
            bad.tensor_format,
            cu_seqlens=arguments["cu_seqlens"],
        )
    assert error.type is bad.error
    check_message(error, bad, "grad" if call is rope_bw else "t")


@each_call
def test_good_arguments_get_past_the_checks(call, device, nothing_may_run):
    """Else the tests above would prove nothing."""
    with pytest.raises(Reached):
        call(t().to(device), table().to(device))
    with pytest.raises(Reached):
        call(t(S * B, H, D), table(), "thd", cu_seqlens=cu(0, 4, 4, 8))


@pytest.mark.gpu
@each_call
@pytest.mark.parametrize("argument", ("t", "freqs", "cu_seqlens"))
def test_a_tensor_on_the_cpu_among_tensors_on_a_gpu(argument, call, nothing_may_run):
    arguments = {"t": t(S * B, H, D), "freqs": table(), "cu_seqlens": cu(0, 4)}
    for name in arguments:
        if name != argument:
            arguments[name] = arguments[name].cuda()
    with pytest.raises(ValueError, match=r"^(freqs|cu_seqlens) is on (cpu|cuda:0); it must be on "):
        call(arguments["t"], arguments["freqs"], "thd", cu_seqlens=arguments["cu_seqlens"])


@pytest.mark.gpu
@each_call
def test_no_value_is_read_back_from_the_gpu(call):
    x, freqs = torch.randn(8, H, D, device="cuda"), angles(S, D2, "cuda")
    cu_seqlens = cu(0, 4, 8).cuda()
    call(x, freqs, "thd", cu_seqlens=cu_seqlens)  # compiles
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        call(x, freqs, "thd", cu_seqlens=cu_seqlens)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("call", (rope_fw, rope_bw))
def test_only_the_named_arguments_are_positional(call, device):
    with pytest.raises(TypeError):
        call(t(S * B, H, D), table(), "thd", cu(0, 4))
    with pytest.raises(TypeError):
        apply_rotary_pos_emb(t(), table(), "sbhd", False)


# freqs that require a gradient


def test_fused_refuses_freqs_that_require_a_gradient(device, nothing_may_run):
    freqs = table().to(device).requires_grad_()
    with pytest.raises(ValueError, match=r"^freqs requires a gradient.*fused=False.*detach"):
        apply_rotary_pos_emb(t().to(device), freqs)


def test_freqs_that_require_a_gradient_are_fine_where_none_is_asked_for(device):
    x, freqs = torch.randn(S, B, H, D, device=device), angles(S, D2, device).requires_grad_()
    with torch.no_grad():
        out = apply_rotary_pos_emb(x, freqs)
    with torch.inference_mode():
        assert torch.equal(apply_rotary_pos_emb(x, freqs), out)
    assert torch.equal(rope_fw(x, freqs), out) and not rope_fw(x, freqs).requires_grad
    assert not rope_bw(x, freqs).requires_grad
    assert torch.equal(apply_rotary_pos_emb(x, freqs.detach()), out)
    assert apply_rotary_pos_emb(x, freqs, fused=False).requires_grad
