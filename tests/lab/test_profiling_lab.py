"""What notebook 08 uses: the machine's model, the profiler's rows, a timer."""

import re
from types import SimpleNamespace

import pytest
import torch

from rope_lab.figures.roofline import RooflineExplorer
from rope_lab.grading.pretend_gpu import PretendGPU
from rope_lab.profiling import timeline
from rope_lab.profiling.roofline import Machine, straight_line
from rope_lab.steps.qwen3 import WAYS, new_qwen3, patched

# the machine

MACHINE = Machine(start_us=3.0, bytes_a_us=4e6, instructions_a_us=32e6)


def test_the_slower_of_bytes_and_instructions_decides_and_the_roof_bends_at_the_ridge():
    assert MACHINE.time_us(0) == 3
    assert MACHINE.time_us(4e8) == MACHINE.time_us(4e8, 32e8) == 103
    assert MACHINE.time_us(4e8, 64e8) == MACHINE.time_us(1, 64e8) == 203
    assert MACHINE.ridge == 8 and MACHINE.allowed(2) == 8e6
    assert MACHINE.allowed(8) == MACHINE.allowed(800) == 32e6


def test_a_start_and_a_slope_are_found_again_by_small_sizes_as_much_as_by_large_ones():
    """A per cent of noise on the largest time must not move the start by microseconds."""
    sizes = [2.0**e for e in range(14, 32, 2)]
    times = [2.5 + size / 4e6 for size in sizes]
    start, slope = straight_line(sizes, times)
    assert start == pytest.approx(2.5) and 1 / slope == pytest.approx(4e6)
    times[-1] *= 1.03
    assert straight_line(sizes, times)[0] == pytest.approx(2.5, rel=0.05)


def test_the_explorer_names_what_bounds_a_kernel_and_what_is_free():
    explorer = RooflineExplorer(bytes=4, instructions=40, bandwidth=4.2, instructions_a_us=33.4e6)
    assert "bytes need 64 us, instructions 80; compute-bound. Up to 31 " in explorer.said.value
    assert "bytes need 34 us, instructions 80; compute-bound" in explorer.says(bandwidth=8.0)
    assert "bytes need 128 us, instructions 80; memory-bound. Up to 63 " in explorer.says(bytes=8)
    for element_bytes in (2, 7, 16):
        free = int(re.search(r"Up to (\d+)", explorer.says(bytes=element_bytes))[1])
        for instructions, bound in ((free, "memory-bound"), (free + 1, "compute-bound")):
            assert bound in explorer.says(bytes=element_bytes, instructions=instructions)


# the profiler's events

CPU, CUDA = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA


def event(name, start, duration, device=CPU, parent=None):
    span = SimpleNamespace(start=start, end=start + duration)
    return SimpleNamespace(name=name, time_range=span, device_type=device, cpu_parent=parent)


def test_operators_launches_and_kernels_are_told_apart():
    outer = event("aten::mul", 105.0, 9.0)
    events = [
        event("mul_kernel", 130.0, 50.0, CUDA),
        outer,
        event("aten::empty", 106.0, 1.0, parent=outer),  # within the other: not drawn twice
        event("cudaLaunchKernel", 110.0, 3.0, parent=outer),
        event("cuLaunchKernelEx", 120.0, 3.0),
        event("cudaDeviceSynchronize", 125.0, 60.0),
        event("void at::native::copy_kernel<4, a::b<char*>>(int, a::c<2>)", 115.0, 10.0, CUDA),
    ]
    rows = timeline.in_rows(events)
    assert rows["operators"] == [["aten::mul", 0.0, 9.0]]
    assert [name for name, _, _ in rows["launches"]] == ["cudaLaunchKernel", "cuLaunchKernelEx"]
    assert rows["kernels"] == [["copy_kernel", 10.0, 10.0], ["mul_kernel", 25.0, 50.0]]


def test_of_two_calls_the_last_is_kept():
    one = [event("aten::mul", 10.0, 900.0), event("cudaLaunchKernel", 12.0, 800.0)]
    one.append(event("mul_kernel", 820.0, 5.0, CUDA))
    two = [event("aten::mul", 1000.0, 9.0), event("cudaLaunchKernel", 1002.0, 3.0)]
    two.append(event("mul_kernel", 1006.0, 5.0, CUDA))
    assert timeline.in_rows(one + two, times=2) == timeline.in_rows(two)


# a timer: its notebook has wrong ones


def test_a_mark_is_read_only_after_waiting():
    gpu = PretendGPU()
    begin = gpu.mark()
    gpu.kernel(4.2e6, compiled=True)()
    end = gpu.mark()
    with pytest.raises(RuntimeError, match="synchronize first"):
        end.since(begin)
    gpu.synchronize()
    assert end.since(begin) >= 4


@pytest.mark.parametrize("way", WAYS)
def test_a_way_puts_in_what_it_says_for_a_while(way):
    """Otherwise all would have the same bits, and notebook 12 would prove little."""
    from transformers.models.qwen3 import modeling_qwen3

    def in_the_module():
        attention = modeling_qwen3.Qwen3Attention
        return modeling_qwen3.apply_rotary_pos_emb, attention.forward

    before = in_the_module()
    with patched(new_qwen3("cpu"), WAYS[way]):
        changed = [x is not y for x, y in zip(in_the_module(), before, strict=True)]
    assert changed == [way != "unpatched", way == "with norms"]
    assert in_the_module() == before
