"""The planted bugs of the comparison in docs/inspect.md: what `lab.inspect` says of each."""

import pytest

from benchmarks.planted import PLANTED, inspected

pytestmark = pytest.mark.usefixtures("needs_triton")
BUGS = {
    "stride": "first at index (1, 0): got 0.2082",
    "collision": "store element 127 of out_ptr",
    "past the end": "reads element 4000 of x_ptr",
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found(name):
    found = inspected(PLANTED[name], "sm_90")
    assert BUGS[name] in found.wrong


def test_a_slow_kernel_is_right_and_its_reason_is_told():
    naive = inspected(PLANTED["slow: naive RoPE"], "sm_90")
    assert naive and naive.binding == "instructions"
    scattered = inspected(PLANTED["slow: transposed"], "sm_90")
    assert scattered and scattered.launches[0].scattered == {"x_ptr": pytest.approx(2, rel=0.1)}
    assert "neighboring lanes" in repr(scattered)


def test_the_page_has_them():
    from benchmarks.results import ROOT

    page = (ROOT / "docs" / "inspect.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in page for name in PLANTED)
