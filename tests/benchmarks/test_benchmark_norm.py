"""The benchmark of norm and rotation: a run of tiny shapes, and its page."""

from dataclasses import replace

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks.case import Case
from benchmarks.kinds import NORM
from benchmarks.kinds.norm import NORM_OURS, UNITS
from benchmarks.providers.norm import TWO_KERNELS
from benchmarks.results import load
from benchmarks.sets import NORM as NORM_GROUPS
from benchmarks.workload import Workload
from made_up_benchmark import FakeGPU

OURS = "qk_norm_rope, on the fly"
FORMATS = "sbhd", "bhsd", "thd"
TINY = Case(5, 1, 4, 16, k_heads=2, dtype="float32", freqs="module")


def check_shares(rows):
    copies = {(r["format"], r["direction"]): r for r in rows if r["provider"] == "copy_"}
    for one in rows:
        copy = copies[one["format"], one["direction"]]["median_us"]
        share = 100 * copy * {"forward": 1, "backward": 1.5}[one["direction"]] / one["median_us"]
        assert one["per_cent"] == pytest.approx(share, abs=0.06)


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
    found = set()
    for one in results["rows"]:
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
    page = (tmp_path / "made-up-norm.md").read_text()
    assert f"- Left out: {OURS} (thd, backward): wrong: error " in page


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
