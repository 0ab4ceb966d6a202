"""Reports of Nsight Compute, from what ncu would print, and those that were recorded."""

from types import SimpleNamespace

import pytest
import torch

from recording import ncu_reports
from rope_kernels import RotaryPositionEmbedding, norm_rope
from rope_lab.profiling import ncu


def test_the_drafts_are_those_of_the_notebook():
    often, once = ncu_reports.functions_of_notebook("rounded_often", "rounded_once").values()
    x, weight = torch.randn(5, 2, 3, 16).bfloat16(), torch.randn(16).bfloat16()
    freqs = RotaryPositionEmbedding(16)(5)
    cos, sin = freqs.cos().bfloat16(), freqs.sin().bfloat16()
    like_model = norm_rope(x, weight, freqs, rounding="model", fused=False)
    assert torch.equal(often(x, weight, cos, sin), like_model)
    half = freqs[..., :8]
    rounded_once = norm_rope(x, weight, freqs, fused=False)
    torch.testing.assert_close(once(x, weight, half.cos(), half.sin()), rounded_once)


def page_of(metrics, calls):
    """What ncu prints of calls, which are names of kernels with a number for each metric."""
    rows = [["ID", "Kernel Name", *metrics], ["", "", *("byte" for _ in metrics)]]
    for kernels in calls:
        for name, numbers in kernels.items():
            rows.append(["0", name, *numbers])
        rows.append(["0", "spin_kernel", *("" for _ in metrics)])
    page = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    return f"==PROF== Connected to process 7\n{page}\n==PROF== Disconnected\n"


def test_each_call_has_a_report_for_each_of_its_kernels():
    metrics = "dram__bytes_read.sum", "sm__bogus"
    calls = [{"one": ["136,314,880", "n/a"]}, {"two": ["1", ""], "sum": ["2.5", ""]}]
    (first, second) = ncu_reports.launches(page_of(metrics, calls))
    assert first["one"].values == {"dram__bytes_read.sum": 136314880}
    assert first["one"].units == {"dram__bytes_read.sum": "byte"}
    assert second["two"][metrics[0]] == 1 and second["sum"][metrics[0]] == 2.5


def test_every_report_that_is_wanted_is_found():
    kernels = {}
    for wanted in ncu_reports.REPORTS.values():
        kernels.setdefault(wanted.call, {})[f"a_{wanted.part}_0"] = ["7"]
    page = page_of(ncu_reports.METRICS[:1], kernels.values())
    found = dict(ncu_reports.reports_of(page, {"gpu": "a GPU"}))
    assert list(found) == list(ncu_reports.REPORTS)
    for name, report in found.items():
        wanted = ncu_reports.REPORTS[name]
        kernel = f"a_{wanted.part}_0"
        assert report.about == {"kernel": kernel, "shape": wanted.shape, "gpu": "a GPU"}


def test_a_report_survives_its_file(tmp_path):
    values = {metric: 1.5 + 3 * place for place, metric in enumerate(ncu_reports.METRICS)}
    values["dram__bytes_read.sum"] = 136314880.0
    about, units = {"kernel": "naive", "gpu": "a GPU"}, {ncu_reports.METRICS[0]: "ns"}
    ncu_reports.write(tmp_path / "report.csv", ncu.Report(about, values, units))
    again = ncu.read(tmp_path / "report.csv")
    assert again.about == about and again.values == values
    assert again.units[ncu_reports.METRICS[0]] == "ns"


def test_metrics_that_ncu_does_not_know_are_left_out(monkeypatch):
    bad = ncu_reports.METRICS[3]

    def run(command, **_):
        asked = command[command.index("--metrics") + 1].split(",")
        refused = f"==ERROR== Failed to find metric {bad}\n"
        text = refused if bad in asked else page_of(asked, [{"k": ["1"] * len(asked)}])
        with open(command[command.index("--log-file") + 1], "w") as file:
            file.write(text)
        return SimpleNamespace(stdout="", stderr="")

    words = ncu_reports.ncu_watches()
    assert words[words.index("--clock-control") + 1] == "none" and words[-1] == "--launch"
    monkeypatch.setattr(ncu_reports.subprocess, "run", run)
    ((report,),) = [call.values() for call in ncu_reports.launches(ncu_reports.measured())]
    assert set(report.values) == set(ncu_reports.METRICS) - {bad}


def test_what_ncu_says_instead_of_a_report_is_in_the_error(monkeypatch):
    refused = SimpleNamespace(stdout="", stderr="==ERROR== no permission")
    monkeypatch.setattr(ncu_reports.subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(RuntimeError, match="no launch:\n==ERROR== no permission"):
        ncu_reports.measured()
