"""A reader's kernels: what README and notebook 00 say of them."""

import json
import re

import pytest

from benchmarks.readers import timed
from benchmarks.results import RESULTS, ROOT


def record():
    return json.loads((RESULTS / "nvidia-h200-readers.json").read_text())


def test_readme_has_the_table_of_the_record():
    found, page = record(), (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"<!-- readers: begin -->\n{timed.table_of(found)}\n\n" in page
    source = re.search(r"^(.*)\n<!-- readers: end -->", page, re.MULTILINE)[1]
    assert all(
        part in source for part in (found["gpu"], found["date"], *found["versions"].values())
    )
    first = [written.attempts for written in timed.WRITTEN] == [1, 1, 1, 1]
    assert first and "right at the first attempt" in page


def test_notebook_00_says_how_far_they_came():
    rows = record()["kernels"]
    shares = [100 * row["copy_us"] / row["theirs_us"] for row in rows.values()]
    off = [abs(w.predicted_us / rows[w.name]["theirs_us"] - 1) for w in timed.WRITTEN]
    words = f"{min(shares):.0f} to {max(shares):.0f} % of a copy's speed"
    start = (ROOT / "notebooks" / "00_start_here.ipynb").read_text(encoding="utf-8")
    assert words in start and f"within {100 * max(off):.0f} %" in start


@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize("written", timed.WRITTEN, ids=lambda written: written.name)
def test_they_are_right(written):
    found = timed.inspected(written)
    assert found and found.binding == "bytes"
    moved = sum(launch.work.moved for launch in found.launches)
    assert moved == pytest.approx(written.tensors * largest_of(found), rel=1e-3)


def largest_of(found):
    (launch,) = found.launches
    return max(max(one["loaded_once"], one["stored_once"]) for one in launch.tensors.values())
