"""`rope_to_cache` under torch.compile: an operator that says what it overwrites."""

import pytest
import torch

from pairwise import cover
from rope_kernels import RotaryPositionEmbedding, rope_to_cache

T, HEADS, KV_HEADS, D = 5, 4, 2, 16


def inputs(device):
    q = torch.randn(T, HEADS, D, device=device)
    k, v = torch.randn(2, T, KV_HEADS, D, device=device)
    caches = torch.zeros(2, 3, 4, KV_HEADS, D, device=device).unbind()
    slots = torch.randperm(12, device=device)[:T]
    return q, k, v, [x.clone() for x in caches], slots, torch.arange(T, device=device)


@cover(inplace=(False, True), return_k=(False, True))
def test_compiled_as_eager(inplace, return_k, device, needs_triton):
    rope = RotaryPositionEmbedding(D).to(device)
    options = {"inplace": inplace, "return_k": return_k}

    def step(q, k, v, caches, slots, ids):
        found = rope_to_cache(q * 1, k, v, rope, *caches, slots, position_ids=ids, **options)
        q1, *more = found if return_k else (found,)
        return (q1 + caches[0].sum(), *more)  # reads what was written

    given = inputs(device)
    own = [[y.clone() for y in x] if isinstance(x, list) else x.clone() for x in given]
    wanted = step(*given)
    got = torch.compile(step, backend="aot_eager", fullgraph=True)(*own)
    torch.testing.assert_close(got, wanted)
    for x, y in zip(own[3], given[3], strict=True):
        torch.testing.assert_close(x, y)
        assert x.any()


def test_a_gradient_is_refused_when_it_is_traced(device, needs_triton):
    rope = RotaryPositionEmbedding(D).to(device)
    q, k, v, caches, slots, ids = inputs(device)

    def step(q):
        return rope_to_cache(q, k, v, rope, *caches, slots, position_ids=ids)

    with pytest.raises(Exception, match="requires a gradient"):
        torch.compile(step, backend="aot_eager", fullgraph=True)(q.requires_grad_())


def test_what_is_written_is_checked_when_it_runs(device, needs_triton):
    """A trace knows neither memory nor values."""
    rope = RotaryPositionEmbedding(D).to(device)
    q, k, v, caches, slots, ids = inputs(device)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(v, k_cache, v_cache, slots):
        return rope_to_cache(q, k, v, rope, k_cache, v_cache, slots, position_ids=ids)

    pool = torch.zeros(4, 4, KV_HEADS, D, device=device)
    with pytest.raises(ValueError, match="k_cache shares memory with v_cache"):
        step(v, pool[:3], pool[1:], slots)
    torch._dynamo.reset()  # or the second call gets the first one's shared memory
    if device == "cpu":
        with pytest.raises(ValueError, match="slot_mapping has 99"):
            step(v, *caches, slots + 99 - slots.max())
    assert not any(x.any() for x in (pool, *caches))


@pytest.mark.skipif(
    torch.cuda.is_available(), reason="there no operator of ours runs on a CPU, to look at values"
)
def test_a_position_past_the_table_is_an_error_when_the_graph_runs(needs_triton):
    """And nothing is written."""
    q, k, v, caches, slots, ids = inputs("cpu")
    freqs = RotaryPositionEmbedding(D)(T)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(ids):
        return rope_to_cache(q, k, v, freqs, *caches, slots, position_ids=ids)

    with pytest.raises(ValueError, match=f"s2 = {T} positions; the last position in use needs"):
        step(ids + 1)
    assert not any(x.any() for x in caches)
    step(ids)


def test_the_operator_passes_opcheck(device, needs_triton):
    from rope_kernels.autograd import operators
    from rope_kernels.call.rotation import Rotation

    q, k, v, caches, slots, ids = inputs(device)
    rope = RotaryPositionEmbedding(D).to(device)
    rotation = Rotation(rope.turns(None), position_ids=ids, tensor_format="thd")
    values = operators._values_of(rotation)
    outs = torch.empty_like(q), torch.empty_like(k)
    given = q, k, *outs, v, *caches, slots, *values
    torch.library.opcheck(operators._rope_to_cache_op, given)
