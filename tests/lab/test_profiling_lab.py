"""What notebook 08 uses: the machine's model, the profiler's rows, ncu's reports, a timer."""

import ast
import inspect
import re
import statistics
from types import SimpleNamespace

import matplotlib
import matplotlib.pyplot as plt
import nbformat
import pytest
import torch

import notebook_form
from rope_kernels import RotaryPositionEmbedding, reference, rope_fw
from rope_lab.figures import draw_08
from rope_lab.figures.roofline import RooflineExplorer
from rope_lab.grading.pretend_gpu import PretendGPU, check_timer
from rope_lab.profiling import ncu, record_ncu, timeline
from rope_lab.profiling.roofline import Machine, straight_line

# the machine

MACHINE = Machine(start_us=3.0, bytes_a_us=4e6, instructions_a_us=32e6)


def test_the_slower_of_bytes_and_instructions_decides():
    assert MACHINE.time_us(0) == 3
    assert MACHINE.time_us(4e8) == MACHINE.time_us(4e8, 32e8) == 103
    assert MACHINE.time_us(4e8, 64e8) == MACHINE.time_us(1, 64e8) == 203


def test_the_roof_bends_at_the_ridge():
    assert MACHINE.ridge == 8
    assert MACHINE.allowed(2) == 8e6
    assert MACHINE.allowed(8) == MACHINE.allowed(800) == 32e6


def test_a_start_and_a_slope_are_found_again_whatever_the_sizes():
    sizes = [2.0**e for e in range(14, 32, 2)]
    start, slope = straight_line(sizes, [2.5 + size / 4e6 for size in sizes])
    assert start == pytest.approx(2.5) and 1 / slope == pytest.approx(4e6)


def test_small_sizes_count_as_much_as_large_ones():
    """A per cent of noise on the largest time must not move the start by microseconds."""
    sizes = [2.0**e for e in range(14, 32, 2)]
    times = [2.5 + size / 4e6 for size in sizes]
    times[-1] *= 1.03
    assert straight_line(sizes, times)[0] == pytest.approx(2.5, rel=0.05)


# the explorer, beyond what test_explorers.py holds for all of them


def said(explorer):
    """Microseconds of bytes and of instructions, what bounds, how many instructions are free."""
    words = explorer.said.value
    memory, compute = re.search(r"bytes need (\d+) us, instructions (\d+);", words).groups()
    bound, free = re.search(r"(\w+)-bound\. Up to (\d+) instructions", words).groups()
    return int(memory), int(compute), bound, int(free)


def test_a_sine_an_element_is_more_than_bf16_gives_away():
    explorer = RooflineExplorer(bytes=4, instructions=40, bandwidth=4.2, instructions_a_us=33.4e6)
    assert said(explorer) == (64, 80, "compute", 31)
    explorer.bytes.value = 8
    assert said(explorer) == (128, 80, "memory", 63)


def test_a_faster_memory_does_not_help_a_compute_bound_kernel():
    explorer = RooflineExplorer(bytes=4, instructions=40, bandwidth=4.2)
    before = said(explorer)
    explorer.bandwidth.value = 8.0
    after = said(explorer)
    assert after[0] < before[0] and max(after[:2]) == max(before[:2])


def test_what_is_free_costs_nothing_and_one_instruction_more_does():
    explorer = RooflineExplorer()
    for element_bytes in (2, 4, 7, 16):
        explorer.bytes.value = element_bytes
        free = said(explorer)[3]
        explorer.instructions.value = free
        assert said(explorer)[2] == "memory"
        explorer.instructions.value = free + 1
        assert said(explorer)[2] == "compute"


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
        event("copy_kernel", 115.0, 10.0, CUDA),
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


@pytest.mark.parametrize(
    "name, short",
    (
        ("rope_kernel", "rope_kernel"),
        ("void at::native::neg_kernel<c10::BFloat16>(int, float*)", "neg_kernel"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::f<std::array<char*, 2>>>"
            "(int, std::array<char*, 2>)",
            "vectorized_elementwise_kernel",
        ),
        ("aten::mul", "aten::mul"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD "),
    ),
)
def test_kernels_have_short_names(name, short):
    assert timeline.short(name) == short


@pytest.mark.gpu
def test_ours_is_one_kernel_and_eager_is_ten():
    t = torch.randn(64, 2, 4, 128, device="cuda", dtype=torch.bfloat16)
    freqs = RotaryPositionEmbedding(128).cuda()(64)
    ours = timeline.profile_call(lambda: rope_fw(t, freqs))
    eager = timeline.profile_call(lambda: reference.apply_rotary_pos_emb(t, freqs))
    assert [name for name, _, _ in ours["kernels"]] == ["rope_kernel"]
    assert len(eager["kernels"]) == len(eager["launches"]) == 10
    assert len(ours["launches"]) == 1


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


@pytest.mark.parametrize("output", ("", '==ERROR== no permission\n"ID","Kernel Name"\n'))
def test_no_launch_is_no_report(output):
    with pytest.raises(ValueError, match="no launch"):
        ncu.parse(output)


def test_a_report_survives_its_file(tmp_path):
    values = {metric: 1.5 + 3 * place for place, metric in enumerate(ncu.METRICS)}
    values["dram__bytes_read.sum"] = 136314880.0
    report = ncu.Report({"kernel": "naive", "gpu": "a GPU"}, values, {ncu.METRICS[0]: "ns"})
    ncu.write(tmp_path / "report.csv", report)
    again = ncu.read(tmp_path / "report.csv")
    assert again.about == report.about and again.values == values
    assert again.units[ncu.METRICS[0]] == "ns"


def test_a_metric_that_is_missing_is_no_error():
    report = ncu.Report({}, {ncu.STALLED.format("wait"): 2.0, ncu.STALLED.format("drain"): 7.0})
    assert list(report.stalls) == ["drain", "wait"]
    assert "nan" in ncu.table(["dram__bytes_read.sum"], some=report)


def test_the_clocks_are_left_alone():
    for name in ("naive", "final", "unknown"):
        words = record_ncu.command(name, ncu.METRICS, "log.csv")
        assert words[words.index("--clock-control") + 1] == "none"
        assert words[-1] == name
        assert re.fullmatch(r"regex:\^\w+\$", words[words.index("--kernel-name") + 1])


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

    monkeypatch.setattr(record_ncu.subprocess, "run", run)
    monkeypatch.setattr(record_ncu, "about", lambda: {"gpu": "a GPU"})
    report = ncu.read(record_ncu.record("naive", tmp_path))
    assert set(report.values) == set(ncu.METRICS) - {bad}
    assert report.about["gpu"] == "a GPU"


def test_without_ncu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(record_ncu.shutil, "which", lambda _: None)
    assert record_ncu.main([]) == 1
    assert "no ncu" in capsys.readouterr().out


@pytest.mark.parametrize("name", ("naive", "final", "unknown"))
def test_the_committed_reports_have_what_the_notebook_reads(name):
    report = ncu.read(notebook_form.FOLDER / "records" / f"08_ncu_{name}.csv")
    assert {"kernel", "shape", "gpu", "versions", "date", "command"} <= set(report.about)
    assert len(report.values) > 30 and len(report.stalls) > 8
    assert "/" not in "".join(report.about.values())  # no path of any machine


def test_the_strided_copy_is_that_of_notebook_03():
    from rope_lab.steps import strided_copy

    def kernel(source):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and node.name == "every_eighth_kernel":
                return ast.dump(ast.Module(node.body[1:], []))  # without its docstring

    path = notebook_form.FOLDER / "03_first_triton_kernel.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    (cell,) = (c.source for c in cells if "def every_eighth_kernel" in c.source)
    assert kernel(cell) == kernel(inspect.getsource(strided_copy))


def test_the_strided_copy_moves_every_number(device):
    from rope_lab.steps.strided_copy import copy_strided

    x = torch.arange(1024.0, device=device)
    assert torch.equal(copy_strided(x, block=256), x.view(-1, 8).T.flatten())


# a timer, and what goes wrong with timers


def samples(gpu, call):
    times = []
    for _ in range(21):
        gpu.flush()
        gpu.sleep(1000)
        begin = gpu.mark()
        call()
        end = gpu.mark()
        gpu.synchronize()
        times.append(end.since(begin))
    return times


def right(gpu, call):
    for _ in range(3):
        call()
    return statistics.median(samples(gpu, call))


def test_a_good_timer_is_right():
    assert check_timer(right)
    assert repr(check_timer(right)).startswith("RIGHT: ")


def not_waiting(gpu, call):
    begin = gpu.clock()
    call()
    return gpu.clock() - begin


def first_call_counted(gpu, call):
    gpu.sleep(10)
    begin = gpu.clock()
    call()
    gpu.synchronize()
    return gpu.clock() - begin - 14


def same_buffers(gpu, call):
    call()
    gpu.synchronize()
    begin = gpu.clock()
    for _ in range(20):
        call()
    gpu.synchronize()
    return (gpu.clock() - begin) / 20


def device_waits_for_host(gpu, call):
    call()
    gpu.flush()
    gpu.synchronize()
    begin = gpu.mark()
    call()
    end = gpu.mark()
    gpu.synchronize()
    return end.since(begin)


def mean_not_median(gpu, call):
    call()
    return statistics.mean(samples(gpu, call))


@pytest.mark.parametrize(
    "timer, hint",
    (
        (not_waiting, "who waits for the device?"),
        (first_call_counted, "what does a first call do?"),
        (same_buffers, "the second time?"),
        (device_waits_for_host, "what does the device wait for"),
        (mean_not_median, "every third call is disturbed"),
    ),
)
def test_a_wrong_timer_is_told_what_to_think_of(timer, hint):
    verdict = check_timer(timer)
    assert not verdict and hint in verdict.hint


def test_an_unwritten_timer_is_not_wrong():
    def timer(gpu, call):
        raise NotImplementedError("write it")

    assert repr(check_timer(timer)) == "NOT YET: write it"
    assert check_timer(lambda gpu, call: None).state == "wrong"


def test_a_mark_is_read_only_after_waiting():
    gpu = PretendGPU()
    begin = gpu.mark()
    gpu.kernel(4.2e6, compiled=True)()
    end = gpu.mark()
    with pytest.raises(RuntimeError, match="synchronize first"):
        end.since(begin)
    gpu.synchronize()
    assert end.since(begin) >= 4


# drawings: each draws without a warning

ROWS = {"operators": [["aten::mul", 0.0, 5.0]], "launches": [["l", 1.0, 2.0]]}
ROWS["kernels"] = [["k", 6.0, 50.0], ["sliver", 60.0, 0.1]]
LATE = ROWS | {"launches": [["the profiler's own start within it", 0.0, 5000.0]]}
DRAWINGS = {
    "mistakes": lambda: draw_08.mistakes({"too fast": 0.25, "too slow": 200.0}, "source"),
    "cold and warm": lambda: draw_08.cold_and_warm([1e6, 1e8], [4, 30], [2, 28], 4.8e6, "s"),
    "knee": lambda: draw_08.knee({"copy": ([1e6, 1e9], [4, 250])}, MACHINE, "title", "source"),
    "roofline": lambda: draw_08.roofline({"copy": (0.5, 2e6)}, MACHINE, "source"),
    "measured roof": lambda: draw_08.measured_roof([0, 8, 512], [64, 64, 999], MACHINE, 2**26, "s"),
    "timeline": lambda: draw_08.timeline({"one": ROWS, "two": LATE}, "source"),
    "stalls": lambda: draw_08.stalls({"a": {"wait": 1.0}, "b": {"drain": 2.0}}, "source"),
}


@pytest.mark.parametrize("name", DRAWINGS)
@pytest.mark.filterwarnings("error")
def test_drawings_draw(name, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    DRAWINGS[name]()
    assert len(plt.get_fignums()) == 1
    plt.gcf().canvas.draw()
    plt.close("all")
