"""`rope_to_cache`: slots and results. Values, in every layout of a cache, are in `test_ops.py`."""

import pytest
import torch

from ops import BF16, OPS
from rope_kernels import rope_qk
from yardstick import assert_near

(OP,) = (op for op in OPS if op.name == "rope_to_cache")


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
        assert ((here == rows[2]) | (here == rows[7])).all()  # each element is one of the two
        want[block, place] = here.double()
        assert_near(got, want)


@pytest.mark.parametrize("name", ("k_cache", "v_cache"))
def test_a_cache_may_be_less_aligned_than_all_else(name, device):
    """Its rows of 144 bytes are 152 bytes apart, which 16 doesn't divide. All others are packed."""
    sample = OP.sample(device, dtype=BF16, d=72)
    cache = sample.written[name]
    wider = torch.zeros(*cache.shape[:-1], 76, dtype=BF16, device=device)
    sample.written[name] = wider[..., :72].copy_(cache)
    sample.check()


@pytest.mark.gpu
def test_a_slot_outside_the_cache_is_not_written():
    """On a CPU, where values can be read, it is an error."""
    sample = OP.sample("cuda")
    sample.slots[3] = sample.BLOCKS * sample.PAGE
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
