"""`rope_to_cache`: slots and results. Values, in every layout of a cache, are in `test_ops.py`."""

import pytest
import torch

from ops import BF16, OPS, all_equal
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


def test_nothing_is_read_back_in_plain_pytorch():
    """A CUDA graph takes it, and tensors without memory do."""
    sample = OP.sample("cpu")
    sample.given, sample.written = (
        {name: x.to("meta") for name, x in of.items()} for of in (sample.given, sample.written)
    )
    sample.freqs, sample.slots = sample.freqs.to("meta"), sample.slots.to("meta")
    sample.where = {name: x.to("meta") for name, x in sample.where.items()}
    assert sample.call(fused=False)[0].shape == sample.given["q"].shape


def test_a_derivative_through_vmap_is_refused(device):
    """A batched tensor doesn't say that it requires a gradient."""
    sample = OP.sample(device)
    many = torch.stack([sample.given["q"]] * 2).requires_grad_()
    with pytest.raises(ValueError, match=r"^q requires a gradient"):
        torch.func.vmap(lambda q: sample.call({"q": q})[0])(many)


@pytest.mark.parametrize("fused", (True, False))
@pytest.mark.parametrize("slots", (torch.full((15,), -1), torch.zeros(0, dtype=torch.int64)))
def test_without_any_slot_nothing_is_written(slots, fused, device):
    sample = OP.sample(device)
    sample.slots = slots.to(device)
    assert all_equal(sample.check(fused=fused)[1:], sample.written.values())


@pytest.mark.gpu
def test_a_slot_outside_the_cache_is_not_written():
    """On a CPU, where values can be read, it is an error."""
    sample = OP.sample("cuda")
    sample.slots[3] = sample.BLOCKS * sample.PAGE
    outs = sample.call()
    sample.slots[3] = -1
    sample.check_values(outs)


def test_compiled_in_place_after_a_call_that_was_not(interpreter, device):
    """Its graph hands over a copy of q, with strides that new memory has not."""
    torch._dynamo.reset()
    sample = OP.sample(device, dtype=BF16)
    q = sample.given["q"].transpose(0, 1).contiguous().transpose(0, 1)
    compiled = torch.compile(sample.call, backend="aot_eager", fullgraph=True)
    for inplace in (False, False, True):
        sample.check_values(compiled(given={"q": q.clone()}, inplace=inplace))
