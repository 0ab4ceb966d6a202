"""Reports of notebook 11's kernels, from what ncu would print."""

import csv
import io
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from rope_kernels import RotaryPositionEmbedding, norm_rope
from rope_lab.profiling import ncu, record_norm

DURATION = "gpu__time_duration.sum"
BACKWARD = "norm_rope_backward_kernel", "sum_partials_kernel"
LAUNCHES = {
    "often": ["triton_per_fused_often"],
    "once": ["triton_per_fused_once"],
    "rms_norm": ["void vectorized_layer_norm_kernel"],
    **dict.fromkeys(("tiles", "stages_1", "stages_2", "stages_3"), BACKWARD),
}


def printed(launches):
    """ncu's page 'raw' of (kernel, duration) pairs."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerows([("ID", "Kernel Name", DURATION), ("", "", "ns")])
    writer.writerows((number, *launch) for number, launch in enumerate(launches))
    return "==PROF== Connected\n" + text.getvalue()


@pytest.fixture
def fake_ncu(monkeypatch):
    def that_prints(text):
        def run(command, **_):
            Path(command[command.index("--log-file") + 1]).write_text(text)
            return SimpleNamespace(stdout="", stderr="what ncu says")

        monkeypatch.setattr(record_norm.subprocess, "run", run)
        monkeypatch.setattr(record_norm, "about", lambda: {"gpu": "a GPU"})

    return that_prints


def test_each_report_is_of_its_own_kernel(fake_ncu, tmp_path):
    rows, durations = [], {}
    for call, kernels in LAUNCHES.items():
        for kernel in kernels:
            durations[call, kernel] = 1000.0 + len(rows)
            rows.append((kernel, durations[call, kernel]))
        rows.append((record_norm.MARK, 1))
    fake_ncu(printed(rows))
    paths = record_norm.record(tmp_path)
    assert [path.name for path in paths] == [f"11_ncu_{n}.csv" for n in record_norm.REPORTS]
    for path, (call, part, heads) in zip(paths, record_norm.REPORTS.values(), strict=True):
        report = ncu.read(path)
        assert part in report.about["kernel"] and report.about["gpu"] == "a GPU"
        assert report[DURATION] == durations[call, report.about["kernel"]]
        assert report.about["shape"] == f"(8192, 1, {heads}, 128), bf16"


def test_the_drafts_are_those_of_the_notebook():
    often, once = record_norm.functions_of_notebook("rounded_often", "rounded_once").values()
    x, weight = torch.randn(5, 2, 3, 16).bfloat16(), torch.randn(16).bfloat16()
    freqs = RotaryPositionEmbedding(16)(5)
    cos, sin = freqs.cos().bfloat16(), freqs.sin().bfloat16()
    like_model = norm_rope(x, weight, freqs, rounding="model", fused=False)
    assert torch.equal(often(x, weight, cos, sin), like_model)
    half = freqs[..., :8]
    rounded_once = norm_rope(x, weight, freqs, fused=False)
    torch.testing.assert_close(once(x, weight, half.cos(), half.sin()), rounded_once)


@pytest.mark.parametrize("name", record_norm.REPORTS)
def test_the_committed_reports_are_whole(name):
    report = ncu.read(record_norm.NOTEBOOK.parent / "records" / f"11_ncu_{name}.csv")
    assert {"kernel", "shape", "gpu", "versions", "date", "command"} <= set(report.about)
    assert record_norm.REPORTS[name][1] in report.about["kernel"]
    assert len(report.values) > 30 and len(report.stalls) > 8
