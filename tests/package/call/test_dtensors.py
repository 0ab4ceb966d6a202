"""A DTensor in a call is refused by the name of its argument, and what to do instead works."""

import re
import time
from textwrap import dedent

import pytest
import torch

from ops import OPS, all_equal, bits_of
from rope_kernels import RotaryPositionEmbedding, cp_positions, rope_qk
from test_ops_memory import call, tensors_of

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
    # Gloo's thread wants the GIL to drop its last work. The group's destructor would wait for that
    # thread with the GIL held, for ever.
    time.sleep(0.5)
    torch.distributed.destroy_process_group()


def shard_of(x, mesh, dim=0):
    from torch.distributed.tensor import DTensor, Shard

    return DTensor.from_local(x, mesh, [Shard(dim)], run_check=False)


CASES = {  # a function with each kind of table, and each way to say where tokens are
    "apply_rotary_pos_emb": {"positions": "starts"},
    "rope_fw": {"positions": "ids", "freqs": "cos and sin"},
    "rope_bw": {"tensor_format": "thd"},
}


def good_call(op):
    return op.sample("cpu", **CASES.get(op.name, {}))


EACH = [(op, name) for op in OPS for name in tensors_of(good_call(op))]


@pytest.mark.parametrize("op,name", EACH, ids=[f"{op} {name}" for op, name in EACH])
@pytest.mark.parametrize("fused", (True, False))
def test_any_tensor_of_a_call(op, name, fused, mesh):
    """Nothing is written, in place or into a cache, whichever of the tensors comes first."""
    sample = good_call(op)
    tensors = tensors_of(sample)
    before = bits_of(tensors.values())
    given = tensors | {name: shard_of(tensors[name].clone(), mesh)}
    with pytest.raises(TypeError, match=rf"^{re.escape(name)} is a DTensor; accepted: "):
        call(sample, given, fused=fused)
    assert all_equal(bits_of(tensors.values()), before)


@pytest.mark.parametrize("op", OPS, ids=str)
def test_frequencies_of_a_module(op, mesh):
    """As `distribute_module` leaves them."""
    rope = RotaryPositionEmbedding(20)
    rope.inv_freq = shard_of(rope.inv_freq, mesh)
    with pytest.raises(TypeError, match=r"^freqs\.inv_freq is a DTensor; accepted: "):
        good_call(op).call(freqs=rope)


def test_the_sequences_of_a_rank(mesh):
    with pytest.raises(TypeError, match=r"^cu_seqlens is a DTensor; accepted: "):
        cp_positions(cp_size=2, cp_rank=0, cu_seqlens=shard_of(torch.tensor([0, 4, 8]), mesh))


def test_what_the_message_shows_works(mesh):
    """Its two lines, with the bits of the whole, forward and backward."""
    freqs = RotaryPositionEmbedding(D)
    whole = [torch.randn(4, 2, heads, D, requires_grad=True) for heads in (4, 2)]
    q, k = (shard_of(x, mesh, 2) for x in whole)
    with pytest.raises(TypeError) as refused:
        rope_qk(q, k, freqs, "sbhd")
    _, *lines = str(refused.value).splitlines()
    assert len(lines) == 2
    found = {"rope_qk": rope_qk, "q": q, "k": k, "freqs": freqs, "tensor_format": "sbhd"}
    exec(dedent("\n".join(lines)), found)
    rotated, want = (found["q"], found["k"]), rope_qk(*whole, freqs, "sbhd")
    assert [x.placements for x in rotated] == [x.placements for x in (q, k)]
    outs, ones = [x.full_tensor() for x in rotated], [torch.ones_like(x) for x in want]
    grads = torch.autograd.grad(outs, whole, ones), torch.autograd.grad(want, whole, ones)
    for got, wanted in ((outs, want), grads):
        assert all(map(torch.equal, got, wanted))
