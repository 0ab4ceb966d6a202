"""The record of `split_qkv_rope` beside others, and the page and the changelog that tell of it."""

import json
import re

from benchmarks import projections
from benchmarks.results import RESULTS, ROOT

BARS = {  # of a copy, in per cent, by whether heads come before positions
    False: {"forward": 93, "backward": 90},
    True: {"forward": 90, "backward": 87},
}


def record():
    return json.loads((RESULTS / "nvidia-h200-projections.json").read_text())


def test_the_page_has_the_table_of_the_record():
    found, page = record(), (ROOT / "docs" / "projections.md").read_text(encoding="utf-8")
    assert f"<!-- projections: begin -->\n{projections.table_of(found)}\n\n" in page
    source = re.search(r"^(.*)\n<!-- projections: end -->", page, re.MULTILINE)[1]
    assert all(
        part in source for part in (found["gpu"], found["date"], *found["versions"].values())
    )
    assert len(found["rows"]) == 2 * len(projections.LAYOUTS)


def test_every_call_is_as_near_to_a_copy_as_it_has_to_be():
    for row in record()["rows"]:
        times = row["microseconds"]
        bar = BARS["bhsd" in row["layout"]][row["direction"]]
        for name in ("split_qkv_rope", "split_qkv_rope, grouped"):
            assert 100 * times["copy"] / times[name] > bar, row


def test_it_is_faster_than_its_pieces():
    for row in record()["rows"]:
        times = row["microseconds"]
        assert times["split, rope, copies"] > 1.25 * times["split_qkv_rope"], row


def test_what_has_to_move_is_what_the_law_says():
    """48 head rows go in and out."""
    assert projections.MOVED == 96
