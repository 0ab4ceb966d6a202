"""A DTensor in a call is refused by the name of its argument, and what to do instead works."""

import re
import time
from textwrap import dedent

import pytest
import torch

from rope_kernels import (
    RotaryPositionEmbedding,
    apply_rotary_pos_emb,
    cp_positions,
    norm_rope,
    qk_norm_rope,
    rope_bw,
    rope_fw,
    rope_qk,
    rope_to_cache,
    split_qkv_rope,
)

D = 8


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Of one rank, which is enough to make a DTensor."""
    if not torch.distributed.is_available():
        pytest.skip("needs torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh

    store = f"file://{tmp_path_factory.mktemp('mesh') / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    time.sleep(0.5)  # as in tests/embedding/test_turns.py
    torch.distributed.destroy_process_group()


def shard_of(x, mesh, dim=0):
    from torch.distributed.tensor import DTensor, Shard

    return DTensor.from_local(x, mesh, [Shard(dim)], run_check=False)


def arguments_of():
    """Of each function all its tensors, by the names of their arguments."""
    q, k, table = torch.randn(4, 2, 2, D), torch.randn(4, 2, 1, D), torch.randn(4, 1, 1, D)
    packed, bounds = torch.randn(4, 2, D), torch.tensor([0, 1, 4])
    weights = {"q_weight": torch.ones(D), "k_weight": torch.ones(D)}
    cache = torch.zeros(2, 4, 2, D)
    return {
        apply_rotary_pos_emb: {"t": q, "freqs": table, "start_positions": torch.zeros(2).long()},
        rope_fw: {"t": q, "freqs": table[:, 0, 0], "position_ids": torch.zeros(2, 4).long()},
        rope_bw: {"grad": packed, "freqs": table, "cu_seqlens": bounds},
        rope_qk: {"q": q, "k": k, "freqs": table},
        norm_rope: {"t": q, "weight": torch.ones(D), "freqs": table},
        qk_norm_rope: {"q": q, "k": k, **weights, "freqs": table},
        split_qkv_rope: {"qkv": torch.randn(4, 2, 4 * D), "freqs": table},
        rope_to_cache: {
            **{name: packed.clone() for name in "qkv"},
            "k_cache": cache,
            "v_cache": cache.clone(),
            "slot_mapping": torch.tensor([0, 3, 5, 6]),
            "freqs": table,
            "position_ids": torch.zeros(4).long(),
        },
        cp_positions: {"cu_seqlens": torch.tensor([0, 4, 8])},
    }


OPTIONS = {
    rope_bw: {"tensor_format": "thd"},
    split_qkv_rope: {"num_heads": 2, "num_kv_heads": 1},
    cp_positions: {"cp_size": 2, "cp_rank": 0},
}
EACH = [(function, name) for function, given in arguments_of().items() for name in given]
TAKES_FREQS = [function for function in arguments_of() if function is not cp_positions]
each = pytest.mark.parametrize("function,name", EACH, ids=[f"{f.__name__} {n}" for f, n in EACH])


@each
@pytest.mark.parametrize("fused", (True, False))
def test_any_tensor_of_a_call(function, name, fused, mesh):
    given, options = arguments_of()[function], OPTIONS.get(function, {})
    if function is rope_fw:
        given["freqs"] = given["freqs"].cos(), given["freqs"].sin()
    if function is not cp_positions:
        options = options | {"fused": fused}
    function(**given, **options)  # the call is right, but for the DTensor
    if isinstance(given[name], tuple):
        given[name], named = (shard_of(given[name][0], mesh), given[name][1]), f"{name}[0]"
    else:
        given[name], named = shard_of(given[name], mesh), name
    with pytest.raises(TypeError, match=rf"^{re.escape(named)} is a DTensor; accepted: "):
        function(**given, **options)


@pytest.mark.parametrize("function", TAKES_FREQS)
def test_frequencies_of_a_module(function, mesh):
    """As `distribute_module` leaves them."""
    rope = RotaryPositionEmbedding(D)
    rope.inv_freq = shard_of(rope.inv_freq, mesh)
    given, options = arguments_of()[function] | {"freqs": rope}, OPTIONS.get(function, {})
    with pytest.raises(TypeError, match=r"^freqs\.inv_freq is a DTensor; accepted: "):
        function(**given, **options)


@pytest.mark.parametrize("fused", (True, False))
@pytest.mark.parametrize("name", ("q", "k"))
def test_nothing_is_written(name, fused, mesh):
    """Neither in place nor into a cache, whichever of the tensors comes first."""
    rope, (q, k) = RotaryPositionEmbedding(D), torch.randn(2, 4, 2, 2, D)
    given, before = {"q": q, "k": k}, (q.clone(), k.clone())
    options = {"freqs": rope, "inplace": True, "fused": fused}
    with torch.no_grad(), pytest.raises(TypeError, match="is a DTensor"):
        rope_qk(**given | {name: shard_of(given[name], mesh)}, **options)
    assert torch.equal(q, before[0]) and torch.equal(k, before[1])
    given = arguments_of()[rope_to_cache]
    rows = given["q"].clone()
    with pytest.raises(TypeError, match="is a DTensor"):
        rope_to_cache(**given | {name: shard_of(given[name], mesh)}, inplace=True)
    assert torch.equal(given["q"], rows)
    assert not given["k_cache"].any() and not given["v_cache"].any()


def within_func(call):
    return lambda x: torch.func.grad(lambda x: call(x).sum())(x)


def within_vmap(call):
    return torch.func.vmap(call)


def compiled(call):
    return torch.compile(call, backend="eager", fullgraph=True)


@pytest.mark.parametrize("within", (within_func, within_vmap, compiled))
def test_within_a_transform_or_a_graph(within, mesh):
    rope, t = RotaryPositionEmbedding(D), shard_of(torch.randn(2, 4, 2, 2, D), mesh, 3)
    t = t if within is within_vmap else t[0]
    with pytest.raises(Exception, match="is a DTensor; accepted: "):
        within(lambda x: apply_rotary_pos_emb(x, rope))(t)
    torch._dynamo.reset()


def test_what_the_message_shows_works(mesh):
    """Its two lines, with the bits of the whole, forward and backward."""
    freqs = RotaryPositionEmbedding(D)
    whole = [torch.randn(4, 2, heads, D, requires_grad=True) for heads in (4, 2)]
    q, k = (shard_of(x, mesh, 2) for x in whole)
    with pytest.raises(TypeError) as refused:
        rope_qk(q, k, freqs)
    _, *lines = str(refused.value).splitlines()
    assert len(lines) == 2
    found = {"rope_qk": rope_qk, "q": q, "k": k, "freqs": freqs}
    exec(dedent("\n".join(lines)), found)
    rotated, want = (found["q"], found["k"]), rope_qk(*whole, freqs)
    assert [x.placements for x in rotated] == [x.placements for x in (q, k)]
    outs, ones = [x.full_tensor() for x in rotated], [torch.ones_like(x) for x in want]
    grads = torch.autograd.grad(outs, whole, ones), torch.autograd.grad(want, whole, ones)
    for got, wanted in ((outs, want), grads):
        assert all(map(torch.equal, got, wanted))
