"""Norms with DTensors, norms over heads of several ranks, torch.compile, context parallelism."""

import re
from functools import partial

import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.nn.functional import all_reduce
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.experimental import context_parallel

from on_a_mesh import (
    assert_gradient,
    assert_placed,
    close,
    mesh_of,
    on,
    part_of,
    placed,
    silently,
)
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    cp_positions,
    norm_rope,
    qk_norm_rope,
    rope_qk,
    sum_of_squares,
)
from sharded_cases import Cases, D, freqs_of, refusal, shape_of

cases = Cases()
CASES = cases.by_world_size


# Norms


@cases.for_each(2, (4, 5))
def a_weight_for_each_head_goes_with_the_heads(heads, device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    t, weight = torch.randn(3, 4, heads, D, device=device), torch.rand(heads, D, device=device)
    leaf = weight.clone().requires_grad_()
    want = norm_rope(t, leaf, freqs, "bshd")
    (grad,) = torch.autograd.grad(want.sum(), leaf)
    shard, mine = placed(t, mesh, Shard(2)), placed(weight, mesh, Shard(0), requires_grad=True)

    def both():
        out = norm_rope(shard, mine, freqs, "bshd")
        return out, torch.autograd.grad(out, mine, torch.ones_like(out))[0]

    got, of_mine = silently(both)
    assert_placed(got, want, [Shard(2)])
    assert of_mine.placements == (Shard(0),)
    close(of_mine.to_local(), part_of(grad, mesh, [Shard(0)]))


@cases.for_each(2, (True, False))
def a_norm_in_place(fused, device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    t, weight = torch.randn(3, 5, 4, D, device=device), torch.rand(D, device=device)
    want = norm_rope(t, weight, freqs, "bshd", fused=fused)
    shard = placed(t, mesh, Shard(1))
    got = silently(lambda: norm_rope(shard, weight, freqs, "bshd", inplace=True, fused=fused))
    assert got is shard
    assert_placed(got, want, [Shard(1)])


BESIDE = {
    "weights of all heads": (
        {"weight": lambda mesh: placed(torch.rand(4, D), mesh, Replicate())},
        r"weight of shape \(4, 8\) has placements \(Replicate\(\),\) on mesh \(tp=2\); accepted: "
        r"a DTensor with \(Shard\(dim=0\),\), beside t with \(Shard\(dim=2\),\)",
    ),
    "plain weights of heads": (
        {"weight": lambda mesh: torch.rand(4, D)},
        r"weight of shape \(4, 8\) is a plain tensor, on mesh",
    ),
    "a plain sum": (
        {"sumsq": lambda mesh: torch.rand(4, 4, 4)},
        "sumsq of .* is a plain tensor, on",
    ),
    "a sum of other rows": (
        {"sumsq": lambda mesh: placed(torch.rand(4, 4, 4), mesh, Shard(1))},
        r"sumsq of .* has placements \(Shard\(dim=1\),\)",
    ),
    "a sum that is not summed up": (
        {"sumsq": lambda mesh: placed(torch.rand(4, 4, 1), mesh, Partial()), "norm_dim": 4 * D},
        r"sumsq of .* has placements \(Partial\(sum\),\) on mesh \(tp=2\); accepted: a DTensor "
        r"with \(Replicate\(\),\), beside t with \(Shard\(dim=2\),\)",
    ),
    "no norm_dim": (
        {"sumsq": lambda mesh: placed(torch.rand(4, 4, 1), mesh, Replicate())},
        "norm_dim is None, and sumsq has one sum for all heads",
    ),
    "a gradient that is lost": (
        {"weight": lambda mesh: torch.rand(D).to(mesh.device_type).requires_grad_()},
        "weight is a plain tensor that requires a gradient",
    ),
}


@cases.for_each(2, BESIDE, (True, False))
def refused_beside_a_norm(which, inplace, device):
    mesh, (changes, said) = mesh_of(device, 2), BESIDE[which]
    t = torch.randn(4, 4, 4, D, device=device)
    shard, freqs = placed(t, mesh, Shard(2)), freqs_of("module", device)
    with torch.device(device):
        made = {name: x(mesh) if callable(x) else x for name, x in changes.items()}
    if which == "a gradient that is lost" and inplace:
        said = "inplace is True, and a tensor requires a gradient"
    arguments = {"weight": None, "tensor_format": "bshd", "inplace": inplace, **made}
    message = refusal(lambda: norm_rope(shard, freqs=freqs, **arguments))
    assert re.match(said, message), message
    assert torch.equal(shard.to_local(), part_of(t, mesh, [Shard(2)]))


# A norm over all heads, of which each rank has some


def norm_over_all_heads(q, weight, freqs, total):
    """As in OLMo 2: one mean over the heads of all ranks."""
    return norm_rope(q, weight, freqs, "bshd", sumsq=total, norm_dim=8 * D)


def in_one_process(device):
    q, given = (torch.randn(2, 5, 8, D, device=device) for _ in range(2))
    weight, freqs = torch.rand(8, D, device=device), freqs_of("module", device)
    leaves = [x.clone().requires_grad_() for x in (q, weight)]
    total = sum_of_squares(leaves[0]).sum(-1, keepdim=True)
    out = norm_over_all_heads(*leaves, freqs, total)
    return q, weight, freqs, given, out, torch.autograd.grad(out, leaves, given)


def summed_by_dtensor(share, mesh):
    """The sum of every rank's share, differentiable, with public functions alone."""
    of_all = DTensor.from_local(share, mesh, [Partial()]).redistribute(placements=[Replicate()])
    return of_all.to_local(grad_placements=[Partial()])


def summed_by_function(share, mesh):
    return all_reduce(share, group=mesh.get_group())


@cases.for_each(2, (summed_by_dtensor, summed_by_function))
def a_norm_over_heads_of_all_ranks(summed, device):
    """Plain tensors: each rank has its heads, and the sum is the only communication."""
    mesh = mesh_of(device, 2)
    q, weight, freqs, given, out, grads = in_one_process(device)
    heads, rows = [Shard(2)], [Shard(0)]
    mine = part_of(q, mesh, heads).requires_grad_()
    of_mine = part_of(weight, mesh, rows).requires_grad_()
    total = summed(sum_of_squares(mine).sum(-1, keepdim=True), mesh)
    got = norm_over_all_heads(mine, of_mine, freqs, total)
    close(got, part_of(out, mesh, heads))
    found = torch.autograd.grad(got, (mine, of_mine), part_of(given, mesh, heads))
    close(found[0], part_of(grads[0], mesh, heads))
    close(found[1], part_of(grads[1], mesh, rows))


@cases.for_each(2)
def a_norm_over_heads_of_all_ranks_with_dtensors(device):
    mesh = mesh_of(device, 2)
    q, weight, freqs, given, out, grads = in_one_process(device)
    mine = placed(q, mesh, Shard(2), requires_grad=True)
    of_mine = placed(weight, mesh, Shard(0), requires_grad=True)
    total = sum_of_squares(mine).sum(-1, keepdim=True).redistribute(placements=[Replicate()])
    got = norm_over_all_heads(mine, of_mine, freqs, total)
    assert got.placements == (Shard(2),)
    close(got.full_tensor(), out)
    found = torch.autograd.grad(got, (mine, of_mine), placed(given, mesh, Shard(2)))
    assert [x.placements for x in found] == [(Shard(2),), (Shard(0),)]
    for x, want in zip(found, grads, strict=True):
        close(x.full_tensor(), want)


@cases.for_each(2)
def the_gradient_of_a_sum_is_a_share_of_it(device):
    """All heads use one sum: a rank's heads add only their share to its gradient."""
    mesh, (q, weight, freqs, given, _, _) = mesh_of(device, 2), in_one_process(device)
    total = sum_of_squares(q).sum(-1, keepdim=True).requires_grad_()
    want = norm_over_all_heads(q, weight, freqs, total)
    (grad,) = torch.autograd.grad(want, total, given)
    mine = placed(total, mesh, Replicate(), requires_grad=True)
    shard, rows = placed(q, mesh, Shard(2)), placed(weight, mesh, Shard(0))

    def both():
        out = norm_over_all_heads(shard, rows, freqs, mine)
        return out, torch.autograd.grad(out, mine, placed(given, mesh, Shard(2)))[0]

    out, of_mine = silently(both)
    assert_placed(out, want, [Shard(2)])
    assert of_mine.placements == (Partial(),)
    close(of_mine.full_tensor(), grad)


# torch.compile


def compiled(function):
    """A function in one graph, and the list of collectives in it, forward and backward."""
    found = []

    def look(graph, inputs):
        found.extend(str(x.target) for x in graph.graph.nodes if "c10d" in str(x.target))
        return make_boxed_func(graph)

    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend=aot_autograd(fw_compiler=look)), found


@cases.for_each(2, ("rope s 5 bshd", "norm h 3 bhsd"))
def compiled_in_one_graph(what, device):
    kind, letter, size, tensor_format = what.split()
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    weights = [torch.rand(D, device=device) for _ in range(2)] if kind == "norm" else []
    function = qk_norm_rope if weights else rope_qk
    run = partial(function, freqs=freqs, tensor_format=tensor_format)
    placements = on(tensor_format, letter)
    shape = shape_of(tensor_format, **{letter: int(size)})
    q, k, *gradients = (torch.randn(shape, device=device) for _ in range(4))
    rows = [placed(x, mesh, *placements, requires_grad=True) for x in (q, k)]
    mine = [*rows, *[placed(x, mesh, Replicate(), requires_grad=True) for x in weights]]
    given = [placed(x, mesh, *placements) for x in gradients]
    wanted = run(*mine)
    grads = torch.autograd.grad(wanted, mine, given)
    in_a_graph, collectives = compiled(run)
    outs = in_a_graph(*mine)
    found = torch.autograd.grad(outs, mine, given)
    assert collectives == []
    for got, want, whole in zip(outs, wanted, run(q, k, *weights), strict=True):
        assert got.stride() == want.stride()
        assert_placed(got, whole, placements)
        assert torch.equal(got.to_local(), want.to_local())
    for got, want in zip(found, grads, strict=True):
        assert got.placements == want.placements and got.shape == want.shape
        assert torch.equal(got.to_local(), want.to_local())


@cases.for_each(2)
def a_graph_for_other_shards(device):
    """Of another length, dimension and format: each gets what is right for it."""
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    in_a_graph, collectives = compiled(lambda t, x: apply_rotary_pos_emb(t, freqs, x))
    # in a graph for every length, torch 2.11 reads strides of DTensors from sizes, of t * 2 too
    check = assert_placed if torch.__version__ >= (2, 13) else assert_gradient
    for s, dim, tensor_format in ((4, 1, "bshd"), (6, 1, "bshd"), (6, 2, "bhsd")):
        t = torch.randn(2, s, 2 if tensor_format == "bshd" else 6, D, device=device)
        want = apply_rotary_pos_emb(t, freqs, tensor_format)
        got = in_a_graph(placed(t, mesh, Shard(dim)), tensor_format)
        check(got, want, [Shard(dim)])
    assert collectives == []


@cases.for_each(2)
def communication_is_seen(device):
    """In eager and in a graph. So no other case passes for want of a counter."""
    shard = placed(torch.randn(4, 4, device=device), mesh_of(device, 2), Shard(0))
    in_a_graph, collectives = compiled(lambda x: x.redistribute(placements=[Replicate()]) + 1)
    in_a_graph(shard)
    assert len(collectives) > 0
    try:
        silently(lambda: shard.redistribute(placements=[Replicate()]))
    except AssertionError:
        return
    raise AssertionError("this is no communication")


@cases.for_each(2, ("start_positions and a table", "position_ids in place"))
def compiled_with(what, device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    t, inplace = torch.randn(4, 4, 2, D, device=device), "in place" in what
    if inplace:
        options = {"position_ids": torch.randint(0, 12, (4, 4), device=device)}
        mine = {"position_ids": placed(options["position_ids"], mesh, Shard(1))}
    else:
        freqs = freqs(12)
        options = mine = {"start_positions": torch.tensor([3, 0, 7, 2], device=device)}
    want, shard = apply_rotary_pos_emb(t, freqs, "bshd", **options), placed(t, mesh, Shard(1))
    in_a_graph, collectives = compiled(
        lambda t: apply_rotary_pos_emb(t, freqs, "bshd", inplace=inplace, **mine)
    )
    got = in_a_graph(shard)
    assert collectives == []
    assert_placed(got, want, [Shard(1)])
    assert (got is shard) == inplace


@cases.for_each(2)
def compiled_and_refused(device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    shard = placed(torch.randn(4, 4, 4, D, device=device), mesh, Shard(3))
    in_a_graph, _ = compiled(lambda t: apply_rotary_pos_emb(t, freqs, "bshd"))
    message = refusal(lambda: in_a_graph(shard), Exception)
    assert "t of shape (4, 4, 4, 8) has placements" in message


# Context parallelism: a rank needs its positions and nothing else


@cases.for_each(2, ("position_ids", "cp_size and cp_rank"))
def context_parallel_of_torch(how, device):
    """`position_ids` are one of its buffers, so they are cut as everything else is."""
    mesh = init_device_mesh(device, (2,), mesh_dim_names=("cp",))
    q, freqs = torch.randn(2, 8, 4, D, device=device), freqs_of("module", device)
    whole = apply_rotary_pos_emb(q, freqs, "bshd")
    ids, mine = torch.arange(8, device=device)[None].clone(), q.clone()
    rank = {"cp_size": 2, "cp_rank": mesh.get_local_rank()}
    with context_parallel(mesh, buffers=[mine, ids], buffer_seq_dims=[1, 1]):
        options = {"position_ids": ids} if how == "position_ids" else rank
        out = apply_rotary_pos_emb(mine, freqs, "bshd", **options)
        assert torch.equal(ids[0], cp_positions(8, **rank, device=device))
        assert torch.equal(out, whole[:, ids[0]])


@cases.for_each(2, ("zigzag", "contiguous", "round_robin"), (False, True))
def ranks_of_context_parallelism(cp_order, packed, device):
    """Bit for bit what one process has, gathered from both ranks."""
    group = dist.group.WORLD
    rank = {"cp_size": 2, "cp_rank": dist.get_rank(group), "cp_order": cp_order}
    freqs = RotaryPositionEmbedding(D).to(device)
    if packed:
        cu_seqlens = torch.tensor([0, 8, 8, 12], device=device)
        where = {"tensor_format": "thd", "cu_seqlens": cu_seqlens}
        q, first = torch.randn(12, 4, D, device=device), [0] * 4 + [8] * 2
        mine = cp_positions(cu_seqlens=cu_seqlens, **rank)
        mine = mine + torch.tensor(first, device=device)
    else:
        where, q = {"tensor_format": "sbhd"}, torch.randn(12, 2, 4, D, device=device)
        mine = cp_positions(12, **rank, device=device)
    whole = apply_rotary_pos_emb(q, freqs, **where)
    out = silently(lambda: apply_rotary_pos_emb(q[mine], freqs, **where, **rank))
    parts, places = ([torch.empty_like(x) for _ in range(2)] for x in (out, mine))
    dist.all_gather(parts, out)
    dist.all_gather(places, mine)
    together = torch.full_like(whole, float("nan"))
    together[torch.cat(places)] = torch.cat(parts)
    assert torch.equal(together, whole)
