"""The benchmark of norm and rotation: its record, its page, its verdicts, a run of tiny shapes."""

import json
from dataclasses import replace

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks.case import Case
from benchmarks.kinds import NORM, norm
from benchmarks.kinds.norm import NORM_OURS, UNITS
from benchmarks.providers import NORMS
from benchmarks.providers.norm import TWO_KERNELS
from benchmarks.results import RESULTS, load
from benchmarks.sets import NORM as NORM_GROUPS
from benchmarks.workload import Workload
from made_up_benchmark import FakeGPU

RECORDS = sorted(RESULTS.glob("*-norm.json"))
OURS = "qk_norm_rope, on the fly"
FORMATS = "sbhd", "bhsd", "thd"
TINY = Case(5, 1, 4, 16, k_heads=2, dtype="float32", freqs="module")


def row(provider, direction, us, per_cent, tensor_format="sbhd", **more):
    about = {"format": tensor_format, "direction": direction, "provider": provider}
    return about | {"median_us": us, "per_cent": per_cent} | more


def results_of(rows, left_out=()):
    about = {"gpu": "a GPU", "versions": {"torch": "0"}, "date": "2026-11-21"}
    return about | {"rows": rows, "left_out": list(left_out)}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_page_is_made_of_a_record_that_is_whole(path):
    results = json.loads(path.read_text())
    assert path.with_suffix(".md").read_text() == norm.page(results)
    assert results["gpu"] and results["versions"]["triton"] and results["date"]
    for one in results["rows"]:
        allowed = NORMS[one["provider"]].allowed_error(NORM_GROUPS[0].cases[0])
        assert one["provider"] == "copy_" or one["error"] < allowed
    measured = {one["format"] for one in results["rows"]}
    assert {x["format"] for x in results["left_out"]} >= set(FORMATS) - measured
    check_shares(results["rows"])


def check_shares(rows):
    copies = {(r["format"], r["direction"]): r for r in rows if r["provider"] == "copy_"}
    for one in rows:
        copy = copies[one["format"], one["direction"]]["median_us"]
        share = 100 * copy * {"forward": 1, "backward": 1.5}[one["direction"]] / one["median_us"]
        assert one["per_cent"] == pytest.approx(share, abs=0.06)


@pytest.mark.parametrize(
    ("per_cent", "verdict"), [(93.0, "met"), (92.4, "**missed by 0.6 points**")]
)
def test_a_bar_is_met_or_missed(per_cent, verdict):
    rows = [row(OURS, "forward", 1.0, per_cent, error=1e-3), row(OURS, "backward", 1.0, 80.0)]
    page = norm.page(results_of(rows))
    assert f"sbhd, forward: {per_cent} %, at least 93: {verdict}" in page
    assert "sbhd, backward: 80.0 %, at least 80: met" in page


def test_who_is_left_out_is_on_the_page():
    rows = [row(OURS, "forward", 1.0, 95.0)]  # its backward failed
    left_out = {"format": "thd", "provider": "everybody", "why": "no time left"}
    results = results_of(rows, [left_out]) | {"note": "Compare with Monday."}
    results["providers"] = {OURS: {"absent": None}, "Liger": {"absent": "not installed"}}
    page = norm.page(results)
    assert "Left out: everybody (thd): no time left" in page
    assert "\n\nCompare with Monday.\n\n- qk_norm_rope" in page
    assert "Left out: Liger: not installed" in page
    assert f"| sbhd | {OURS} | 1.0 µs | 95% | | | – |" in page


def tiny_run(tmp_path):
    """Forward and backward of everybody who needs no GPU, in the shape of a record."""
    group = replace(NORM_GROUPS[0], cases=(TINY,), beside=(TWO_KERNELS, "eager, fp32"))
    packed = replace(TINY, tensor_format="thd", cu_seqlens=(0, 2, 5))
    others = replace(NORM_GROUPS[1], cases=(replace(TINY, tensor_format="bhsd"), packed))
    kind = replace(NORM, sets={"norm": (group, others)})
    status = command.main(["norm", "--out", str(tmp_path)], FakeGPU(device="cpu"), [kind])
    return status, load(tmp_path / "made-up-norm.json")


def test_a_run_checks_measures_and_writes(tmp_path):
    status, results = tiny_run(tmp_path)
    assert status == 0 and results["complete"] and not results["left_out"]
    of_a_record = json.loads(RECORDS[0].read_text())
    assert set(results) >= set(of_a_record) - {"note"}
    fields = {one["provider"] == "copy_": set(one) for one in of_a_record["rows"]}
    found = set()
    for one in results["rows"]:
        assert set(one) == fields[one["provider"] == "copy_"]
        assert one.get("error", 0) < 1e-6
        found.add((one["format"], one["direction"], one["provider"]))
    everywhere = {(f, d, p) for f in FORMATS for d in UNITS for p in (*NORM_OURS, TWO_KERNELS)}
    assert found >= everywhere | {("sbhd", d, "eager, fp32") for d in UNITS}
    check_shares(results["rows"])
    assert "| bhsd | copy_ |" in (tmp_path / "made-up-norm.md").read_text()


def test_a_wrong_gradient_of_a_weight_is_not_timed(tmp_path, monkeypatch):
    ours = type(NORM.providers[OURS])
    function = ours.function

    def wrong(self, workload):
        right = function(self, workload)
        return lambda q, k, *weights: right(q, k, *(3 * w.detach() - 2 * w for w in weights))

    monkeypatch.setattr(ours, "function", wrong)
    status, results = tiny_run(tmp_path)
    directions = {(one["provider"], one["direction"]) for one in results["rows"]}
    assert status == 1 and (OURS, "forward") in directions and (OURS, "backward") not in directions
    assert {(x["provider"], x["direction"]) for x in results["left_out"]} == {
        (name, "backward") for name in NORM_OURS
    }


@pytest.mark.parametrize("direction", UNITS)
def test_a_wrong_result_is_found(direction):
    workload = Workload(TINY, "cpu")
    right = tuple(t.float() for t in workload.normalized[direction])
    assert workload.norm_error(right, direction) < 1e-6
    for spoiled in (2 * right[-1], right[-1] * float("nan")):
        assert not workload.norm_error((*right[:-1], spoiled), direction) <= 2e-2
    with pytest.raises(ValueError, match="results have shapes"):
        workload.norm_error((*right[:-1], right[-1][..., :-1]), direction)
    assert torch.equal(right[0], workload.normalized[direction][0].float())
