"""Calls with DTensors against one process: bits, placements, and no communication."""

import re
from functools import partial

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module

from on_a_mesh import (
    assert_gradient,
    assert_placed,
    check_both_ways,
    mesh_of,
    on,
    part_of,
    placed,
    silently,
)
from pairwise import chosen_from
from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    rope_bw,
    rope_fw,
    rope_qk,
)

D = 8
DENSE = "bshd", "bhsd", "sbhd"


class Cases:
    """Cases by world size and name: functions of the device, registered with their arguments."""

    def __init__(self):
        self.by_world_size = {2: {}, 4: {}}

    def for_each(self, world_size, *lists):
        """Registers a function for arguments of which every two meet, one from each list."""

        def register(function):
            for chosen in chosen_from(*lists):
                name = ", ".join(
                    [function.__name__, *[getattr(x, "__name__", str(x)) for x in chosen]]
                )
                self.by_world_size[world_size][name] = partial(function, *chosen)
            return function

        return register


cases = Cases()
CASES = cases.by_world_size


def shape_of(tensor_format, s=4, b=4, h=4, d=D):
    sizes = {"s": s, "b": b, "h": h, "d": d, "t": s}
    return [sizes[letter] for letter in tensor_format]


def freqs_of(kind, device, s2=12, b=4):
    rope = RotaryPositionEmbedding(D).to(device)
    angles = rope(s2)
    rows = angles[:, 0, 0]
    return {
        "module": rope,
        "angles": angles,
        "per pair": rope.angles_per_pair(s2),
        "cos sin": (rows.cos(), rows.sin()),
        "cos sin of each": (
            torch.randn(b, s2, D, device=device).cos(),
            torch.randn(b, s2, D, device=device),
        ),
    }[kind]


@cases.for_each(2, DENSE, "bsh", ("module", "angles", "cos sin"))
def shards_of_q_and_k(tensor_format, letter, kind, device):
    """4 of everything, so formats and placements differ where shapes do not."""
    mesh, placements = mesh_of(device, 2), on(tensor_format, letter)
    q, k, *gradients = (torch.randn(shape_of(tensor_format), device=device) for _ in range(4))
    rotate = partial(rope_qk, freqs=freqs_of(kind, device), tensor_format=tensor_format)
    check_both_ways(rotate, [q, k], gradients, mesh, placements)


@cases.for_each(2, ("angles", "cos sin", "per pair"), "bsh")
def gradients_of_a_replicated_table(kind, letter, device):
    mesh, tensor_format = mesh_of(device, 2), "bshd"
    t = torch.randn(shape_of(tensor_format), device=device)
    given = torch.randn(shape_of(tensor_format), device=device)
    freqs = freqs_of(kind, device)
    tables = [freqs] if isinstance(freqs, torch.Tensor) else [*freqs]
    rebuilt = {"angles": lambda x: x, "cos sin": lambda *x: x}.get(kind, type(freqs))
    leaves = [x.clone().requires_grad_() for x in tables]
    out = apply_rotary_pos_emb(t, rebuilt(*leaves), tensor_format)
    wanted = torch.autograd.grad(out, leaves, given)
    placements = on(tensor_format, letter)
    mine = [placed(x, mesh, Replicate(), requires_grad=True) for x in tables]
    shard, of_out = placed(t, mesh, *placements), placed(given, mesh, *placements)

    def run():
        out = apply_rotary_pos_emb(shard, rebuilt(*mine), tensor_format)
        return out, torch.autograd.grad(out, mine, of_out)

    got, of_mine = silently(run)
    assert_placed(got, out, placements)
    for x, want in zip(of_mine, wanted, strict=True):
        assert x.placements == (Partial(),) and x.shape == want.shape
        torch.testing.assert_close(x.full_tensor(), want)


@cases.for_each(2)
def a_table_of_each_entry_goes_with_the_batch(device):
    mesh = mesh_of(device, 2)
    t, freqs = torch.randn(4, 4, 4, D, device=device), freqs_of("cos sin of each", device)
    leaves = [x.requires_grad_() for x in freqs]
    out = apply_rotary_pos_emb(t, tuple(leaves), "bshd")
    wanted = torch.autograd.grad(out.sum(), leaves)
    mine = tuple(placed(x, mesh, Shard(0), requires_grad=True) for x in freqs)
    shard = placed(t, mesh, Shard(0))

    def run():
        out = apply_rotary_pos_emb(shard, mine, "bshd")
        return out, torch.autograd.grad(out, mine, torch.ones_like(out))

    got, of_mine = silently(run)
    assert_placed(got, out, [Shard(0)])
    for x, want in zip(of_mine, wanted, strict=True):
        assert_gradient(x, want, [Shard(0)])


@cases.for_each(2, DENSE, ("b", "s", "h"), ("module", "cos sin"))
def uneven_shards(tensor_format, letter, kind, device):
    mesh, placements = mesh_of(device, 2), on(tensor_format, letter)
    t = torch.randn(shape_of(tensor_format, s=5, b=3, h=5), device=device)
    given, freqs = torch.randn_like(t), freqs_of(kind, device)
    rotate = partial(apply_rotary_pos_emb, freqs=freqs, tensor_format=tensor_format)
    check_both_ways(rotate, [t], [given], mesh, placements)


@cases.for_each(
    2,
    ("module", "angles"),
    ((0, 3, 5, 8), (0, 7, 7), (0, 8)),
    (("s", None), ("s", 3), ("h", 3)),
)
def packed_sequences(kind, bounds, letter_and_start, device):
    """Tokens past the last sequence too."""
    letter, start = letter_and_start
    mesh, placements = mesh_of(device, 2), on("thd", letter)
    t = torch.randn(9 if letter == "s" else 8, 4, D, device=device)
    cu_seqlens = torch.tensor(bounds, device=device)
    options = {"cu_seqlens": cu_seqlens, "start_positions": start}
    freqs = freqs_of(kind, device)
    rotate = partial(apply_rotary_pos_emb, freqs=freqs, tensor_format="thd", **options)
    check_both_ways(rotate, [t], [torch.ones_like(t)], mesh, placements)


@cases.for_each(
    2, ("int", "starts", "sharded starts", "ids", "shared ids"), ("b 4", "s 4", "s 5", "h 4")
)
def given_positions(kind, letter_and_size, device):
    """A start is added to the offset of a shard; ids are sharded as the tokens are."""
    letter, s = letter_and_size[0], int(letter_and_size[-1])
    mesh, placements = mesh_of(device, 2), on("bshd", letter)
    t, freqs = torch.randn(4, s, 4, D, device=device), freqs_of("angles", device)
    starts = torch.tensor([3, 0, 7, 2], device=device, dtype=torch.int8)
    ids = torch.randint(0, 12, (1 if kind == "shared ids" else 4, s), device=device)
    whole = {
        "int": {"start_positions": 5},
        "starts": {"start_positions": starts},
        "sharded starts": {"start_positions": starts},
    }.get(kind, {"position_ids": ids})
    options = dict(whole)
    if kind == "sharded starts":
        of_starts = Shard(0) if letter == "b" else Replicate()
        options = {"start_positions": placed(starts, mesh, of_starts)}
    elif "ids" in kind:
        batch = Replicate() if kind == "shared ids" else Shard(0)
        of_ids = {"b": batch, "s": Shard(1), "h": Replicate()}[letter]
        options = {"position_ids": placed(ids, mesh, of_ids)}
    out = apply_rotary_pos_emb(t, freqs, "bshd", **whole)
    shard = placed(t, mesh, *placements)
    got = silently(lambda: apply_rotary_pos_emb(shard, freqs, "bshd", **options))
    assert_placed(got, out, placements)


@cases.for_each(2)
def ids_of_packed_tokens(device):
    mesh = mesh_of(device, 2)
    t, ids = torch.randn(7, 2, D, device=device), torch.randint(0, 12, (7,), device=device)
    freqs = freqs_of("module", device)
    out = apply_rotary_pos_emb(t, freqs, "thd", position_ids=ids)
    shard, mine = placed(t, mesh, Shard(0)), placed(ids, mesh, Shard(0))
    got = silently(lambda: apply_rotary_pos_emb(shard, freqs, "thd", position_ids=mine))
    assert_placed(got, out, [Shard(0)])


@cases.for_each(2, "bsh", (1, 4))
def ids_on_several_axes(letter, entries, device):
    """(axes, b or 1, s): the dimension of axes comes first, and every rank has all of it."""
    mesh, placements = mesh_of(device, 2), on("bshd", letter)
    rope = RotaryPositionEmbedding(D, axes=[0, 1, 2, 0]).to(device)
    t, ids = torch.randn(4, 4, 4, D, device=device), torch.randint(0, 50, (3, entries, 4))
    ids = ids.to(device)
    out = apply_rotary_pos_emb(t, rope, "bshd", position_ids=ids)
    batch = Replicate() if entries == 1 else Shard(1)
    of_ids = {"b": batch, "s": Shard(2), "h": Replicate()}[letter]
    shard, mine = placed(t, mesh, *placements), placed(ids, mesh, of_ids)
    got = silently(lambda: apply_rotary_pos_emb(shard, rope, "bshd", position_ids=mine))
    assert_placed(got, out, placements)


@cases.for_each(2)
def ids_of_packed_tokens_on_several_axes(device):
    mesh = mesh_of(device, 2)
    rope = RotaryPositionEmbedding(D, axes=[0, 1, 2, 0]).to(device)
    t, ids = torch.randn(6, 2, D, device=device), torch.randint(0, 50, (3, 6), device=device)
    out = apply_rotary_pos_emb(t, rope, "thd", position_ids=ids)
    shard, mine = placed(t, mesh, Shard(0)), placed(ids, mesh, Shard(1))
    got = silently(lambda: apply_rotary_pos_emb(shard, rope, "thd", position_ids=mine))
    assert_placed(got, out, [Shard(0)])


@cases.for_each(2, ("zigzag", "contiguous", "round_robin"))
def heads_of_a_rank_of_context_parallelism(cp_order, device):
    mesh = mesh_of(device, 2)
    t, freqs = torch.randn(2, 4, 4, D, device=device), freqs_of("module", device)
    options = {"cp_size": 3, "cp_rank": 1, "cp_order": cp_order}
    out = apply_rotary_pos_emb(t, freqs, "bshd", **options)
    shard = placed(t, mesh, Shard(2))
    got = silently(lambda: apply_rotary_pos_emb(shard, freqs, "bshd", **options))
    assert_placed(got, out, [Shard(2)])


@cases.for_each(2, ("cos sin", "cos sin of each", "angles"))
def a_table_cut_with_the_sequence(kind, device):
    mesh = mesh_of(device, 2)
    t, freqs = torch.randn(4, 5, 4, D, device=device), freqs_of(kind, device, s2=5)
    out = apply_rotary_pos_emb(t, freqs, "bshd")
    rows = Shard(1 if kind == "cos sin of each" else 0)
    if kind == "angles":
        mine = placed(freqs, mesh, rows)
    else:
        mine = tuple(placed(x, mesh, rows) for x in freqs)
    shard = placed(t, mesh, Shard(1))
    got = silently(lambda: apply_rotary_pos_emb(shard, mine, "bshd"))
    assert_placed(got, out, [Shard(1)])


@cases.for_each(2)
def one_head_of_keys_is_replicated(device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    q, k = torch.randn(2, 4, 6, D, device=device), torch.randn(2, 4, 1, D, device=device)
    wanted = rope_qk(q, k, freqs, "bshd")
    mine = placed(q, mesh, Shard(2)), placed(k, mesh, Replicate())
    got = silently(lambda: rope_qk(*mine, freqs, "bshd"))
    assert_placed(got[0], wanted[0], [Shard(2)])
    assert_placed(got[1], wanted[1], [Replicate()])


@cases.for_each(2, (True, False), ("b", "s", "h"))
def in_place(fused, letter, device):
    """The local tensors are overwritten, and autograd notices it."""
    mesh, freqs, placements = mesh_of(device, 2), freqs_of("module", device), on("bshd", letter)
    whole = torch.randn(2, 4, 4, 12, device=device), torch.randn(2, 4, 2, 12, device=device)
    options = {"tensor_format": "bshd", "rotary_start": 2, "fused": fused}
    wanted = rope_qk(*whole, freqs, **options)
    mine = [placed(x, mesh, *placements) for x in whole]
    before = [(x.to_local().data_ptr(), x._version) for x in mine]
    got = silently(lambda: rope_qk(*mine, freqs, inplace=True, **options))
    for x, y, want, (address, version) in zip(got, mine, wanted, before, strict=True):
        assert x is y and x.to_local().data_ptr() == address and x._version > version
        assert_placed(x, want, placements)


@cases.for_each(2, (True, False))
def one_direction_alone(fused, device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    t = torch.randn(2, 5, 4, D, device=device)
    shard = placed(t, mesh, Shard(1), requires_grad=True)
    for function in (rope_fw, rope_bw):
        want = function(t, freqs, "bshd", fused=fused)
        got = silently(lambda f=function: f(shard, freqs, "bshd", fused=fused))
        assert not got.requires_grad
        assert_placed(got, want, [Shard(1)])


@cases.for_each(2)
def a_pending_communication_is_waited_for(device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    t = torch.randn(2, 4, 4, D, device=device)
    want = apply_rotary_pos_emb(t, freqs, "bshd")
    pending = placed(t, mesh, Shard(2)).redistribute(placements=[Shard(1)], async_op=True)
    assert_placed(apply_rotary_pos_emb(pending, freqs, "bshd"), want, [Shard(1)])


@cases.for_each(2)
def an_interpolating_module_counts_all_positions(device):
    mesh, scaled = mesh_of(device, 2), {"seq_len_interpolation_factor": 2.0}
    freqs = RotaryPositionEmbedding(D, pretrained_max_position_embeddings=2, **scaled).to(device)
    t = torch.randn(2, 8, 2, D, device=device)
    want = apply_rotary_pos_emb(t, freqs, "bshd")
    got = silently(lambda: apply_rotary_pos_emb(placed(t, mesh, Shard(1)), freqs, "bshd"))
    assert_placed(got, want, [Shard(1)])
    message = refusal(lambda: apply_rotary_pos_emb(placed(t[:, :5], mesh, Shard(1)), freqs, "bshd"))
    assert "freqs interpolates by the number of positions" in message


# Refused, and nothing written


def refusal(call, error=ValueError):
    """What is said, on every rank alike: none of them goes on alone."""
    said = None
    try:
        silently(call)
    except error as raised:
        said = str(raised)
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, said)
    assert said is not None, "this call is accepted"
    assert every == [said] * len(every), every
    return said


def q_and_k(mesh, of_q, of_k, q_heads=4, k_heads=4, tensor_format="bshd"):
    device = mesh.device_type
    shapes = (shape_of(tensor_format, h=heads) for heads in (q_heads, k_heads))
    q, k = (torch.randn(shape, device=device) for shape in shapes)
    return placed(q, mesh, *of_q), placed(k, mesh, *of_k)


PLACEMENTS = {  # of q, of k, heads, and what the message says
    "head dimension": (
        ([Shard(3)], [Shard(3)], 4, 4),
        r"q of shape \(4, 4, 4, 8\) has placements \(Shard\(dim=3\),\) on mesh \(tp=2\); accepted: "
        r"on each dimension of a mesh Replicate\(\), Shard\(0\) \(batch\), Shard\(1\) "
        r"\(sequence\), Shard\(2\) \(heads\)",
    ),
    "partial sums": (
        ([Partial()], [Partial()], 4, 4),
        r"q of .* has placements \(Partial\(sum\),\) on mesh \(tp=2\)",
    ),
    "replicated keys": (
        ([Shard(2)], [Replicate()], 4, 2),
        r"k of shape \(4, 4, 2, 8\) has placements \(Replicate\(\),\) on mesh \(tp=2\); accepted: "
        r"those of q, \(Shard\(dim=2\),\); Replicate\(\) only with one head of k",
    ),
    "replicated queries": (
        ([Replicate()], [Shard(2)], 4, 4),
        r"k of .* has placements .*; accepted: those of q, \(Replicate",
    ),
    "batch and sequence": (
        ([Shard(0)], [Shard(1)], 4, 4),
        r"k of .* has placements \(Shard\(dim=1\)",
    ),
    "groups": (
        ([Shard(2)], [Shard(2)], 6, 3),
        r"q and k have 6 and 3 heads, sharded on mesh \(tp=2\); accepted: numbers of heads that "
        "2 divides, or other ones that give each rank the heads of k that its heads of q use",
    ),
    "no groups": (([Shard(2)], [Shard(2)], 5, 3), r"q and k have 5 and 3 heads"),
    "one head of two ranks": (([Shard(2)], [Shard(2)], 4, 1), r"q and k have 4 and 1 heads"),
}


@cases.for_each(2, PLACEMENTS, (True, False))
def refused_placements(which, inplace, device):
    mesh, ((of_q, of_k, *heads), said) = mesh_of(device, 2), PLACEMENTS[which]
    q, k = q_and_k(mesh, of_q, of_k, *heads)
    before = [x.to_local().clone() for x in (q, k)]
    freqs = freqs_of("module", device)
    message = refusal(lambda: rope_qk(q, k, freqs, "bshd", inplace=inplace))
    assert re.match(said, message), message
    for x, y in zip((q, k), before, strict=True):
        assert torch.equal(x.to_local(), y)


@cases.for_each(2)
def heads_in_unequal_shards_of_equal_groups_are_accepted(device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    for heads in ((5, 5), (8, 2)):
        q, k = q_and_k(mesh, [Shard(2)], [Shard(2)], *heads)
        got = silently(lambda q=q, k=k: rope_qk(q, k, freqs, "bshd"))
        assert [x.shape[2] for x in got] == [*heads]


BESIDE = {  # what of the call is wrong beside t, sharded by this letter, and what the message says
    "plain ids": (
        "s",
        lambda mesh: {"position_ids": torch.zeros(4, 4).long()},
        r"position_ids of shape \(4, 4\) is a plain tensor, on mesh \(tp=2\); accepted: a DTensor",
    ),
    "ids of the batch": (
        "s",
        lambda mesh: {"position_ids": placed(torch.zeros(4, 4).long(), mesh, Shard(0))},
        r"position_ids of shape \(4, 4\) has placements \(Shard\(dim=0\),\) on mesh \(tp=2\); "
        r"accepted: a DTensor with \(Shard\(dim=1\),\), beside t with \(Shard\(dim=1\),\)",
    ),
    "replicated ids": (
        "b",
        lambda mesh: {"position_ids": placed(torch.zeros(4, 4).long(), mesh, Replicate())},
        r"position_ids of .* has placements \(Replicate\(\),\)",
    ),
    "starts": (
        "h",
        lambda mesh: {"start_positions": placed(torch.zeros(4).long(), mesh, Shard(0))},
        r"start_positions of .* has placements \(Shard\(dim=0\),\)",
    ),
    "a rank": ("s", lambda mesh: {"cp_size": 2}, "cp_size is 2, and t has a sharded sequence on m"),
    "columns": (
        "h",
        lambda mesh: {"freqs": placed(torch.zeros(12, 1, 1, D), mesh, Shard(3))},
        r"freqs of .* has placements \(Shard\(dim=3\),\)",
    ),
    "rows of longer tables": (
        "s",
        lambda mesh: {"freqs": placed(torch.zeros(12, 1, 1, D), mesh, Shard(0))},
        r"freqs of .* has placements \(Shard\(dim=0\),\)",
    ),
    "a table of each entry": (
        "b",
        lambda mesh: {"freqs": (torch.zeros(4, 12, D), torch.zeros(4, 12, D))},
        r"freqs\[0\] of shape \(4, 12, 8\) is a plain tensor, on mesh \(tp=2\); accepted: a "
        r"DTensor with \(Shard\(dim=0\),\), beside t with \(Shard\(dim=0\),\)",
    ),
    "short for all": ("s", lambda mesh: {"freqs": torch.zeros(3, 1, 1, D)}, "freqs has angles for"),
    "a gradient that is lost": (
        "h",
        lambda mesh: {"freqs": torch.zeros(12, 1, 1, D).requires_grad_(), "inplace": False},
        r"freqs is a plain tensor that requires a gradient, of which each rank of mesh \(tp=2\) "
        r"would have a share; accepted: a DTensor with \(Replicate\(\),\), beside t with "
        r"\(Shard\(dim=2\),\); or freqs.detach\(\)",
    ),
}


def moved(x, device):
    if isinstance(x, tuple):
        return tuple(moved(y, device) for y in x)
    return x.to(device) if isinstance(x, torch.Tensor) and not isinstance(x, DTensor) else x


@cases.for_each(2, BESIDE)
def refused_beside_a_shard(which, device):
    mesh, (letter, options_on, said) = mesh_of(device, 2), BESIDE[which]
    t = torch.randn(4, 4, 4, D, device=device)
    shard = placed(t, mesh, *on("bshd", letter))
    with torch.device(device):
        options = {"freqs": freqs_of("module", device), "inplace": True, **options_on(mesh)}
    options = {name: moved(x, device) for name, x in options.items()}
    if options["freqs"] is not None and which == "a gradient that is lost":
        options["freqs"] = options["freqs"].detach().requires_grad_()
    message = refusal(lambda: apply_rotary_pos_emb(shard, tensor_format="bshd", **options))
    assert re.match(said, message), message
    assert torch.equal(shard.to_local(), part_of(t, mesh, on("bshd", letter)))


@cases.for_each(2)
def refused_in_place_with_a_gradient(device):
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    shard = placed(torch.randn(4, 4, 4, D, device=device), mesh, Shard(2), requires_grad=True)
    before = shard.to_local().clone()
    call = partial(apply_rotary_pos_emb, shard, freqs, "bshd", inplace=True)
    message = refusal(call)
    assert message.startswith("inplace is True, and a DTensor requires a gradient; accepted: in")
    assert torch.equal(shard.to_local(), before)
    with torch.no_grad():
        call()
    assert not torch.equal(shard.to_local(), before)


@cases.for_each(2)
def refused_a_module_that_was_distributed(device):
    """`distribute_module` makes DTensors of buffers, inv_freq among them."""
    mesh = mesh_of(device, 2)
    module = distribute_module(freqs_of("module", device), mesh)
    shard = placed(torch.randn(4, 4, 4, D, device=device), mesh, Shard(2))
    message = refusal(lambda: apply_rotary_pos_emb(shard, module, "bshd"))
    assert message.startswith("freqs has an inv_freq that is a DTensor; accepted: a module that d")


@cases.for_each(2)
def refused_mixtures_of_plain_tensors_and_dtensors(device):
    mesh, freqs = mesh_of(device, 2), freqs_of("angles", device)
    t = torch.randn(4, 4, 4, D, device=device)
    shard = placed(t, mesh, Replicate())
    table = placed(freqs, mesh, Replicate())
    for name, call in (
        ("q is of type Tensor, and k is", lambda: rope_qk(t, shard, freqs, "bshd")),
        ("k is of type Tensor, and q is", lambda: rope_qk(shard, t, freqs, "bshd")),
        ("t is of type Tensor, and freqs is", lambda: apply_rotary_pos_emb(t, table, "bshd")),
    ):
        message = refusal(call, TypeError)
        assert message.startswith(f"{name} a DTensor on mesh (tp=2); accepted: "), message


@cases.for_each(2)
def refused_shards_of_another_size(device):
    """What from_local makes of uneven shards, if it is not told the shape."""
    mesh, freqs = mesh_of(device, 2), freqs_of("module", device)
    heads = 3 - mesh.get_local_rank(0)
    shard = DTensor.from_local(torch.randn(2, 4, heads, D, device=device), mesh, [Shard(2)])
    if heads == 3:
        return apply_rotary_pos_emb(shard, freqs, "bshd")  # rank 0 cannot know
    wrong = DTensor.from_local(
        shard.to_local(), mesh, [Shard(2)], shape=(2, 4, 5, D), stride=(20 * D, 5 * D, D, 1)
    )
    assert_placed(apply_rotary_pos_emb(wrong, freqs, "bshd"), whole_like(wrong, freqs), [Shard(2)])


def whole_like(x, freqs):
    whole = torch.zeros(x.shape, device=x.device)
    whole[:, :, 3:] = x.to_local()
    return apply_rotary_pos_emb(whole, freqs, "bshd")


@cases.for_each(2)
def refused_another_mesh(device):
    mesh, other = mesh_of(device, 2), mesh_of(device, 1, 2)
    freqs = freqs_of("module", device)
    q = placed(torch.randn(4, 4, 4, D, device=device), mesh, Shard(2))
    k = placed(torch.randn(4, 4, 4, D, device=device), other, Replicate(), Shard(2))
    message = refusal(lambda: rope_qk(q, k, freqs, "bshd"))
    assert message == "k is on mesh (dp=1, tp=2); accepted: the mesh of q, mesh (tp=2)"
    table = placed(freqs(12), other, Replicate(), Replicate())
    message = refusal(lambda: apply_rotary_pos_emb(q, table, "bshd"))
    assert message == "freqs is on mesh (dp=1, tp=2); accepted: the mesh of t, mesh (tp=2)"


# Four ranks


@cases.for_each(4, DENSE, ("bh", "sh", "hs", "ss", "-h", "hh"), ("module", "cos sin"))
def a_mesh_of_two_dimensions(tensor_format, letters, kind, device):
    mesh, placements = mesh_of(device, 2, 2), on(tensor_format, letters)
    q, k, *gradients = (torch.randn(shape_of(tensor_format), device=device) for _ in range(4))
    rotate = partial(rope_qk, freqs=freqs_of(kind, device), tensor_format=tensor_format)
    check_both_ways(rotate, [q, k], gradients, mesh, placements)


@cases.for_each(4, ("b", "s", "h"), (5, 6))
def uneven_and_empty_shards(letter, size, device):
    """6 on 4 ranks are 2, 2, 2 and none."""
    mesh, placements = mesh_of(device, 4), on("bshd", letter)
    sizes = {"b": 2, "s": 4, "h": 2} | {letter: size}
    t = torch.randn(shape_of("bshd", **sizes), device=device)
    rotate = partial(apply_rotary_pos_emb, freqs=freqs_of("angles", device), tensor_format="bshd")
    check_both_ways(rotate, [t], [torch.ones_like(t)], mesh, placements)


@cases.for_each(4, ("ss", "s-", "-s", "sh"))
def packed_tokens_on_a_mesh(letters, device):
    mesh, placements = mesh_of(device, 2, 2), on("thd", letters)
    t = torch.randn(11, 4, D, device=device)
    cu_seqlens = torch.tensor([0, 2, 2, 9], device=device)
    rotate = partial(
        apply_rotary_pos_emb,
        freqs=freqs_of("module", device),
        tensor_format="thd",
        cu_seqlens=cu_seqlens,
    )
    want, shard = rotate(t), placed(t, mesh, *placements)
    assert_placed(silently(lambda: rotate(shard)), want, placements)


@cases.for_each(4)
def a_mesh_that_does_not_fit(device):
    """6 heads of q and 2 of k on 4 ranks: every rank says the same, and none waits."""
    mesh, freqs = mesh_of(device, 4), freqs_of("module", device)
    q, k = q_and_k(mesh, [Shard(2)], [Shard(2)], 8, 2)
    message = refusal(lambda: rope_qk(q, k, freqs, "bshd"))
    assert message.startswith("q and k have 8 and 2 heads, sharded on mesh (tp=4); accepted: ")
