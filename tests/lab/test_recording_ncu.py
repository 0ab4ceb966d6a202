"""Reports of Nsight Compute, from what ncu would print, and those that were recorded."""

from recording import ncu_reports


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
    calls = [{f"a_{part}_0": ["7"]} for _, part in ncu_reports.REPORTS.values()]
    page = page_of(ncu_reports.IN_SHORT[:1], calls)
    found = dict(ncu_reports.reports_of(page, {"gpu": "a GPU"}))
    assert list(found) == list(ncu_reports.REPORTS)
    for name, report in found.items():
        kernel = f"a_{ncu_reports.REPORTS[name][1]}_0"
        shape = f"{ncu_reports.SHAPE}, bf16"
        assert report.about == {"kernel": kernel, "shape": shape, "gpu": "a GPU"}
        metric = ncu_reports.IN_SHORT[0]
        assert ncu_reports.text_of(report).endswith(f"metric,value,unit\n{metric},7,byte\n")
