"""What every public function promises, asked of all of them: `ops.py` says what they are."""

import pytest
import torch

from norm_yardstick import assert_as_in_new_memory
from ops import FEW, OPS, all_equal, bits_of, name_of

LARGE = {  # sizes of models, which choose other tiles
    "d": (32, 64, 80, 92, 96, 112, 120, 128, 160, 192, 256, 512, 30, 100),
    "s": (1, 2, 7, 128, 131, 423, 2048, 8192),
}
HEADS = {1: ((1,), (17,), (41,), (64,)), 2: ((32, 8), (28, 4), (73, 155), (128, 1))}


def of_each(*ops, **more):
    """Parametrize a test by every case of these functions."""
    cases = [(op, case) for op in ops for case in op.cases(**more)]
    names = [f"{op}: {name_of(case)}" for op, case in cases]
    return pytest.mark.parametrize("op, case", cases, ids=names)


@of_each(*OPS)
def test_values_and_gradients(op, case, device):
    op.sample(device, **case).check()


@pytest.mark.gpu
@pytest.mark.parametrize("op", [op for op in OPS if len(op.tensors) in HEADS], ids=str)
def test_values_and_gradients_of_large_tensors(op):
    heads = op.cases()[0]["heads"]
    more = LARGE | ({"heads": HEADS[len(heads)]} if op.name != "split_qkv_rope" else {})
    for case in op.cases(**more):
        op.sample("cuda", **case).check()


IN_PLACE = [op for op in OPS if op.inplace]
LAYOUTS = "contiguous", "transposed", "head_dim_strided", "packed_qkv", "one_element_in"


@pytest.mark.parametrize("fused", (True, False), ids=("kernel", "PyTorch"))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("few", range(len(FEW)))
@pytest.mark.parametrize("op", IN_PLACE, ids=str)
def test_in_place_is_as_in_new_memory_and_touches_nothing_else(op, few, layout, fused, device):
    case = FEW[few] | {"layout": layout, "fused": fused, "output_pairing": "same"}
    sample = op.sample(device, **case)
    names = dict.fromkeys(op.tensors)
    before, values = bits_of(sample.tensors()), {n: sample.given[n].clone() for n in names}
    wanted = sample.call()
    with torch.no_grad():
        outs = sample.call(inplace=True)
    for name, out, want in zip(op.inplace, outs, wanted, strict=False):
        assert out is sample.given[name]
        assert_as_in_new_memory(out, want)
        assert not torch.equal(out, values[name])
    for out, want in zip(outs[len(op.inplace) :], wanted[len(op.inplace) :], strict=True):
        assert torch.equal(out, want)
    for name in op.inplace:
        sample.given[name].copy_(values[name])
    assert all_equal(bits_of(sample.tensors()), before), "memory beside it was written to"
