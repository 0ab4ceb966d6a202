"""The benchmark of norm and rotation: its record, its page, and its verdicts. Measures nothing."""

import json

import pytest

from benchmarks import norm
from benchmarks.rows import RESULTS

RECORDS = sorted(RESULTS.glob("*-norm.json"))
OURS = "qk_norm_rope, on the fly"


def row(provider, direction, us, per_cent, tensor_format="sbhd", **more):
    about = {"format": tensor_format, "direction": direction, "provider": provider}
    return about | {"median_us": us, "per_cent": per_cent} | more


def results_of(rows, left_out=()):
    about = {"gpu": "a GPU", "versions": {"torch": "0"}, "date": "2026-11-21"}
    return about | {"rows": rows, "left_out": list(left_out)}


def test_there_is_a_record():
    assert RECORDS


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_page_is_made_of_the_record(path):
    assert path.with_suffix(".md").read_text() == norm.report(json.loads(path.read_text()))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_record_names_its_gpu_and_every_provider_was_right(path):
    results = json.loads(path.read_text())
    assert results["gpu"] and results["versions"]["triton"] and results["date"]
    for one in results["rows"]:
        assert one["provider"] == "copy_" or one["error"] < norm.LARGEST_ERROR


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_format_that_was_not_measured_is_left_out_by_name(path):
    results = json.loads(path.read_text())
    measured = {one["format"] for one in results["rows"]}
    assert {x["format"] for x in results["left_out"]} >= set(norm.FORMATS) - measured


def test_shares_are_of_the_copy_forward_and_of_one_and_a_half_backward():
    for path in RECORDS:
        rows = json.loads(path.read_text())["rows"]
        copies = {(r["format"], r["direction"]): r for r in rows if r["provider"] == "copy_"}
        for one in rows:
            copy = copies[one["format"], one["direction"]]["median_us"]
            share = 100 * copy * norm.UNITS[one["direction"]] / one["median_us"]
            assert one["per_cent"] == pytest.approx(share, abs=0.06)


@pytest.mark.parametrize(
    ("per_cent", "verdict"), [(93.0, "met"), (92.4, "**missed by 0.6 points**")]
)
def test_a_bar_is_met_or_missed(per_cent, verdict):
    rows = [row(OURS, "forward", 1.0, per_cent, error=1e-3), row(OURS, "backward", 1.0, 80.0)]
    page = norm.report(results_of(rows))
    assert f"sbhd, forward: {per_cent} %, at least 93: {verdict}" in page
    assert "sbhd, backward: 80.0 %, at least 80: met" in page


def test_who_is_left_out_is_on_the_page():
    rows = [row(OURS, direction, 1.0, 95.0) for direction in norm.UNITS]
    left_out = {"format": "thd", "provider": "everybody", "why": "no time left"}
    assert "Left out: everybody (thd): no time left" in norm.report(results_of(rows, [left_out]))


def test_a_note_is_on_the_page():
    rows = [row(OURS, direction, 1.0, 95.0) for direction in norm.UNITS]
    page = norm.report(results_of(rows) | {"note": "Compare with Monday."})
    assert "\n\nCompare with Monday.\n\n- qk_norm_rope" in page


def test_a_wrong_result_is_not_timed():
    import torch

    wanted = tuple(torch.ones(3, dtype=torch.float64) for _ in range(6))
    found = tuple(torch.ones(3) for _ in range(6))
    assert norm._errors(found, wanted) == {"forward": 0.0, "backward": 0.0}
    with pytest.raises(ValueError, match="wrong"):
        norm._errors((*found[:5], 2 * found[5]), wanted)
