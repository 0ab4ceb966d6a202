"""What newcomers run into: meshes that don't fit, empty shards, derivatives of derivatives."""

from functools import partial
from unittest import mock

import torch
import torch.distributed as dist
from torch.autograd import forward_ad
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.placement_types import _StridedShard

from on_a_mesh import (
    assert_gradient,
    assert_placed,
    both_ways,
    check_both_ways,
    mesh_of,
    of_one_process,
    on,
    part_of,
    placed,
    silently,
)
from rope_kernels import apply_rotary_pos_emb, norm_rope, qk_norm_rope, rope_bw, rope_qk
from rope_kernels.sharded import calls as sharded_calls
from sharded_cases import Cases, D, freqs_of, refusal, shape_of

cases = Cases()
CASES = cases.by_world_size


# Meshes


@cases.for_each(2)
def refused_shards_that_are_interleaved(device):
    """What flattening makes of a sharded sequence: each rank has a part of every sequence."""
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    how = {"run_check": False, "shape": (8, 4, D), "stride": (4 * D, D, 1)}
    interleaved = [_StridedShard(0, split_factor=2)]
    t = DTensor.from_local(torch.randn(4, 4, D, device=device), mesh, interleaved, **how)
    bounds = torch.tensor([0, 4, 8], device=device)
    message = refusal(lambda: apply_rotary_pos_emb(t, freqs, "thd", cu_seqlens=bounds))
    assert message.startswith("t of shape (8, 4, 8) has placements (_StridedShard("), message


@cases.for_each(4)
def refused_meshes(device):
    """A mesh in a mesh is another one, even for the rank that is in both."""
    whole, freqs = mesh_of(device, 2, 2), freqs_of("module", device)
    tp, dp, x = whole["tp"], whole["dp"], torch.randn(4, 4, 4, D, device=device)
    q, table = placed(x, tp, Shard(2)), placed(freqs(12), whole, Replicate(), Replicate())
    message = refusal(lambda: rope_qk(q, placed(x, dp, Shard(2)), freqs, "bshd"))
    assert message == "k is on mesh (dp=2); accepted: the mesh of q, mesh (tp=2)"
    message = refusal(lambda: apply_rotary_pos_emb(q, table, "bshd"))
    assert message == "freqs is on mesh (dp=2, tp=2); accepted: the mesh of t, mesh (tp=2)"


@cases.for_each(4)
def a_mesh_without_this_rank(device):
    """Two ranks rotate. The others are told that they have no part in it, and nobody waits."""
    freqs, t = freqs_of("module", device), torch.randn(2, 4, 4, D, device=device)
    mesh, rank = DeviceMesh(device, [0, 1], mesh_dim_names=("tp",)), dist.get_rank()
    part = t.chunk(2, dim=2)[rank] if rank < 2 else t[:, :, :0]
    how = {"run_check": False, "shape": t.shape, "stride": t.stride()}
    shard = DTensor.from_local(part.contiguous(), mesh, [Shard(2)], **how)
    if rank < 2:
        out = silently(lambda: apply_rotary_pos_emb(shard, freqs, "bshd"))
        return assert_placed(out, apply_rotary_pos_emb(t, freqs, "bshd"), [Shard(2)])
    try:
        apply_rotary_pos_emb(shard, freqs, "bshd")
    except ValueError as error:
        assert str(error).startswith("t is on mesh (tp=2), which does not have this rank; accepted")
        return
    raise AssertionError("this call is accepted")


@cases.for_each(2)
def tables_that_pytorch_replicates(device):
    """Within `implicit_replication()` as without it: the offset of the shard is added."""
    mesh, freqs = mesh_of(device, 2), freqs_of("angles", device)
    t = torch.randn(2, 4, 4, D, device=device)
    want, shard = apply_rotary_pos_emb(t, freqs, "bshd"), placed(t, mesh, Shard(1))
    with implicit_replication():
        got = silently(lambda: apply_rotary_pos_emb(shard, freqs, "bshd"))
    assert_placed(got, want, [Shard(1)])


# More ranks than there is to share


@cases.for_each(4, ("h", "s", "b"), (rope_qk, qk_norm_rope), ("module", "cos sin"))
def ranks_without_a_share(letter, function, kind, device):
    """5 on 4 ranks: the last one has nothing, and its share of a weight's gradient is zero."""
    mesh, placements = mesh_of(device, 4), on("bshd", letter)
    shape = shape_of("bshd", **{"b": 1, "s": 1, "h": 1, letter: 5})
    q, k, *gradients = (torch.randn(shape, device=device) for _ in range(4))
    weights = [torch.rand(D, device=device) for _ in range(2)] if function is qk_norm_rope else []
    run = partial(function, freqs=freqs_of(kind, device), tensor_format="bshd")
    mine, wanted = check_both_ways(run, [q, k], gradients, mesh, placements, weights)
    with torch.no_grad():
        again = silently(lambda: run(*mine, inplace=True))
    for x, got, want in zip(mine, again, wanted, strict=False):
        assert got is x and torch.equal(x.to_local(), part_of(want, mesh, placements))


# Derivatives of derivatives


def rotated(x, freqs):
    return apply_rotary_pos_emb(x, freqs, "bshd")


def normed(x, freqs):
    return norm_rope(x, None, freqs, "bshd")


@cases.for_each(2, (rotated, normed), "bsh")
def second_derivatives(function, letter, device):
    """Of the gradient in `x` and in the gradient of the results: right, and silent."""
    mesh, placements = mesh_of(device, 2), on("bshd", letter)
    x, given, again = (torch.randn(shape_of("bshd", s=2, b=2), device=device) for _ in range(3))
    freqs = freqs_of("module", device)

    def first(x, given):
        return torch.autograd.grad(function(x, freqs), x, given, create_graph=True)

    def twice(x, given, again):
        leaves = [given] if function is rotated else [x, given]  # a rotation is linear
        return both_ways(lambda *_: first(x, given), leaves, [again])

    leaves = [y.clone().requires_grad_() for y in (x, given)]
    (want,), wanted = of_one_process(device, partial(twice, *leaves, again))
    mine = [placed(y, mesh, *placements, requires_grad=True) for y in (x, given)]
    of_shards = partial(twice, *mine, placed(again, mesh, *placements))
    if not sharded_calls.HAS_SECOND_DERIVATIVES:
        return assert_refused_twice(of_shards)
    (got,), found = silently(of_shards)
    for y, z in zip((got, *found), (want, *wanted), strict=True):
        assert y.placements == placements and y.shape == z.shape
        torch.testing.assert_close(y.to_local(), part_of(z, mesh, placements))


@cases.for_each(2, (rotated,), ("-s",))
@cases.for_each(2, (normed,), ("s-",))
def gradient_penalties(function, letters, device):
    """The gradient of the results has the placements of `y`, and keeps its history."""
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    x, y = (torch.randn(shape_of("bshd", s=3), device=device) for _ in range(2))

    def penalized(x, y):
        loss = (function(x, freqs) * y).sum()
        (grad,) = torch.autograd.grad(loss, x, create_graph=True)
        return torch.autograd.grad(loss + grad.square().sum(), (x, y))

    leaves = [z.clone().requires_grad_() for z in (x, y)]
    wanted = of_one_process(device, partial(penalized, *leaves))
    mine = [
        placed(z, mesh, *on("bshd", letter), requires_grad=True)
        for z, letter in zip((x, y), letters, strict=True)
    ]
    if not sharded_calls.HAS_SECOND_DERIVATIVES:
        return assert_refused_twice(partial(penalized, *mine))
    for got, want in zip(penalized(*mine), wanted, strict=True):
        torch.testing.assert_close(got.full_tensor(), want)


@cases.for_each(2)
def refused_second_derivatives(device):
    """As before torch 2.12, whose gradients lose their history. First derivatives are right."""
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    x = torch.randn(shape_of("bshd"), device=device)
    shard = placed(x, mesh, Shard(1), requires_grad=True)
    ones = placed(torch.ones_like(x), mesh, Shard(1))
    want = rope_bw(torch.ones_like(x), freqs, "bshd")
    with mock.patch.object(sharded_calls, "HAS_SECOND_DERIVATIVES", False):
        derive = partial(torch.autograd.grad, rotated(shard, freqs), shard, ones)
        assert_refused_twice(partial(derive, retain_graph=True, create_graph=True))
        (got,) = derive()
    assert_gradient(got, want, [Shard(1)])


def assert_refused_twice(call):
    said = refusal(call, RuntimeError)
    assert said.startswith("create_graph is True in a backward of DTensors, with torch 2."), said


@cases.for_each(2, (rotated, normed))
def refused_transforms(function, device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    t = placed(torch.randn(2, 4, 4, D, device=device), mesh, Shard(2))
    ones = torch.ones(2, device=device)

    def forward_mode():
        with forward_ad.dual_level():
            return function(t, freqs)

    for call in (
        lambda: torch.func.grad(lambda x: function(x, freqs).to_local().sum())(t),
        lambda: torch.func.vjp(lambda x: function(x, freqs), t),
        lambda: torch.func.vmap(lambda x: function(x, freqs))(t.unsqueeze(0)),
        lambda: torch.func.vmap(lambda x: function(t, freqs))(
            ones
        ),  # what the function closes over
        forward_mode,
    ):
        message = refusal(call)
        assert message.startswith("a tensor is a DTensor, within torch.func, forward mode or "), (
            message
        )
