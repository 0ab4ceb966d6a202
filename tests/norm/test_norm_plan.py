"""The plans of a norm: the order that the fast path relies on, numbers of programs, shares."""

import inspect
import re
from dataclasses import replace

import pytest
import torch

from inputs import angles
from norm_yardstick import check
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, norm_rope, qk_norm_rope
from rope_kernels.launch import kernel_plans, launch, tuning
from rope_kernels.launch.launch import kernel_of, options_of
from rope_kernels.launch.tile_facts import next_power_of_2
from rope_kernels.launch.tuning import NORM_BACKWARD
from rope_kernels.machine.engine import Engine, engine_of
from rope_lab.compiler.compile import compile_plan
from rope_lab.compiler.plans import plan_for, plan_of, plans_with_backward

S, B, H, D, D2 = 7, 2, 3, 20, 12


def q_and_k(device, s=S, heads=(H, 1), d=D):
    shapes = [(s, B, h, d) for h in heads] + [(d,) for _ in heads]
    return [torch.randn(shape, device=device).requires_grad_() for shape in shapes]


def packed(device):
    t, weight = q_and_k(device)[0][:6, 0].detach(), torch.rand(D, device=device)
    t, weight = t.requires_grad_(), weight.requires_grad_()
    options = {"cu_seqlens": torch.tensor([0, 2, 2, 5], device=device), "norm_after": True}
    return norm_rope, (t, weight, angles(9, D2, device), "thd"), options


CALLS = {  # of a device: the function, its arguments, its options
    "q and k": lambda x: (qk_norm_rope, (*q_and_k(x), angles(S, D2, x)), {}),
    "packed": packed,
}


def kind(x):
    return x if x is None else (x.shape, x.stride(), x.dtype)


def gradients(function, arguments, options):
    outs = function(*arguments, **options)
    outs = outs if isinstance(outs, tuple) else (outs,)
    given = [x for x in (*arguments, *options.values()) if getattr(x, "requires_grad", False)]
    return torch.autograd.grad(outs, given, [torch.randn_like(out) for out in outs])


@pytest.mark.parametrize("name", CALLS)
def test_plans_go_by_the_kernels_names_and_are_launched(name, device, monkeypatch, whole_way):
    run, launched = launch.run, []
    monkeypatch.setattr(launch, "run", lambda *x: launched.append(x) or run(*x))
    function, arguments, options = CALLS[name](device)
    plans = plans_with_backward(Engine.NVIDIA, function, *arguments, **options)
    assert plan_of(function, *arguments, **options)[0] == plans[0][0] and not launched
    gradients(function, arguments, options)
    for (plan, tensors), (really, given) in zip(plans, launched, strict=True):
        pointers = [f"{x}_ptr" for x in tensors._fields]
        names = list(inspect.signature(kernel_of(plan).fn).parameters)
        assert names[: len(pointers)] == pointers
        assert set(names[len(pointers) :]) == plan.arguments.keys()
        assert str(plan).startswith(f"{plan.kernel}: {plan.programs} programs of {plan.num_warps}")
        if "lookup" in plan.constants and engine_of(arguments[0]) is not Engine.NVIDIA:
            plan = replace(plan.with_constants(lookup={"fast_sine": False}), max_registers=None)
        assert plan == really
        assert list(map(kind, tensors)) == list(map(kind, given))


@cover(sizes=[(4096, 128), (4096, 72), (4096, 256), (3, 128)], sms=(4, 132), tail=(0, 16))
def test_programs_cover_all_rows_and_fill_the_gpu_once(sizes, sms, tail, monkeypatch):
    s, d = sizes
    monkeypatch.setattr(kernel_plans, "count_sms", lambda device: sms)
    call = *q_and_k("meta", s, (32, 8), d), RotaryPositionEmbedding(d - tail).to("meta")
    plans = plans_with_backward(Engine.NVIDIA, qk_norm_rope, *call)
    forward, backward, add = (plan for plan, _ in plans)

    def tiles(plan):
        tile = plan.constants["tile"]
        rows = sum(-(-B * heads // tile.rows) for heads in (32, 8))
        return rows, rows * -(-s // tile.positions)

    padded, full = (row.tile.programs_per_sm for row in NORM_BACKWARD)
    per_sm = padded if tail or d == 72 else full
    (rows, all_tiles), most = tiles(backward), per_sm * sms // backward.num_warps
    assert forward.programs == tiles(forward)[1] and per_sm <= 12
    assert backward.programs == min(all_tiles, rows * max(1, most // rows))
    rows = min(kernel_plans.PARTIALS_AT_ONCE, next_power_of_2(max(add.sizes.values())))
    assert add.programs == 2 * -(-d // (kernel_plans.PARTIALS // rows))


LIMITED = {"tensor_format": "bhsd"}
SPECIAL = {
    "rows of a position": {"tensor_format": "sbhd"},
    "interleaved": LIMITED | {"interleaved": True},
    "rounded in between": LIMITED | {"rounding": "model"},
    "short rows": LIMITED | {"d": 64},
    "very long rows": LIMITED | {"d": 512},
    "a tail": LIMITED | {"rotary_dim": 64},
    "fp64": LIMITED | {"dtype": torch.float64},
}


def forward_in(engine, tensor_format, d=128, rotary_dim=None, **options):
    dtype, interleaved = options.pop("dtype", torch.bfloat16), options.pop("interleaved", False)
    rope = RotaryPositionEmbedding(rotary_dim or d, interleaved=interleaved).to("meta")
    shape = (2, 64, 8, d) if tensor_format == "sbhd" else (2, 8, 64, d)
    q = torch.empty(shape, device="meta", dtype=dtype)
    weight = torch.empty(d, device="meta", dtype=dtype)
    options |= {"interleaved": True} if interleaved else {}
    return plan_for(engine, norm_rope, q, weight, rope, tensor_format, **options)[0]


@pytest.mark.parametrize("d", (96, 128, 256))
def test_registers_are_limited_in_the_plain_case_on_nvidia(d):
    plan = forward_in(Engine.NVIDIA, d=d, **LIMITED)
    assert options_of(plan)["maxnreg"] == plan.max_registers == 96
    for engine in (Engine.AMD, Engine.INTERPRETED):  # AMD's compiler knows no such option
        assert "maxnreg" not in options_of(forward_in(engine, d=d, **LIMITED))


@pytest.mark.parametrize("options", SPECIAL.values(), ids=SPECIAL)
def test_what_would_spill_has_no_limit(options):
    assert forward_in(Engine.NVIDIA, **options).max_registers is None


@pytest.mark.parametrize("name", ("q and k", "packed"))
def test_the_backward_writes_every_planned_share_and_no_more(name, device, monkeypatch, whole_way):
    run, counts = launch.run, []

    def run_with_room(plan, given):
        if plan.kernel != kernel_plans.BACKWARD:
            return run(plan, given)
        partials = [x for x in (given.q_partial, given.k_partial) if x is not None]
        wider = [x.new_full((len(x) + 3, x.shape[1]), torch.nan) for x in partials]
        q_partial, k_partial = (*wider, None)[:2]
        done = run(plan, given._replace(q_partial=q_partial, k_partial=k_partial))
        for x, wide in zip(partials, wider, strict=True):
            assert wide[: len(x)].isfinite().all() and wide[len(x) :].isnan().all()
            x.copy_(wide[: len(x)])
        counts.extend([kernel_plans.shares_of(plan, len(partials)), tuple(map(len, partials))])
        return done

    monkeypatch.setattr(launch, "run", run_with_room)
    gradients(*CALLS[name](device))
    assert counts and counts[0] == counts[1]


def test_the_fast_path_remembers_the_device_of_the_tensors(device, monkeypatch):
    """Not the device that was current when the call came."""
    pytest.importorskip("triton", reason="needs Triton")
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
    monkeypatch.setattr(launch, "run", lambda plan, tensors: seen.append(current[0]))
    monkeypatch.setattr(launch.fastpath, "shortest_launch", lambda *a, **k: seen.append(current[0]))
    monkeypatch.setattr(launch.fastpath, "ENABLED", True)
    launch.fastpath.forget()
    norm_rope(x, None, rope)
    launch.fastpath.forget()
    assert seen == ["the tensors'", "the tensors'"]


def test_frozen_weights_take_no_second_launch(device, monkeypatch, whole_way):
    launched = []
    run = launch.run

    def noted(plan, tensors):
        launched.append(plan.kernel)
        return run(plan, tensors)

    monkeypatch.setattr(launch, "run", noted)
    x = torch.randn(3, 1, 2, 8, requires_grad=True, device=device)
    rope = RotaryPositionEmbedding(8).to(device)
    for trained in (False, True):
        weight = torch.randn(8, device=device, requires_grad=trained)
        norm_rope(x, weight, rope).sum().backward()
    forward, backward = kernel_plans.FORWARD, kernel_plans.BACKWARD
    assert launched == [forward, backward, forward, backward, kernel_plans.SUM]


# which way lanes run over a tile, and what a forward does about it

TILES = {  # format, d: positions, rows, warps, limit of registers, weights last
    ("sbhd", 64): (2, 8, 1, None, False),
    ("sbhd", 128): (1, 8, 1, None, False),
    ("bhsd", 80): (4, 4, 1, None, False),
    ("bhsd", 128): (8, 2, 2, 72, False),
    ("bhsd", 512): (4, 1, 1, None, False),
    ("thd", 128): (2, 8, 1, 96, False),
    ("thd", 256): (2, 4, 1, 96, False),
    ("thd", 512): (2, 2, 1, None, False),
}
ACROSS_ROWS = TILES | {
    ("bhsd", 80): (4, 4, 1, None, True),
    ("bhsd", 128): (4, 4, 1, None, True),
    ("thd", 128): (2, 8, 1, 112, True),
    ("thd", 256): (2, 4, 1, 112, True),
    ("thd", 512): (2, 2, 1, None, True),
}
TILES_ON_THE_FLY = {
    ("sbhd", 128): (1, 8, 1, None, True),
    ("bhsd", 128): (4, 4, 1, 96, True),
    ("bhsd", 256): (4, 2, 1, 96, False),
    ("thd", 128): (2, 8, 1, None, False),
}


def of_bf16(tensor_format, d, device):
    """A norm's arguments and options, with cosines and sines, of a format and a head dimension."""
    shape = {"sbhd": (10, B, 8, d), "bhsd": (B, 8, 10, d), "thd": (10, 8, d)}[tensor_format]
    q, weight = torch.randn(shape, device=device).bfloat16(), torch.rand(d, device=device)
    rope, options = RotaryPositionEmbedding(d).to(device), {"rotary_dim": d}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, 6, 9], device=device)
    return (q, weight, rope.cos_sin(10), tensor_format), options


def tile_of(tensor_format, d, on_the_fly=False, dtype=torch.bfloat16):
    """Of a forward, planned for NVIDIA."""
    (q, weight, table, _), options = of_bf16(tensor_format, d, "cpu")
    q = q.to(dtype)
    freqs = RotaryPositionEmbedding(d) if on_the_fly else table
    arguments = q, weight, freqs, tensor_format
    plan, _ = plan_of(norm_rope, *arguments, **options)
    tile, last = plan.constants["tile"], plan.constants["norm"].weights_last
    return tile.positions, tile.rows, plan.num_warps, plan.max_registers, last


@pytest.mark.parametrize("along_positions, tiles", ((True, TILES), (False, ACROSS_ROWS)))
def test_tiles_with_a_table_depend_on_the_order_of_lanes(along_positions, tiles, monkeypatch):
    monkeypatch.setattr(tuning, "lanes_follow_positions", lambda: along_positions)
    assert {call: tile_of(*call) for call in tiles} == tiles
    found = {call: tile_of(*call, on_the_fly=True) for call in TILES_ON_THE_FLY}
    assert found == TILES_ON_THE_FLY
    if along_positions:  # each of two warps has a row of a position
        assert tile_of("bhsd", 128, dtype=torch.float32) == (4, 2, 2, 72, False)
        assert tile_of("bhsd", 128, dtype=torch.float64) == (2, 2, 2, None, False)


@cover(tensor_format=("sbhd", "bhsd", "thd"), d=(80, 128), along_positions=(True, False))
def test_tiles_of_either_triton_are_right(
    tensor_format, d, along_positions, device, monkeypatch, whole_way
):
    monkeypatch.setattr(tuning, "lanes_follow_positions", lambda: along_positions)
    (t, weight, *rest), options = of_bf16(tensor_format, d, device)
    check([t.requires_grad_()], [weight.requires_grad_()], *rest, **options)


def test_lanes_follow_positions_as_this_triton_compiles_them():
    """Read from the layout of a tile of 4 positions and 4 rows."""
    pytest.importorskip("triton", reason="needs Triton")
    plan, tensors = plan_of(norm_rope, *on_the_fly())
    assert plan.constants["tile"][:2] == (4, 4)
    stages = compile_plan("sm_90", plan, tensors).stages
    tile = re.search(r"tt\.load .*tensor<4x4x64x!tt\.ptr<bf16>, #(\w+)>", stages["ttgir"])[1]
    order = re.search(rf"#{tile} = .*order = \[2, (\d), \d\]", stages["ttgir"])[1]
    assert (order == "0") == tuning.lanes_follow_positions()


def on_the_fly():
    """Arguments whose forward has a tile of four positions and four rows with any Triton."""
    q, weight = torch.empty(B, 8, 20, 128, dtype=torch.bfloat16), torch.empty(128)
    return q, weight, RotaryPositionEmbedding(128), "bhsd"


@pytest.mark.parametrize(
    "version, along", [("3.5.1", True), ("3.6.0", True), ("3.7.1", False), ("4.0.0+git1", False)]
)
def test_the_version_decides(version, along, monkeypatch):
    triton = pytest.importorskip("triton", reason="needs Triton")
    monkeypatch.setattr(triton, "__version__", version)
    assert tuning.lanes_follow_positions.__wrapped__() is along
