"""`rope_to_cache`: slots and results. Values, in every layout of a cache, are in `test_ops.py`."""

import pytest
import torch

from ops import BF16, OPS, all_equal
from rope_kernels import rope_qk
from yardstick import assert_near

(OP,) = (op for op in OPS if op.name == "rope_to_cache")


def caches_of(sample):
    return [*sample.written.values()]


def test_a_slot_that_occurs_twice_harms_no_other(device):
    sample = OP.sample(device)
    sample.slots[7] = sample.slots[2]
    block, place = divmod(int(sample.slots[2]), sample.PAGE)
    _, *caches = sample.call()
    options = {**sample.options(), "tensor_format": "thd"}
    del options["slot_mapping"]
    _, k = rope_qk(sample.given["q"], sample.given["k"], sample.freqs, **options)
    for rows, got, want in zip((k, sample.given["v"]), caches, sample.defined()[1:], strict=True):
        here = got[block, place]
        same = [(here[h] == rows[t, h]).all() for h in range(len(here)) for t in (2, 7)]
        assert sum(same) == len(here)  # of each head one of the two
        want[block, place] = here.double()
        assert_near(got, want)


def test_a_slot_outside_the_cache(device):
    """An error where values can be read; never a write."""
    sample = OP.sample(device)
    before = [x.clone() for x in caches_of(sample)]
    sample.slots[3] = sample.BLOCKS * sample.PAGE
    if device == "cpu":
        with pytest.raises(ValueError, match=r"slot_mapping has 24; accepted: slots below 24"):
            sample.call(written=sample.written)
        assert all_equal(caches_of(sample), before)
        return
    outs = sample.call()
    sample.slots[3] = -1
    sample.check_values(outs)


@pytest.mark.gpu
def test_compiled_in_place_after_a_call_that_was_not():
    """Its graph hands over a copy of q, with strides that new memory has not."""
    sample = OP.sample("cuda", dtype=BF16)
    q = sample.given["q"].transpose(0, 1).contiguous().transpose(0, 1)
    compiled = torch.compile(sample.call, fullgraph=True)
    for inplace in (False, False, True):
        sample.check_values(compiled(given={"q": q.clone()}, inplace=inplace))


@pytest.mark.gpu
def test_in_a_cuda_graph():
    sample = OP.sample("cuda", dtype=BF16)
    for _ in range(2):
        sample.call(written=sample.written, inplace=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sample.call(written=sample.written, inplace=True)
    for x in (*sample.given.values(), *caches_of(sample)):
        x.normal_()
    sample.slots.copy_(torch.randperm(sample.BLOCKS * sample.PAGE)[: len(sample.slots)])
    wants = sample.defined()
    graph.replay()
    for got, want in zip((sample.given["q"], *caches_of(sample)), wants, strict=True):
        assert_near(got, want, want.abs().max())
