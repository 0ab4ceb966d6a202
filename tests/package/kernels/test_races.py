"""The same bits in every run: nothing is left unwritten, nothing is read after it was overwritten.

New memory is filled with NaN before it is written (PyTorch does that on request). On a GPU every
call runs a thousand times, and with more warps than it asks for: warps of one program that shared
an element would overwrite each other's inputs. The interpreter runs one program after the other, so
on a CPU only a race between programs can show: there they run in reverse order too.
"""

from dataclasses import replace

import pytest
import torch

from launches import in_order
from ops import FEW, OPS
from rope_lab.compiler.launches import launched_by

pytestmark = pytest.mark.usefixtures("new_memory_is_nan")

RUNS = 1000
BF16 = torch.bfloat16
IN_PLACE = {op.name: op for op in OPS if op.inplace}
CASES = {  # what is called, in place, with more rows than the table's, or wider ones
    "many rows": ("rope_fw", {"dtype": BF16, "s": 64, "heads": (16,), "d": 128}),
    "q and k": (
        "rope_qk",
        {"dtype": BF16, "tensor_format": "bshd", "s": 20, "heads": (8, 2), "d": 64},
        {"interleaved": True, "freqs": "on the fly"},
    ),
    "wide rows": ("rope_fw", {"s": 4, "heads": (3,), "d": 2048}, {"interleaved": True}),
    "whole rows": (
        "rope_fw",
        {"dtype": BF16, "tensor_format": "bshd", "s": 33, "heads": (17,), "d": 120},
    ),
    "whole rows of q and k": (
        "rope_qk",
        {"dtype": BF16, "s": 33, "heads": (8, 2), "d": 72},
        {"freqs": "on the fly"},
    ),
    "wide whole rows": ("rope_bw", {"s": 4, "heads": (3,), "d": 2044}),  # of two warps each
    "a norm": ("qk_norm_rope", {"dtype": BF16, "s": 20, "heads": (8, 2), "d": 128}),
}
CASES |= {f"{name}, {i}": (name, few) for name in IN_PLACE for i, few in enumerate(FEW)}
each_case = pytest.mark.parametrize("name", CASES)


def sample_of(name, device):
    function, *parts = CASES[name]
    case = {}
    for part in (*parts, {"output_pairing": "same"}):  # or it cannot be in place
        case |= part
    if device == "cpu" and "heads" in case:
        case |= {"s": 3, "heads": tuple(min(3, h) for h in case["heads"])}
    return IN_PLACE[function].sample(device, **case)


def in_place(sample):
    """A call that can be made again and again with the same inputs, which it overwrites."""
    values = {name: t.clone() for name, t in sample.given.items() if name in sample.op.tensors}

    def call():
        for name, value in values.items():
            sample.given[name].copy_(value)
        with torch.no_grad():
            outs = sample.call(inplace=True)
        return [out.clone(memory_format=torch.contiguous_format) for out in outs]

    return call


def all_bits_equal(outs, wants):
    """One boolean, on the device of the tensors."""
    pairs = zip(outs, wants, strict=True)
    return torch.stack([(x.view(torch.uint8) == y.view(torch.uint8)).all() for x, y in pairs]).all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has an order of its own")
@each_case
def test_the_order_of_programs_does_not_matter(name, whole_way):
    call = in_place(sample_of(name, "cpu"))
    want = call()
    with launched_by(in_order(lambda programs: programs[::-1])):
        assert all_bits_equal(call(), want)


def with_warps(num_warps):
    def launcher(launch):
        return replace(launch, options=launch.options | {"num_warps": num_warps}).run()

    return launcher


@pytest.mark.gpu
@pytest.mark.parametrize("num_warps", (1, 2, 4, 8))
@each_case
def test_a_thousand_runs_are_the_same_bits(name, num_warps, whole_way):
    call = in_place(sample_of(name, "cuda"))
    want = call()
    with launched_by(with_warps(num_warps)):
        if "norm" in name:  # more warps add squares in another order
            want = call()
        same = [all_bits_equal(call(), want) for _ in range(RUNS)]
    assert torch.stack(same).all()
