"""The benchmark of norm and rotation: a run of tiny shapes, and its page."""

from dataclasses import replace

import pytest
from made_up_benchmark import FakeGPU, compiling_without_a_compiler

from benchmarks import __main__ as command
from benchmarks.case import BOTH_WAYS, Case, Group
from benchmarks.providers import NORMS
from benchmarks.sets import BENCHMARKS
from benchmarks.tables import load

OURS = "qk_norm_rope, on the fly", "qk_norm_rope, cos and sin"
OTHERS = {name for name in NORMS if name != "copy_"} - {*OURS}
TINY = Case(5, 1, 4, 16, k_heads=2, dtype="float32", freqs="module")
PACKED = replace(TINY, tensor_format="thd", cu_seqlens=(0, 2, 5))
VIEWS = "bhsd view of bshd memory"
BACKWARD = TINY.label, "backward", OURS[0]
IN_BHSD = replace(TINY, tensor_format="bhsd")
CASES = TINY, IN_BHSD, replace(IN_BHSD, stored="bshd"), PACKED


@pytest.fixture(autouse=True)
def compiled_without_a_compiler(monkeypatch):
    with compiling_without_a_compiler(monkeypatch):
        yield


def tiny_run(tmp_path):
    """Forward and backward of everybody, in the shape of a record."""
    (norm,) = [benchmark for benchmark in BENCHMARKS if benchmark.name == "norm"]
    norm = replace(norm, groups=(Group(CASES, BOTH_WAYS),))
    status = command.main(["norm", "--out", str(tmp_path)], FakeGPU(device="cpu"), [norm])
    return status, load(tmp_path / "made-up-norm.json")


def test_a_run_checks_measures_and_writes(tmp_path):
    status, results = tiny_run(tmp_path)
    assert status == 0 and results["complete"]
    assert not results["left_out"]  # others have each layout that ours has
    found = {(row["shape"], row["direction"], row["provider"]) for row in results["rows"]}
    assert found >= {(c.label, d, p) for c in CASES for d in BOTH_WAYS for p in (*OURS, *OTHERS)}
    assert all((row["error"] or 0) < 1e-6 for row in results["rows"])
    how = {row["shape"]: row["how"] for row in results["rows"] if row["provider"] in OTHERS}
    assert [how[case.label] for case in CASES] == ["sbhd", "bhsd", VIEWS, "thd"]
    shares = {(r["shape"], r["direction"], r["provider"]): r["of_limit"] for r in results["rows"]}
    assert shares[BACKWARD] == pytest.approx(1.5 * 10 / 20, abs=1e-4)  # it moves so much more


def test_a_wrong_gradient_of_a_weight_is_not_timed(tmp_path, monkeypatch):
    ours = type(NORMS[OURS[0]])
    function = ours.function

    def wrong(self, workload):
        right = function(self, workload)
        return lambda q, k, *weights: right(q, k, *(3 * w.detach() - 2 * w for w in weights))

    monkeypatch.setattr(ours, "function", wrong)
    status, results = tiny_run(tmp_path)
    directions = {(row["provider"], row["direction"]) for row in results["rows"]}
    assert status == 1
    assert (OURS[0], "forward") in directions and (OURS[0], "backward") not in directions
    failed = {(x["provider"], x["direction"]) for x in results["left_out"] if x["failed"]}
    assert failed == {(name, "backward") for name in OURS}
    assert f"- {OURS[0]}: Wrong: error " in (tmp_path / "made-up-norm.md").read_text("utf-8")
