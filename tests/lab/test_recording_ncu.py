"""Reports of Nsight Compute, from what ncu would print, and those that were recorded."""

from recording import ncu_reports


def page_of(metrics, launches):
    """What ncu prints of launches, which are names of kernels with a number for each metric."""
    rows = [["ID", "Kernel Name", *metrics], ["", "", *("byte" for _ in metrics)]]
    rows += [["0", name, *numbers] for name, numbers in launches.items()]
    page = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    return f"==PROF== Connected to process 7\n{page}\n==PROF== Disconnected\n"


def test_each_kernel_has_a_report():
    metrics = "dram__bytes_read.sum", "sm__bogus"
    page = page_of(metrics, {"one": ["136,314,880", "n/a"], "two": ["2.5", ""]})
    found = ncu_reports.launches(page)
    assert found["one"].values == {"dram__bytes_read.sum": 136314880}
    assert found["one"].units == {"dram__bytes_read.sum": "byte"}
    assert found["two"][metrics[0]] == 2.5


def test_every_report_that_is_wanted_is_found():
    kernels = [kernel for _, kernel in ncu_reports.REPORTS.values()]
    page = page_of(ncu_reports.IN_SHORT[:1], {kernel: ["7"] for kernel in kernels})
    found = dict(ncu_reports.reports_of(page, {"gpu": "a GPU"}))
    assert list(found) == list(ncu_reports.REPORTS)
    for report, kernel in zip(found.values(), kernels, strict=True):
        shape = f"{ncu_reports.SHAPE}, bf16"
        assert report.about == {"kernel": kernel, "shape": shape, "gpu": "a GPU"}
        metric = ncu_reports.IN_SHORT[0]
        assert ncu_reports.text_of(report).endswith(f"metric,value,unit\n{metric},7,byte\n")
