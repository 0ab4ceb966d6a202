"""Which calls launch a kernel, and how: on which device, in which order, writing what."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from inputs import angles
from ops import FEW, OPS, by_turns, memory_of
from rope_kernels import RotaryPositionEmbedding, rope_fw
from rope_kernels.norms import qk_norm_rope
from rope_lab.compiler.launches import launched_by
from rope_lab.compiler.plans import plans, plans_of

triton = pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("new_memory_is_nan")

S, B, H, D, D2 = 7, 2, 3, 20, 12
each_op = pytest.mark.parametrize("op", OPS, ids=str)


def test_a_norms_backward_has_as_many_programs_as_run_at_once():
    """Each adds up its share of the weights' gradients: more tokens are no more shares."""

    def programs(s):
        q, k, *weights = (
            torch.empty(shape, dtype=torch.bfloat16).requires_grad_()
            for shape in ((s, B, 4, 128), (s, B, 1, 128), (128,), (128,))
        )
        call = q, k, *weights, RotaryPositionEmbedding(128), "sbhd"
        return [plan.programs for plan in plans_of(qk_norm_rope, *call)]

    (forward, *backward), (later, *same) = programs(1024), programs(4096)
    assert later == 4 * forward and backward == same and backward[0] < forward


@each_op
def test_a_launch_is_on_the_device_of_its_tensors(op, monkeypatch):
    """Not on the device that was current when the call came."""
    current = []  # the device that is, and those that were

    class Current:
        def __init__(self, device):
            self.device = device

        def __enter__(self):
            current.insert(0, self.device)

        def __exit__(self, *error):
            current.pop(0)

    sample, seen = op.sample("cpu"), []
    monkeypatch.setattr(torch.cuda, "device", Current)
    for was in 0, -1:  # the tensors are on -1
        current[:] = [was]
        with (
            plans(),
            patch.object(torch.cuda, "current_device", lambda: current[0]),
            launched_by(lambda launch: seen.append(list(current))),
        ):
            sample.call()
        assert seen == [[-1, 0] if was == 0 else [-1]] and current == [was]
        seen.clear()


# what a launch writes


@by_turns(OPS, FEW)
def test_a_launch_fills_the_memory_that_it_is_given_and_no_more(op, case, device, whole_way):
    """Of results, and of what is kept for a backward: NaN before it, and around it."""
    sample = op.sample(device, **case)
    leaves = sample.leaves() if op.differentiable else {}

    def run(launch):
        assert "enable_fp_fusion" in launch.options, "Triton 3.10 changes the default"
        fences, (tensors, *numbers) = {}, launch.arguments
        fenced = type(tensors)(*[fence_of(x, fences) if is_new(x) else x for x in tensors])
        done = replace(launch, arguments=(fenced, *numbers)).run()
        for memory, wide in fences.values():
            assert wide[:64].isnan().all() and wide[-64:].isnan().all(), "it wrote beyond"
            assert not wide[64:-64].isnan().any(), "it left elements unwritten"
            memory.copy_(wide[64:-64])
        return done

    with launched_by(run):
        outs = sample.call(leaves)
        if leaves:
            torch.autograd.grad(outs, [*leaves.values()], sample.gradients_like(outs))


def is_new(x):
    return isinstance(x, torch.Tensor) and x.is_floating_point() and memory_of(x).isnan().all()


def fence_of(x, fences):
    """The same view, of memory with 64 elements more on each side; one for all views of it."""
    memory = memory_of(x)
    _, wide = fences.setdefault(
        memory.data_ptr(), (memory, memory.new_full((len(memory) + 128,), torch.nan))
    )
    return wide.as_strided(x.shape, x.stride(), 64 + x.storage_offset())


@pytest.mark.skipif(torch.cuda.is_available(), reason="sees what the interpreter stores")
@by_turns([op for op in OPS if op.inplace], FEW)
def test_an_element_is_stored_once(op, case, whole_way):
    """Of two stores in one program either could stay (Triton 10743)."""
    from rope_lab.judge.trace import Trace

    sample = op.sample("cpu", **case | {"output_pairing": "same", "d": 112, "rotary": 80})
    with torch.no_grad():
        for inplace in (False, True):
            with Trace() as trace:
                sample.call(None, sample.written, inplace=inplace)
            assert trace.launches == 1 and not trace.stored_twice


# the order of programs


@pytest.mark.parametrize(
    ("tensor_format", "shape", "in_memory"),
    (
        ("sbhd", (4, 2, 16, 128), "sbhd"),
        ("sbhd", (2, 8, 8, 128), "bshd"),
        ("bshd", (2, 8, 8, 128), "bshd"),
        ("bhsd", (2, 3, 8, 128), "bhsd"),
        ("bhsd", (1, 32, 8, 128), "bhsd"),
        ("thd", (8, 16, 128), "thd"),
    ),
)
def test_programs_take_tiles_in_the_order_of_memory(
    tensor_format, shape, in_memory, device, whole_way
):
    """The first half of them has the first half of it: neighbors run at the same time."""
    t, halves = torch.ones(shape, device=device), []
    if in_memory != tensor_format:
        t = t.transpose(0, 1)
    options = {"cu_seqlens": torch.tensor([0, 8], device=device)} if tensor_format == "thd" else {}

    def run_half(launch):
        halves.append(launch.grid[0] // 2)
        return replace(launch, grid=(launch.grid[0] // 2,)).run()

    with launched_by(run_half):
        out = rope_fw(t, angles(64, 128, device), tensor_format, **options)
    if in_memory != tensor_format:
        out = out.transpose(0, 1)
    out = out.reshape(2, -1)
    assert halves[0] > 1 and not out[0].isnan().any() and out[1].isnan().all()
