"""A Plan says what a call launches before it does; and the table of routes, line by line."""

import inspect
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
import torch
from torch import func
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor

from inputs import angles, contiguous, negative_view, packed_qkv
from pairwise import cover
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    qk_norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
)
from rope_kernels.launch import launch, tuning
from rope_kernels.launch.launch import kernel_of
from rope_kernels.launch.tiles import WHOLE_ROWS
from rope_kernels.machine import engine
from rope_kernels.machine.engine import Engine, engine_of
from rope_kernels.routes import Route, choose_route
from rope_lab.compiler.plans import plan_of

S, B, H, D, D2 = 7, 2, 3, 20, 12


def sbhd(device, heads=H):
    return torch.randn(S, B, heads, D, device=device)


def packed_sequences(device):
    starts = torch.tensor([0, 2, 2, 5], device=device)
    return (torch.randn(6, H, D, device=device), angles(9, D2, device), "thd"), starts


def a_packed_call(device):
    arguments, cu_seqlens = packed_sequences(device)
    return rope_fw, arguments, {"cu_seqlens": cu_seqlens}


def a_call_of_a_rank(device):
    arguments, cu_seqlens = packed_sequences(device)
    ranks = {"cu_seqlens": 4 * cu_seqlens.new_tensor([0, 1, 1, 2]), "cp_size": 2, "cp_rank": 1}
    return apply_rotary_pos_emb, arguments, ranks


def a_call_with_ids(device):
    q, k = (torch.randn(B, S, heads, D, device=device) for heads in (H, 1))
    ids = torch.randint(0, S, (B, S), device=device)
    return rope_qk, (q, k, angles(S, D2, device), "bshd"), {"position_ids": ids}


CALLS = {  # of a device: the function, its arguments, its options
    "a table": lambda device: (rope_fw, (sbhd(device), angles(S, D2, device)), {}),
    "on the fly": lambda device: (
        *(apply_rotary_pos_emb, (sbhd(device), RotaryPositionEmbedding(D2).to(device))),
        {"start_positions": torch.tensor([4, 9], device=device)},
    ),
    "(cos, sin), strided": lambda device: (
        *(rope_fw, (sbhd(device), (torch.randn(S, D2, device=device), sbhd(device)[:, 0, 0, :D2]))),
        {},
    ),
    "backward": lambda device: (
        *(rope_bw, (sbhd(device), angles(S, D2, device))),
        {"interleaved": True},
    ),
    "a minus sign": lambda device: (
        *(rope_fw, (negative_view((S, B, H, D), torch.float32, device), angles(S, D2, device))),
        {},
    ),
    "a slice in place": lambda device: (
        *(rope_fw, (packed_qkv((S, B, H, D), torch.float32, device), angles(S, D2, device))),
        {"inplace": True},
    ),
    "q without heads": lambda device: (
        *(rope_qk, (sbhd(device, 0), sbhd(device, 2), angles(S, D2, device))),
        {},
    ),
    "fp64": lambda device: (
        *(rope_fw, (contiguous((S, B, H, D), torch.float64, device), angles(S, D2, device))),
        {},
    ),
    "packed sequences": a_packed_call,
    "a rank": a_call_of_a_rank,
    "q and k with ids": a_call_with_ids,
}

each_call = pytest.mark.parametrize("name", CALLS)


def planned(name, device):
    function, arguments, options = CALLS[name](device)
    return plan_of(function, *arguments, **options)


# a plan


@each_call
def test_a_plan_is_what_a_call_launches(name, device, monkeypatch, whole_way):
    """Flags and sizes to the last, and every tensor of the same kind at the same place."""
    function, arguments, options = CALLS[name](device)
    run, launched = launch.run, []
    monkeypatch.setattr(launch, "run", lambda *call: launched.append(call) or run(*call))
    plan, tensors = plan_of(function, *arguments, **options)
    assert launched == []
    function(*arguments, **options)
    ((really, given),) = launched

    if engine_of(given.table) is not Engine.NVIDIA:  # only there is a fast sine
        assert really.constants["lookup"].fast_sine is False
        plan = plan.with_constants(lookup={"fast_sine": False})
    assert really == plan
    for one, other in zip(given, tensors, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert (one.shape, one.stride(), one.dtype) == (
                other.shape,
                other.stride(),
                other.dtype,
            )


@each_call
def test_equal_calls_have_equal_plans(name, device):
    """Other memory and other values change nothing; on no device, nothing is read."""
    plan, _ = planned(name, device)
    assert planned(name, device)[0] == plan
    if name != "a minus sign":  # a meta tensor has none, and is not copied
        assert planned(name, "meta")[0] == plan


CHANGES = {  # to a call of `rope_fw`
    "nothing": {},
    "the function": {"function": rope_bw},
    "pairs": {"interleaved": True},
    "where results go": {"inplace": True},
    "the format": {"tensor_format": "bshd"},
    "the length": {"t": torch.empty(S + 1, S, H, D)},
    "the dtype": {"t": torch.empty(S, S, H, D, dtype=torch.float64)},
    "strides": {"t": torch.empty(S, S, D, H).transpose(2, 3)},
    "the table": {"freqs": torch.empty(S + 2, 1, 1, D2)},
    "positions": {"start_positions": torch.arange(S)},
    "columns": {"rotary_dim": D2, "freqs": torch.empty(S + 1, 1, 1, D2 // 2)},
    "the start": {"rotary_start": 2},
    "the sign": {"inverse": True},
    "another order": {"interleaved": True, "output_pairing": "half"},
    "ranks": {"freqs": torch.empty(S + 1, 1, 1, D2), "t": torch.empty(S - 1, S, H, D)}
    | {"position_ids": torch.zeros(S, S - 1, dtype=torch.int64), "cp_size": 2},
}


def test_other_calls_have_other_plans():
    plans = []
    for change in CHANGES.values():
        t, freqs = torch.empty(S, S, H, D), torch.empty(S + 1, 1, 1, D2)
        options = {"function": rope_fw, "t": t, "freqs": freqs} | change
        function = options.pop("function")
        if function is rope_bw:
            options["grad"] = options.pop("t")
        plans.append(plan_of(function, **options)[0])
    same = [
        (one, other)
        for i, one in enumerate(CHANGES)
        for j, other in enumerate(CHANGES)
        if i < j and plans[i] == plans[j]
    ]
    assert same == []


def test_a_plan_cannot_be_changed():
    plan, _ = planned("a table", "cpu")
    with pytest.raises(FrozenInstanceError):
        plan.programs = 1


@pytest.mark.parametrize(
    ("name", "kernel"),
    (("q and k with ids", WHOLE_ROWS), ("backward", "rope_kernel"), ("a rank", WHOLE_ROWS)),
)
def test_a_plan_goes_by_the_names_of_the_kernels_arguments(name, kernel):
    pytest.importorskip("rope_kernels.kernels.rope_kernel", exc_type=ImportError)
    plan, tensors = planned(name, "cpu")
    assert plan.kernel == kernel
    pointers = [f"{name}_ptr" for name in tensors._fields]
    names = list(inspect.signature(kernel_of(plan).fn).parameters)
    assert names[: len(pointers)] == pointers
    assert set(names[len(pointers) :]) == plan.arguments.keys()


def test_a_plan_prints_every_size_and_constant():
    t = torch.empty(64, 2, 8, 128, dtype=torch.bfloat16, device="meta")
    plan, _ = plan_of(rope_fw, t, torch.empty(64, 1, 1, 128, device="meta"))
    values = dict(plan.sizes)
    for name, constant in plan.constants.items():
        values |= constant._asdict() if isinstance(constant, tuple) else {name: constant}
    shown = [f"{name}={value}" for name, value in values.items() if value is not None]
    text = " ".join(str(plan).splitlines())
    assert [item for item in (plan.kernel, str(plan.programs), *shown) if item not in text] == []


KERNEL_OF = {  # (head dimension, rotary dimension, first element, dtype): whole rows?
    (128, 128, 0, "bfloat16"): False,  # halves of 128 bytes, rows of 256
    (64, 64, 0, "bfloat16"): False,
    (96, 96, 0, "bfloat16"): False,
    (80, 80, 0, "float32"): False,  # halves of 160
    (192, 64, 128, "bfloat16"): False,
    (20, 20, 0, "float32"): True,
    (30, 30, 0, "float32"): True,
    (72, 72, 0, "bfloat16"): True,  # halves of 72 bytes, which 8 divides; rows of 144
    (72, 72, 0, "float64"): False,  # halves of 288
    (80, 80, 0, "bfloat16"): True,  # halves of 80 bytes, which 16 divides; rows of 160
    (88, 88, 0, "bfloat16"): True,
    (100, 100, 0, "bfloat16"): True,
    (120, 120, 0, "bfloat16"): True,
    (128, 64, 0, "bfloat16"): False,
    (128, 72, 0, "bfloat16"): True,
    (128, 64, 2, "bfloat16"): True,  # the slice starts at byte 4
    (130, 64, 2, "bfloat16"): False,  # so do all rows: nothing is wide
}


@cover(
    case=tuple(KERNEL_OF),
    inplace={"new": False, "in place": True},
    interleaved={"halves": False, "interleaved": True},
)
def test_whole_rows_are_for_halves_that_are_worse_aligned_than_rows(case, inplace, interleaved):
    head_dim, rotary_dim, start, dtype = case
    t = torch.empty(S, B, H, head_dim, dtype=getattr(torch, dtype), device="meta")
    freqs = torch.empty(S, 1, 1, rotary_dim // 2, device="meta")
    options = {"rotary_dim": rotary_dim, "rotary_start": start, "inplace": inplace}
    plan, _ = plan_of(rope_fw, t, freqs, interleaved=interleaved, **options)
    whole = KERNEL_OF[case] and not interleaved
    assert plan.kernel == ("whole_rows_kernel" if whole else "rope_kernel")
    if whole:
        assert plan.constants["IN_PLACE"] == inplace
    if interleaved and not inplace:  # either end interleaved is enough
        for function in (rope_fw, rope_bw):
            pairs = options | {"interleaved": True, "output_pairing": "half"}
            plan, _ = plan_of(function, t, freqs, **pairs)
            read = function is rope_fw
            assert plan.kernel == "rope_kernel"
            assert plan.constants["head"].reads_interleaved is read
            assert plan.constants["head"].writes_interleaved is not read


@pytest.mark.parametrize("inplace", (False, True))
def test_in_place_nothing_beside_the_slice_is_written(inplace):
    """Not even what was there before: it may belong to a kernel on another stream."""
    plan, _ = plan_of(rope_fw, torch.empty(S, B, H, D), angles(S, D2, "cpu"), inplace=inplace)
    assert plan.constants["head"].tail == (0 if inplace else D - D2)


def test_rows_of_batch_and_heads_are_one_dimension_where_they_are_evenly_spaced():
    table = angles(S, D2, "cpu")

    def sizes(*tensors, **options):
        function = rope_qk if len(tensors) == 2 else rope_fw
        plan, _ = plan_of(function, *tensors, table, **options)
        return plan.sizes["batch"], plan.sizes["q_heads"], plan.sizes["k_heads"]

    q, k, wide = torch.empty(S, B, H, D), torch.empty(S, B, 1, D), torch.empty(S, B, 3 * H, D)
    assert sizes(q) == (1, B * H, 0)
    assert sizes(q, k) == (1, B * H, B)
    assert sizes(wide[:, :, :H]) == (B, H, 0)  # other heads between those of two entries
    assert sizes(wide[:, :, :H], k) == (B, H, 1)
    assert sizes(wide[:, :, ::3]) == (1, B * H, 0)
    assert sizes(q, start_positions=torch.zeros(B, dtype=torch.int64)) == (B, H, 0)
    assert sizes(torch.empty(B, S, H, D), tensor_format="bshd") == (B, H, 0)


@pytest.mark.parametrize(
    ("head_dim", "shift", "strides", "aligned"),
    (
        (128, 0, 1, 0),  # Triton sees it
        (72, 0, 1, 16),
        (100, 0, 1, 8),
        (30, 0, 1, 4),
        (120, 4, 1, 8),  # the first element is at byte 8
        (128, 1, 1, 2),
        (72, 0, 3, 16),
    ),
)
def test_a_plan_says_how_rows_are_aligned(head_dim, shift, strides, aligned):
    memory = torch.empty(shift + S * B * H * head_dim * strides, dtype=torch.bfloat16)
    assert memory.data_ptr() % 16 == 0
    t = memory[shift:].view(S, B, H, strides * head_dim)[..., :head_dim]
    plan, _ = plan_of(rope_fw, t, RotaryPositionEmbedding(head_dim))
    assert plan.constants["order"].aligned == aligned
    of_new_rows = {128: 0, 72: 16, 100: 8, 30: 4, 120: 16}[head_dim]
    assert plan.constants["order"].out_aligned == of_new_rows


@cover(
    heads=((8, 1), (4, 1), (9, 3), (14, 2), (1, 1)),
    tensor_format=("sbhd", "bshd", "bhsd", "thd"),
    on_the_fly=(False, True),
)
def test_few_heads_leave_few_places_of_their_tiles_empty(heads, tensor_format, on_the_fly):
    """What tensor parallelism leaves a rank: a tile of 8 rows for one head of k would be empty."""
    sizes = {"s": 64, "t": 64, "b": 1, "d": 128}
    shapes = [[(sizes | {"h": h})[letter] for letter in tensor_format] for h in heads]
    q, k = (torch.empty(shape, dtype=torch.bfloat16) for shape in shapes)
    rope = RotaryPositionEmbedding(128)
    packed = {"cu_seqlens": torch.tensor([0, 64])} if tensor_format == "thd" else {}
    freqs = rope if on_the_fly else rope.cos_sin(64)
    plan, _ = plan_of(rope_qk, q, k, freqs, tensor_format, rotary_dim=128, **packed)
    tile, order = plan.constants["tile"], plan.constants["order"]
    empty = 1 - 64 * sum(heads) / (plan.programs * tile.positions * tile.rows)
    assert empty <= (0.2 if packed else 0 if on_the_fly else 0.4)
    assert order.rows_outer == (tensor_format == "bhsd" and empty <= 0.1)


@pytest.mark.parametrize(("along", "cp_size", "positions"), ((1, 2, 4), (0, 2, 1), (0, 1, 4)))
def test_a_lane_searches_for_one_position_where_ranks_share_a_sequence(
    along, cp_size, positions, monkeypatch
):
    """Each search divides, and lanes of Triton 3.7 would have two positions of such a tile."""
    monkeypatch.setattr(tuning, "lanes_follow_positions", lambda: bool(along))
    q, k = (torch.empty(64, heads, 128, dtype=torch.bfloat16) for heads in (8, 1))
    packed = {"cu_seqlens": torch.tensor([0, 64 * cp_size]), "cp_size": cp_size, "cp_rank": 0}
    plan, _ = plan_of(rope_qk, q, k, RotaryPositionEmbedding(128), "thd", **packed)
    assert plan.constants["tile"].positions == positions


@pytest.mark.parametrize(
    ("columns", "unit", "stride"), ((64, 1, 64), (36, 4, 9), (60, 4, 15), (50, 2, 25), (15, 1, 15))
)
def test_a_tables_strides_are_counted_in_units(columns, unit, stride):
    """Of up to 16 elements: Triton then knows that they divide where a row begins."""
    freqs = torch.empty(S, 1, 1, columns)
    plan, _ = plan_of(rope_fw, torch.empty(S, B, H, 128), freqs, rotary_dim=2 * columns)
    assert plan.constants["lookup"].unit == unit
    assert plan.strides.table == (0, stride, 1)


def test_planning_loads_no_triton():
    code = """if True:
        import sys, torch
        from rope_kernels import rope_fw
        from rope_lab.compiler.plans import plan_of
        plan, _ = plan_of(rope_fw, torch.empty(5, 2, 3, 8), torch.empty(5, 1, 1, 8))
        assert plan.constants["lookup"].fast_sine and "triton" not in sys.modules
    """
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("change", "error", "message"),
    (
        ({"fused": False}, ValueError, "fused is False; such a call launches no kernel"),
        (
            {"t": torch.empty(5, 0, 3, 8)},
            ValueError,
            "so it has no plan: its tensors have no elements",
        ),
        ({"freqs": torch.empty(4, 1, 1, 8)}, ValueError, "freqs has angles for s2 = 4 positions"),
        ({"offset": 1}, TypeError, "got an unexpected keyword argument 'offset'"),
    ),
    ids=("unfused", "empty", "a short table", "an unknown option"),
)
def test_what_has_no_plan_is_refused(change, error, message):
    arguments = {"t": torch.empty(5, 2, 3, 8), "freqs": torch.empty(5, 1, 1, 8)} | change
    with pytest.raises(error) as raised:
        plan_of(arguments.pop("function", rope_fw), **arguments)
    assert message in str(raised.value)


def test_a_norm_that_is_not_one_launch_has_no_plan():
    t, weight = torch.empty(5, 2, 3, 8), torch.empty(8)
    call = {"q": t, "k": t, "q_weight": weight, "k_weight": weight}
    for change, message in (
        ({"fused": False}, "fused is False; such a call launches no kernel"),
        ({"k_weight": None}, "the call makes 2 launches"),
        ({"freqs": torch.ones(5, 1, 1, 8, requires_grad=True)}, "freqs requires a gradient"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_of(qk_norm_rope, **call | {"freqs": RotaryPositionEmbedding(8)} | change)


# which way a call goes


def route_of(*tensors, fused=True):
    return choose_route(fused, tensors)


def route_within(transform):
    """What is chosen inside of `transform(function)`, for a function of one tensor."""
    routes = []

    def function(t):
        routes.append(route_of(t))
        return t * 2

    transform(function)
    return routes[0]


def on_a_cpu_without_the_interpreter(t, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    return route_of(t.cpu())


def without_triton(t, monkeypatch):
    monkeypatch.setattr(engine, "_HAS_TRITON", False)
    return route_of(t.cpu())


def in_forward_mode(t, monkeypatch):
    with forward_ad.dual_level():
        return route_of(t)


def under_torch_compile(t, monkeypatch):
    routes = []

    def function(t):
        routes.append(route_of(t))
        return t + 1

    torch.compile(function, backend="eager", fullgraph=True)(t)
    return routes[0]


def both_traced_and_transformed(t, monkeypatch):
    return route_within(lambda f: make_fx(func.vmap(f))(t))


LINES = {  # of the table in `choose_route`'s docstring, from its first line to its last
    "unfused": (lambda t, _: route_of(t, fused=False), Route.PYTORCH),
    "fused that is 1": (lambda t, _: route_of(t, fused=1), Route.PYTORCH),
    "no tensor": (lambda t, _: route_of(t, [1.0]), Route.PYTORCH),
    "torch.func.vjp": (lambda t, _: route_within(lambda f: func.vjp(f, t)), Route.PYTORCH),
    "vmap": (lambda t, _: route_within(lambda f: func.vmap(f)(t)), Route.PYTORCH),
    "forward mode": (in_forward_mode, Route.PYTORCH),
    "torch.jit.trace": (lambda t, _: route_within(lambda f: torch.jit.trace(f, t)), Route.PYTORCH),
    "traced and transformed": (both_traced_and_transformed, Route.PYTORCH),
    "a CPU without the interpreter": (on_a_cpu_without_the_interpreter, Route.PYTORCH),
    "no Triton": (without_triton, Route.PYTORCH),
    "another device": (lambda t, _: route_of(t.to("meta")), Route.PYTORCH),
    "torch.compile": (under_torch_compile, Route.OPERATOR),
    "make_fx": (lambda t, _: route_within(lambda f: make_fx(f)(t)), Route.OPERATOR),
    "a class that overrides operators": (
        lambda t, _: route_of(TwoTensor(t, t.clone())),
        Route.PYTORCH,
    ),
    "such a class as a table": (
        lambda t, _: route_of(t, None, TwoTensor(t, t.clone())),
        Route.PYTORCH,
    ),
    "a plain subclass": (lambda t, _: route_of(t.as_subclass(Plain)), Route.KERNEL),
    "tensors": (lambda t, _: route_of(t, t, None), Route.KERNEL),
}


class Plain(torch.Tensor):
    pass


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("line", LINES)
def test_each_line_of_the_table_of_routes(line, device, monkeypatch):
    pytest.importorskip("triton", reason="needs Triton")
    choose, route = LINES[line]
    assert choose(torch.randn(S, B, H, D, device=device), monkeypatch) is route
