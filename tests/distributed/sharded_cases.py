"""Calls with DTensors against one process: bits, placements, and no communication."""

import re
from functools import partial

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module

from on_a_mesh import (
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
    qk_norm_rope,
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


def shape_of(tensor_format, s=4, b=2, h=2, d=D):
    sizes = {"s": s, "b": b, "h": h, "d": d, "t": s}
    return [sizes[letter] for letter in tensor_format]


def freqs_of(kind, device, s2=12, b=2):
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


FUNCTIONS = {  # of q and k, with the kind of freqs or the rounding of a norm
    "by a module": (rope_qk, "module"),
    "by angles": (rope_qk, "angles"),
    "by cos and sin": (rope_qk, "cos sin"),
    "with a norm": (qk_norm_rope, "once"),
    "with a model's norm": (qk_norm_rope, "model"),
}
SIZES = {"even": {}, "uneven": {"s": 5, "b": 3, "h": 3}}


def of_q_and_k(which, tensor_format, device):
    """A function of q and k, and of the weights that come with it."""
    function, kind = FUNCTIONS[which]
    if function is rope_qk:
        freqs = freqs_of(kind, device)
        return partial(rope_qk, freqs=freqs, tensor_format=tensor_format), []
    options = {"freqs": freqs_of("module", device), "tensor_format": tensor_format}
    weights = [torch.rand(D, device=device) for _ in range(2)]
    return partial(qk_norm_rope, rounding=kind, **options), weights


@cases.for_each(2, DENSE, "bsh", FUNCTIONS, SIZES)
def shards_of_q_and_k(tensor_format, letter, which, sizes, device):
    mesh, placements = mesh_of(device, 2), on(tensor_format, letter)
    shape = shape_of(tensor_format, **SIZES[sizes])
    q, k, *gradients = (torch.randn(shape, device=device) for _ in range(4))
    run, weights = of_q_and_k(which, tensor_format, device)
    check_both_ways(run, [q, k], gradients, mesh, placements, weights)


ROWS = {"angles": 0, "per pair": 0, "cos sin": 0, "cos sin of each": 1}  # their dimension
REPLICATED = [
    (kind, letter, "whole") for kind in ("angles", "cos sin", "per pair") for letter in "bsh"
]
CUT = [(kind, "s", "cut") for kind in ("angles", "cos sin", "cos sin of each")]


@cases.for_each(2, [*REPLICATED, ("cos sin of each", "b", "whole"), *CUT])
def gradients_of_a_table(kind_letter_and_rows, device):
    """Replicated, with a part for each entry, or cut with the sequence, which may be uneven."""
    kind, letter, rows = kind_letter_and_rows
    mesh, placements = mesh_of(device, 2), on("bshd", letter)
    s = 5 if rows == "cut" else 4
    t, given = (torch.randn(shape_of("bshd", s=s), device=device) for _ in range(2))
    freqs = freqs_of(kind, device, s2=s if rows == "cut" else 12)
    tables = [freqs] if isinstance(freqs, torch.Tensor) else [*freqs]
    rebuilt = type(freqs) if kind == "per pair" else lambda *x: x if len(x) > 1 else x[0]
    leaves = [x.clone().requires_grad_() for x in tables]
    out = apply_rotary_pos_emb(t, rebuilt(*leaves), "bshd")
    wanted = torch.autograd.grad(out, leaves, given)
    of_table = of_gradient = Shard(ROWS[kind] if rows == "cut" else 0)
    if rows == "whole" and kind != "cos sin of each":
        of_table, of_gradient = Replicate(), Partial()
    mine = [placed(x, mesh, of_table, requires_grad=True) for x in tables]
    shard, of_out = placed(t, mesh, *placements), placed(given, mesh, *placements)

    def run():
        out = apply_rotary_pos_emb(shard, rebuilt(*mine), "bshd")
        return out, torch.autograd.grad(out, mine, of_out)

    got, of_mine = silently(run)
    assert_placed(got, out, placements)
    for x, want in zip(of_mine, wanted, strict=True):
        assert x.placements == (of_gradient,) and x.shape == want.shape
        torch.testing.assert_close(x.full_tensor(), want)


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
    t = torch.randn(9 if letter == "s" else 8, 2, D, device=device)
    cu_seqlens = torch.tensor(bounds, device=device)
    options = {"cu_seqlens": cu_seqlens, "start_positions": start}
    freqs = freqs_of(kind, device)
    rotate = partial(apply_rotary_pos_emb, freqs=freqs, tensor_format="thd", **options)
    check_both_ways(rotate, [t], [torch.ones_like(t)], mesh, placements)


POSITIONS = {  # the dimensions of a DTensor beside t, by letters; '-': every rank has all of it
    "int": "",
    "starts": "",
    "sharded starts": "b",
    "ids": "bs",
    "shared ids": "-s",
    "ids on axes": "-bs",
    "shared ids on axes": "--s",
    "ids of packed tokens": "s",
    "packed ids on axes": "-s",
}
LETTERS = ("b 4", "s 4", "s 5", "h 2")


@cases.for_each(2, [x for x in POSITIONS if "packed" not in x], LETTERS)
@cases.for_each(2, [x for x in POSITIONS if "packed" in x], ("s 7",))
def given_positions(kind, letter_and_size, device):
    """A start is added to the offset of a shard; ids are sharded as the tokens are."""
    letter, size = letter_and_size[0], int(letter_and_size[-1])
    tensor_format, dims = "thd" if "packed" in kind else "bshd", POSITIONS[kind]
    sizes = {"s": 3, "b": 4} | {letter: size}
    mesh, placements = mesh_of(device, 2), on(tensor_format, letter)
    t, freqs = (
        torch.randn(shape_of(tensor_format, **sizes), device=device),
        freqs_of("angles", device),
    )
    if "axes" in kind:
        freqs = RotaryPositionEmbedding(D, axes=[0, 1, 2, 0]).to(device)
        dims = dims.replace("-", "a", 1)
    name, x = "start_positions", torch.tensor([3, 0, 7, 2], device=device, dtype=torch.int8)
    if kind == "int":
        x = 5
    elif "ids" in kind:
        count = {"a": 3, "-": 1, **sizes}
        name, x = "position_ids", torch.randint(0, 12, [count[y] for y in dims], device=device)
    mine = x
    if dims:
        of_x = Shard(dims.index(letter)) if letter in dims else Replicate()
        mine = placed(x, mesh, of_x)
    want = apply_rotary_pos_emb(t, freqs, tensor_format, **{name: x})
    shard = placed(t, mesh, *placements)
    got = silently(lambda: apply_rotary_pos_emb(shard, freqs, tensor_format, **{name: mine}))
    assert_placed(got, want, placements)


@cases.for_each(2, ("zigzag", "contiguous", "round_robin"))
def heads_of_a_rank_of_context_parallelism(cp_order, device):
    mesh = mesh_of(device, 2)
    t, freqs = torch.randn(2, 4, 2, D, device=device), freqs_of("module", device)
    options = {"cp_size": 3, "cp_rank": 1, "cp_order": cp_order}
    out = apply_rotary_pos_emb(t, freqs, "bshd", **options)
    shard = placed(t, mesh, Shard(2))
    got = silently(lambda: apply_rotary_pos_emb(shard, freqs, "bshd", **options))
    assert_placed(got, out, [Shard(2)])


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
        r"q of shape \(2, 4, 4, 8\) has placements \(Shard\(dim=3\),\) on mesh \(tp=2\); accepted: "
        r"on each dimension of a mesh Replicate\(\), Shard\(0\) \(batch\), Shard\(1\) "
        r"\(sequence\), Shard\(2\) \(heads\)",
    ),
    "partial sums": (
        ([Partial()], [Partial()], 4, 4),
        r"q of .* has placements \(Partial\(sum\),\) on mesh \(tp=2\)",
    ),
    "replicated keys": (
        ([Shard(2)], [Replicate()], 4, 2),
        r"k of shape \(2, 4, 2, 8\) has placements \(Replicate\(\),\) on mesh \(tp=2\); accepted: "
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
    for heads in ((5, 5), (8, 2), (1, 1)):
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


# Four ranks


@cases.for_each(
    4, ("bshd bh", "bhsd sh", "sbhd hs", "bhsd ss", "sbhd -h", "bshd hh"), ("by a module",)
)
@cases.for_each(4, ("bhsd bh", "sbhd sh", "bshd ss"), ("by cos and sin",))
@cases.for_each(4, ("bshd -h", "bhsd hs", "sbhd ss"), ("with a norm",))
def a_mesh_of_two_dimensions(format_and_letters, which, device):
    tensor_format, letters = format_and_letters.split()
    mesh, placements = mesh_of(device, 2, 2), on(tensor_format, letters)
    h = 4 if letters == "hh" else 2
    q, k, *gradients = (torch.randn(shape_of(tensor_format, h=h), device=device) for _ in range(4))
    run, weights = of_q_and_k(which, tensor_format, device)
    check_both_ways(run, [q, k], gradients, mesh, placements, weights)


@cases.for_each(4, ("ss", "s-", "-s", "sh"))
def packed_tokens_on_a_mesh(letters, device):
    mesh, placements = mesh_of(device, 2, 2), on("thd", letters)
    t, freqs = torch.randn(11, 2, D, device=device), freqs_of("module", device)
    options = {"tensor_format": "thd", "cu_seqlens": torch.tensor([0, 2, 2, 9], device=device)}
    rotate = partial(apply_rotary_pos_emb, freqs=freqs, **options)
    want, shard = rotate(t), placed(t, mesh, *placements)
    assert_placed(silently(lambda: rotate(shard)), want, placements)


@cases.for_each(4)
def a_mesh_that_does_not_fit(device):
    """8 heads of q and 2 of k on 4 ranks: every rank says the same, and none waits."""
    mesh, freqs = mesh_of(device, 4), freqs_of("module", device)
    q, k = q_and_k(mesh, [Shard(2)], [Shard(2)], 8, 2)
    message = refusal(lambda: rope_qk(q, k, freqs, "bshd"))
    assert message.startswith("q and k have 8 and 2 heads, sharded on mesh (tp=4); accepted: ")
