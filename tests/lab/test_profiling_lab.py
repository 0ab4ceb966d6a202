"""What notebook 08 uses: the machine's model, the profiler's rows, ncu's reports, a timer."""

import re
from types import SimpleNamespace

import pytest
import torch

import notebook_form
from rope_lab.figures.roofline import RooflineExplorer
from rope_lab.grading.pretend_gpu import PretendGPU
from rope_lab.profiling import ncu, record_ncu, timeline
from rope_lab.profiling.roofline import Machine, straight_line

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


# Nsight Compute's reports

DETAILS = """==PROF== Connected to process 7
==PROF== Profiling "naive" - 0: 0%....100% - 5 passes
"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","naive","Command line","dram__bytes_read.sum","byte","136,314,880"
"0","naive","Command line","launch__grid_size","","65,536"
"0","naive","Command line","sm__bogus","%","n/a"
"1","naive","Command line","dram__bytes_read.sum","byte","1"
"""
RAW = """==PROF== Disconnected from process 7
"ID","Kernel Name","dram__bytes_read.sum","launch__grid_size","sm__bogus"
"","","byte","","%"
"0","naive","136314880","65,536",""
"""


@pytest.mark.parametrize("output", (DETAILS, RAW))
def test_both_forms_of_ncu_are_read(output):
    values, units = ncu.parse(output)
    assert values["dram__bytes_read.sum"] == 136314880 and units["dram__bytes_read.sum"] == "byte"
    assert values["launch__grid_size"] == 65536
    assert "sm__bogus" not in values
    with pytest.raises(ValueError, match="no launch"):
        ncu.parse('==ERROR== no permission\n"ID","Kernel Name"\n')


def test_a_report_survives_its_file(tmp_path):
    values = {metric: 1.5 + 3 * place for place, metric in enumerate(ncu.METRICS)}
    values["dram__bytes_read.sum"] = 136314880.0
    report = ncu.Report({"kernel": "naive", "gpu": "a GPU"}, values, {ncu.METRICS[0]: "ns"})
    ncu.write(tmp_path / "report.csv", report)
    again = ncu.read(tmp_path / "report.csv")
    assert again.about == report.about and again.values == values
    assert again.units[ncu.METRICS[0]] == "ns"


def test_metrics_that_ncu_does_not_know_are_left_out(monkeypatch, tmp_path):
    bad = ncu.METRICS[3]

    def run(command, **_):
        asked = command[command.index("--metrics") + 1].split(",")
        log = command[command.index("--log-file") + 1]
        if bad in asked:
            text = f"==ERROR== Failed to find metric {bad}\n"
        else:
            rows = [f'"0","k","{metric}","","1"' for metric in asked]
            text = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
            text += "\n".join(rows)
        with open(log, "w") as file:
            file.write(text)
        return SimpleNamespace(stdout="", stderr="")

    words = record_ncu.command("naive", ncu.METRICS, "log")
    assert words[words.index("--clock-control") + 1] == "none" and words[-1] == "naive"
    monkeypatch.setattr(record_ncu.subprocess, "run", run)
    monkeypatch.setattr(record_ncu, "about", lambda: {"gpu": "a GPU"})
    report = ncu.read(record_ncu.record("naive", tmp_path))
    assert set(report.values) == set(ncu.METRICS) - {bad}
    assert report.about["gpu"] == "a GPU"


@pytest.mark.parametrize("name", ("naive", "final", "unknown"))
def test_the_committed_reports_have_what_the_notebook_reads(name):
    report = ncu.read(notebook_form.FOLDER / "records" / f"08_ncu_{name}.csv")
    assert {"kernel", "shape", "gpu", "versions", "date", "command"} <= set(report.about)
    assert len(report.values) > 30 and len(report.stalls) > 8
    assert "/" not in "".join(report.about.values())  # no path of any machine


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
