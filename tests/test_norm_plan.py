"""The plans of a norm: the order that the fast path relies on, numbers of programs, shares."""

import inspect
from dataclasses import replace

import pytest
import torch

from inputs import angles
from rope_kernels import (
    RotaryPositionEmbedding,
    launch,
    norm_launch,
    norm_plan,
    norm_rope,
    qk_norm_rope,
)
from rope_kernels.engine import Engine, engine_of
from rope_kernels.norm_plan import PROGRAMS_OF_ODD_ROWS_PER_SM, PROGRAMS_PER_SM
from rope_lab.compiler.norm_plans import plans_of_norm
from rope_lab.compiler.plans import plan_of

S, B, H, D, D2 = 7, 2, 3, 20, 12
KERNELS = norm_plan.FORWARD, norm_plan.BACKWARD, norm_plan.SUM


def q_and_k(device, s=S, heads=(H, 1), d=D, per_head=False):
    shapes = [(s, B, h, d) for h in heads] + [(h, d) if per_head else (d,) for h in heads]
    return [torch.randn(shape, device=device).requires_grad_() for shape in shapes]


def packed(device):
    t, weight = q_and_k(device)[0][:6, 0].detach(), torch.rand(D, device=device)
    t, weight = t.requires_grad_(), weight.requires_grad_()
    options = {"cu_seqlens": torch.tensor([0, 2, 2, 5], device=device), "norm_after": True}
    return norm_rope, (t, weight, angles(9, D2, device), "thd"), options | {"save": "output"}


def sumsq_of_all_heads(device):
    t, sumsq = q_and_k(device)[0], torch.ones(S, B, 1, device=device).requires_grad_()
    rope = RotaryPositionEmbedding(D2).to(device)
    return norm_rope, (t, None, rope), {"sumsq": sumsq, "norm_dim": H * D}


CALLS = {  # of a device: the function, its arguments, its options; and the number of launches
    "q and k": (lambda x: (qk_norm_rope, (*q_and_k(x), angles(S, D2, x)), {}), 3),
    "a weight for each head": (
        lambda x: (qk_norm_rope, (*q_and_k(x, per_head=True), angles(S, D2, x)), {"eps": 1}),
        2,
    ),
    "packed": (packed, 3),
    "sums of squares": (sumsq_of_all_heads, 2),
}


def kind(x):
    return x if x is None else (x.shape, x.stride(), x.dtype)


def gradients(function, arguments, options):
    outs = function(*arguments, **options)
    outs = outs if isinstance(outs, tuple) else (outs,)
    given = [x for x in (*arguments, *options.values()) if getattr(x, "requires_grad", False)]
    return torch.autograd.grad(outs, given, [torch.randn_like(out) for out in outs])


@pytest.mark.parametrize("name", CALLS)
def test_plans_are_in_the_kernels_order_and_launched(name, device, monkeypatch, whole_way):
    run, launched = norm_launch.run, []
    monkeypatch.setattr(norm_launch, "run", lambda *x: launched.append(x) or run(*x))
    function, arguments, options = CALLS[name][0](device)
    plans = list(plans_of_norm(Engine.NVIDIA, function, *arguments, **options).values())
    assert plan_of(function, *arguments, **options)[0] == plans[0][0] and not launched
    assert tuple(plan.kernel for plan, _ in plans) == KERNELS[: CALLS[name][1]]
    gradients(function, arguments, options)
    for (plan, tensors), (really, given) in zip(plans, launched, strict=True):
        rows = plan.sizes, plan.strides, plan.blocks, plan.flags
        names = [f"{x}_ptr" for x in tensors._fields] + [x for row in rows for x in row]
        assert names == list(inspect.signature(launch.kernel_of(plan).fn).parameters)
        assert plan.numbers == tuple(value for row in rows for value in row.values())
        assert str(plan).startswith(f"{plan.kernel}: {plan.programs} programs of {plan.num_warps}")
        if "FAST_SINE" in plan.flags and engine_of(arguments[0]) is not Engine.NVIDIA:
            plan = replace(plan, flags=plan.flags | {"FAST_SINE": False}, max_registers=None)
        assert plan == really
        assert list(map(kind, tensors)) == list(map(kind, given))


@pytest.mark.parametrize("tail", (0, 16), ids=("no tail", "a tail"))
@pytest.mark.parametrize("sms", (4, 132))
@pytest.mark.parametrize(("s", "d"), [(4096, 128), (4096, 72), (4096, 256), (3, 128)])
def test_programs_cover_all_rows_and_fill_the_gpu_once(s, d, tail, sms, monkeypatch):
    monkeypatch.setattr(norm_plan, "count_sms", lambda device: sms)
    call = *q_and_k("meta", s, (32, 8), d), RotaryPositionEmbedding(d - tail).to("meta")
    plans = plans_of_norm(Engine.NVIDIA, qk_norm_rope, *call).values()
    forward, backward, add = (plan for plan, _ in plans)

    def tiles(plan):
        rows = sum(-(-B * heads // plan.blocks["BLOCK_R"]) for heads in (32, 8))
        return rows, rows * -(-s // plan.blocks["BLOCK_S"])

    per_sm = PROGRAMS_OF_ODD_ROWS_PER_SM if tail or d == 72 else PROGRAMS_PER_SM
    (rows, all_tiles), most = tiles(backward), per_sm * sms // backward.num_warps
    assert forward.programs == tiles(forward)[1] and per_sm <= 12
    assert backward.programs == min(all_tiles, rows * max(1, most // rows))
    assert add.programs == 2 * -(-d // norm_plan.PARTIAL_COLUMNS)


LIMITED = {"tensor_format": "bhsd"}
SPECIAL = {
    "rows of a position": {"tensor_format": "sbhd"},
    "interleaved": LIMITED | {"interleaved": True},
    "rounded in between": LIMITED | {"rounding": "model"},
    "a weight of each head": LIMITED | {"per_head": True},
    "short rows": LIMITED | {"d": 64},
    "very long rows": LIMITED | {"d": 512},
    "a tail": LIMITED | {"rotary_dim": 64},
    "fp64": LIMITED | {"dtype": torch.float64},
}


def forward_in(engine, tensor_format, d=128, rotary_dim=None, per_head=False, **options):
    dtype, interleaved = options.pop("dtype", torch.bfloat16), options.pop("interleaved", False)
    rope = RotaryPositionEmbedding(rotary_dim or d, interleaved=interleaved).to("meta")
    shape = (2, 64, 8, d) if tensor_format == "sbhd" else (2, 8, 64, d)
    q = torch.empty(shape, device="meta", dtype=dtype)
    weight = torch.empty((8, d) if per_head else (d,), device="meta", dtype=dtype)
    options |= {"interleaved": True} if interleaved else {}
    plans = plans_of_norm(engine, norm_rope, q, weight, rope, tensor_format, **options)
    return next(iter(plans.values()))[0]


@pytest.mark.parametrize("d", (96, 128, 256))
def test_registers_are_limited_in_the_plain_case_on_nvidia(d):
    plan = forward_in(Engine.NVIDIA, d=d, **LIMITED)
    assert launch.options_of(plan)["maxnreg"] == plan.max_registers == 96
    for engine in (Engine.AMD, Engine.INTERPRETED):  # AMD's compiler knows no such option
        assert "maxnreg" not in launch.options_of(forward_in(engine, d=d, **LIMITED))


@pytest.mark.parametrize("options", SPECIAL.values(), ids=SPECIAL)
def test_what_would_spill_has_no_limit(options):
    assert forward_in(Engine.NVIDIA, **options).max_registers is None


@pytest.mark.parametrize("name", ("q and k", "a weight for each head", "packed"))
def test_the_backward_writes_every_planned_share_and_no_more(name, device, monkeypatch, whole_way):
    run, counts = norm_launch.run, []

    def run_with_room(plan, given):
        if plan.kernel != norm_plan.BACKWARD:
            return run(plan, given)
        partials = [x for x in (given.q_partial, given.k_partial) if x is not None]
        wider = [x.new_full((len(x) + 3, x.shape[1]), torch.nan) for x in partials]
        q_partial, k_partial = (*wider, None)[:2]
        done = run(plan, given._replace(q_partial=q_partial, k_partial=k_partial))
        for x, wide in zip(partials, wider, strict=True):
            assert wide[: len(x)].isfinite().all() and wide[len(x) :].isnan().all()
            x.copy_(wide[: len(x)])
        counts.extend([norm_plan.shares_of(plan, len(partials)), tuple(map(len, partials))])
        return done

    monkeypatch.setattr(norm_launch, "run", run_with_room)
    gradients(*CALLS[name][0](device))
    assert counts and counts[0] == counts[1]


def test_the_fast_path_remembers_the_device_of_the_tensors(device, monkeypatch):
    """Not the device that was current when the call came."""
    current, seen = ["the caller's"], []
    x, rope = torch.randn(2, 1, 1, 8, device=device), RotaryPositionEmbedding(8).to(device)

    class OfTheTensors:
        def __init__(self, device):
            pass

        def __enter__(self):
            current[0] = "the tensors'"

        def __exit__(self, *error):
            current[0] = "the caller's"

    monkeypatch.setattr(torch.cuda, "device", OfTheTensors)
    monkeypatch.setattr(norm_launch, "run", lambda plan, tensors: seen.append(current[0]))
    monkeypatch.setattr(
        norm_launch.fastpath, "shortest_launch", lambda *a, **k: seen.append(current[0])
    )
    monkeypatch.setattr(norm_launch.fastpath, "ENABLED", True)
    norm_launch.fastpath.forget()
    norm_rope(x, None, rope)
    norm_launch.fastpath.forget()
    assert seen == ["the tensors'", "the tensors'"]


def test_frozen_weights_take_no_second_launch(device, monkeypatch, whole_way):
    launched = []
    run = norm_launch.run

    def noted(plan, tensors):
        launched.append(plan.kernel)
        return run(plan, tensors)

    monkeypatch.setattr(norm_launch, "run", noted)
    x = torch.randn(3, 1, 2, 8, requires_grad=True, device=device)
    rope = RotaryPositionEmbedding(8).to(device)
    for trained in (False, True):
        weight = torch.randn(8, device=device, requires_grad=trained)
        norm_rope(x, weight, rope).sum().backward()
    forward, backward = norm_plan.FORWARD, norm_plan.BACKWARD
    assert launched == [forward, backward, forward, backward, norm_plan.SUM]
