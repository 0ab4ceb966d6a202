"""Reports of Nsight Compute, from what ncu would print."""

from recording import ncu_reports


def test_each_call_has_a_report():
    """Of what else ncu prints nothing is kept."""
    metrics = *ncu_reports.IN_SHORT[:2], "sm__bogus"
    rows = [["ID", "Kernel Name", *metrics], ["", "", "byte", "%", ""]]
    rows += [["0", "another_kernel", "1", "2", "3"]]
    rows += [["0", ncu_reports.CALLS["naive"], "136,314,880", "n/a", "3"]]
    rows += [["0", ncu_reports.CALLS["ours"], "2.5", "", "3"]]
    page = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    page = f"==PROF== Connected to process 7\n{page}\n==PROF== Disconnected\n"
    assert ncu_reports.reports_of(page) == {
        "units": {metrics[0]: "byte", metrics[1]: "%"},
        "naive": {metrics[0]: 136314880},
        "ours": {metrics[0]: 2.5},
    }
