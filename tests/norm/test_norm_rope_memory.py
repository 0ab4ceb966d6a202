"""What a norm's backward allocates and computes: nothing that autograd does not ask for.

Beyond gradients a backward needs memory for partial sums of the weights' gradients: at most 4 MiB
or 1 % of the inputs' gradients, whichever is more. Plans tell for any shape, without memory.
"""

import pytest
import torch

from inputs import FORMATS, shape_of
from norm_yardstick import check
from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, norm_rope, qk_norm_rope
from rope_kernels.launch import kernel_plans, launch
from rope_kernels.machine.engine import Engine
from rope_lab.compiler.plans import plans_with_backward

D = 16
SHAPES = {  # s, b, heads of q and k
    "training": (4096, 2, (32, 8)),
    "decode of 4096 sequences": (1, 4096, (32, 8)),
    "decode of 65536, one key head": (1, 65536, (32, 1)),
    "one key head, 65536 tokens": (65536, 1, (32, 1)),
    "short sequences": (7, 5000, (40, 8)),
    "one token, many heads": (1, 1, (2**20, 1)),
    "many heads": (3, 2, (50000, 50000)),
    "one token": (1, 1, (1, 1)),
}


def call_on_meta(tensor_format, s, b, heads, d, dtype, starts):
    def leaf(*shape):
        return torch.empty(shape, dtype=dtype, device="meta", requires_grad=True)

    tensors = [leaf(*shape_of(tensor_format, s, b, h, d)) for h in heads]
    weights = [leaf(d) for _ in heads]
    options = {}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.empty(b + 1, dtype=torch.int32, device="meta")
    elif starts:
        options["start_positions"] = torch.empty(b, dtype=torch.int32, device="meta")
    rope = RotaryPositionEmbedding(d).to("meta")
    return (*tensors, *weights, rope, tensor_format), options


def bytes_beyond_gradients(plans):
    _, (_, tensors), *_ = plans
    partials = [x for x in (tensors.q_partial, tensors.k_partial) if x is not None]
    return sum(x.numel() * x.element_size() for x in partials)


@cover(
    name=tuple(SHAPES),
    tensor_format=FORMATS,
    d_and_dtype=((128, torch.bfloat16), (64, torch.float32), (512, torch.float64)),
    starts={"shared angles": False, "own angles": True},
)
def test_partial_sums_are_small(name, tensor_format, d_and_dtype, starts, monkeypatch):
    monkeypatch.setattr(kernel_plans, "count_sms", lambda device: 132)
    given = tensor_format, *SHAPES[name], *d_and_dtype, starts
    arguments, options = call_on_meta(*given)
    plans = plans_with_backward(Engine.NVIDIA, qk_norm_rope, *arguments, **options)
    gradients = sum(x.numel() * x.element_size() for x in arguments[:2])
    assert bytes_beyond_gradients(plans) <= max(2**22, gradients // 100)


def sample(tensor_format, device, heads=(5, 2), s=11, b=3, dtype=torch.float32):
    tensors = [
        torch.randn(shape_of(tensor_format, s, b, h, D), device=device).to(dtype) for h in heads
    ]
    weights = [torch.randn(D, device=device).to(dtype) for _ in heads]
    options = {"tensor_format": tensor_format}
    if tensor_format == "thd":
        options["cu_seqlens"] = torch.tensor([0, 2, 2, s * b - 1], device=device)
    return tensors, weights, options


@cover(
    tensor_format=FORMATS,
    angles_and_dim={"shared": (False, 10), "own": (True, D)},
    chunks=(1, 2),
)
def test_programs_that_go_through_everything(
    tensor_format, angles_and_dim, chunks, device, monkeypatch, whole_way
):
    """As if partial sums took too much memory: a program, or two, for all that they can share."""
    heads, (own_angles, rotary_dim) = (39, 17), angles_and_dim  # no tile of rows divides the heads
    tensors, weights, options = sample(tensor_format, device, heads, s=2)
    monkeypatch.setattr(kernel_plans, "BYTES_OF_PARTIALS", 2 * chunks * 4 * D)
    monkeypatch.setattr(kernel_plans, "GRADIENT_PER_PARTIALS", 10**9)
    if own_angles and tensor_format != "thd":
        options["start_positions"] = torch.tensor([3, 0, 9], device=device)
    plans, run = [], launch.run
    monkeypatch.setattr(launch, "run", lambda plan, x: plans.append(plan) or run(plan, x))
    rope = RotaryPositionEmbedding(D, rotary_dim / D).to(device)
    check(tensors, weights, rope, **options)
    (plan,) = (plan for plan in plans if plan.kernel == kernel_plans.BACKWARD)
    fold = plan.constants["order"].fold
    assert fold or chunks > 1  # few rows fit into two programs' sums as they are
    assert plan.sizes["chunks"] <= chunks


def launched(monkeypatch):
    """What each backward launch was given."""
    given, run = [], launch.run

    def noted(plan, tensors):
        if plan.kernel == kernel_plans.BACKWARD:
            given.append(tensors)
        return run(plan, tensors)

    monkeypatch.setattr(launch, "run", noted)
    return given


WANTED = {  # which of q, k and their weights are trained -> outputs and partial sums of launches
    "all": ("q k qw kw", [("q", "k", "qw", "kw")]),
    "weights alone": ("qw kw", [("qw", "kw")]),
    "inputs alone": ("q k", [("q", "k")]),
    "q alone": ("q qw", [("q", "qw")]),
    "k's weight alone": ("kw", [("kw",)]),
    "q, and k's weight": ("q kw", [("q",), ("kw",)]),
}


def trained(names, device):
    tensors, weights, options = sample("sbhd", device)
    named = dict(zip(("q", "k", "qw", "kw"), (*tensors, *weights), strict=True))
    for name in names.split():
        named[name].requires_grad_()
    return named, options


@pytest.mark.parametrize("create_graph", (False, True))
@pytest.mark.parametrize("name", WANTED)
def test_only_gradients_that_are_wanted_are_computed(
    name, create_graph, device, monkeypatch, whole_way
):
    names, launches = WANTED[name]
    named, _ = trained(names, device)
    given = launched(monkeypatch)
    rope = RotaryPositionEmbedding(D).to(device)
    outs = qk_norm_rope(*named.values(), rope)
    assert [out.requires_grad for out in outs] == [x in names for x in "qk"]
    loss = sum(out.square().sum() for out in outs if out.requires_grad)
    leaves = [named[n] for n in names.split()]
    got = torch.autograd.grad(loss, leaves, create_graph=create_graph)
    outs = qk_norm_rope(*named.values(), rope, fused=False)
    want = torch.autograd.grad(sum(out.square().sum() for out in outs), leaves)
    torch.testing.assert_close(got, want)
    assert len(given) == len(launches)
    for tensors, wanted in zip(given, launches, strict=True):
        outputs = tensors.q_out, tensors.k_out, tensors.q_partial, tensors.k_partial
        assert sum(x is not None for x in outputs) == len(wanted)


def test_an_unused_result_has_no_gradient(device, monkeypatch, whole_way):
    named, _ = trained("q k qw kw", device)
    given, rope = launched(monkeypatch), RotaryPositionEmbedding(D).to(device)
    q, _ = qk_norm_rope(*named.values(), rope)
    q.square().sum().backward()
    assert named["k"].grad is None and named["kw"].grad is None
    (tensors,) = given
    assert tensors.k is None
    leaves = named["q"], named["qw"]
    out = norm_rope(*leaves, rope, fused=False)
    torch.testing.assert_close(
        [x.grad for x in leaves], [*torch.autograd.grad(out.square().sum(), leaves)]
    )


EMPTY = {  # s, b, heads of q and k
    "q is empty": (3, 2, (0, 2)),
    "k is empty": (3, 2, (5, 0)),
    "both are": (3, 2, (0, 0)),
    "no position": (0, 2, (5, 2)),
    "no batch entry": (3, 0, (5, 2)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_tensors(name, device):
    s, b, heads = EMPTY[name]
    tensors, weights, _ = sample("sbhd", device, heads, s, b)
    leaves = [x.requires_grad_() for x in (*tensors, *weights)]
    outs = qk_norm_rope(*leaves, RotaryPositionEmbedding(D).to(device))
    got = torch.autograd.grad(sum(out.square().sum() for out in outs), leaves)
    one = norm_rope(*leaves[::2], RotaryPositionEmbedding(D).to(device))
    torch.testing.assert_close(one, outs[0])
    torch.testing.assert_close(torch.autograd.grad(one.square().sum(), leaves[::2]), got[::2])
    outs = qk_norm_rope(*leaves, RotaryPositionEmbedding(D).to(device), fused=False)
    want = torch.autograd.grad(sum(out.square().sum() for out in outs), leaves)
    torch.testing.assert_close(got, want)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in SHAPES if "50000" not in name])
def test_memory_of_a_backward(name):
    s, b, heads = SHAPES[name]
    d = 128
    tensors = [torch.randn(s, b, h, d, device="cuda", dtype=torch.bfloat16) for h in heads]
    weights = [torch.randn(d, device="cuda") for _ in heads]
    leaves = [x.requires_grad_() for x in (*tensors, *weights)]
    outs = qk_norm_rope(*leaves, RotaryPositionEmbedding(d).cuda())
    grads = [torch.randn_like(out) for out in outs]
    torch.autograd.grad(outs, leaves, grads, retain_graph=True)  # compiles
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # what an earlier test left may be handed out whole
    # What was asked for: the allocator hands out a block whole if less than 1 MiB would be left.
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    found = torch.autograd.grad(outs, leaves, grads)
    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
    wanted = sum(x.numel() * x.element_size() for x in found)
    assert peak <= wanted + max(2**22, wanted // 100) + 2**12


def test_shapes_that_only_the_run_knows(device):
    """Tokens chosen by a mask, packed: their number is in no graph."""
    torch._dynamo.reset()
    rope, weight = RotaryPositionEmbedding(D).to(device), torch.randn(D, device=device)

    def call(x, mask, cu_seqlens):
        return norm_rope(x[mask], weight, rope, "thd", cu_seqlens=cu_seqlens)

    x, mask = torch.randn(9, 2, D, device=device), torch.arange(9, device=device) % 3 > 0
    cu_seqlens = torch.tensor([0, 2, 6], device=device)
    want = call(x, mask, cu_seqlens)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x, mask, cu_seqlens), want)
        exported = torch.export.export(
            type("Call", (torch.nn.Module,), {"forward": lambda self, *inputs: call(*inputs)})(),
            (x, mask, cu_seqlens),
        )
    torch.testing.assert_close(exported.module()(x, mask, cu_seqlens), want)
