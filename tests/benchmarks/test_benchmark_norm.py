"""The benchmark of norm and rotation: a run of tiny shapes, and its page."""

from dataclasses import replace

import pytest

from benchmarks import __main__ as command
from benchmarks.case import BOTH_WAYS, Case, Group
from benchmarks.providers import NORMS
from benchmarks.sets import BENCHMARKS
from benchmarks.tables import load
from made_up_benchmark import FakeGPU

OURS = "qk_norm_rope, on the fly", "qk_norm_rope, cos and sin"
TWO_KERNELS, EAGER = "rms_norm of PyTorch, then rope_qk", "eager, fp32"
TINY = Case(5, 1, 4, 16, k_heads=2, dtype="float32", freqs="module")
PACKED = replace(TINY, tensor_format="thd", cu_seqlens=(0, 2, 5))
BACKWARD = TINY.label, "backward", OURS[0]
CASES = TINY, replace(TINY, tensor_format="bhsd"), PACKED


def tiny_run(tmp_path):
    """Forward and backward of everybody who needs no GPU, in the shape of a record."""
    (norm,) = [benchmark for benchmark in BENCHMARKS if benchmark.name == "norm"]
    providers = tuple(NORMS[name] for name in ("copy_", *OURS, TWO_KERNELS, EAGER))
    norm = replace(norm, groups=(Group(CASES, BOTH_WAYS),), providers=providers)
    status = command.main(["norm", "--out", str(tmp_path)], FakeGPU(device="cpu"), [norm])
    return status, load(tmp_path / "made-up-norm.json")


def test_a_run_checks_measures_and_writes(tmp_path):
    status, results = tiny_run(tmp_path)
    assert status == 0 and results["complete"]
    assert {(left["provider"], left["failed"]) for left in results["left_out"]} == {(EAGER, False)}
    found = {(row["shape"], row["direction"], row["provider"]) for row in results["rows"]}
    everywhere = {(c.label, d, p) for c in CASES for d in BOTH_WAYS for p in (*OURS, TWO_KERNELS)}
    assert found >= everywhere | {(TINY.label, d, EAGER) for d in BOTH_WAYS}
    assert all((row["error"] or 0) < 1e-6 for row in results["rows"])
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
    assert f"- {OURS[0]}: Wrong: error " in (tmp_path / "made-up-norm.md").read_text()
