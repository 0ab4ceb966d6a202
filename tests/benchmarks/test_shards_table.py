"""A rank's share: its calls are right, and the page shows the record's figures."""

from dataclasses import replace

import pytest

from benchmarks import __main__ as command
from benchmarks import sets
from benchmarks.kinds import SHARDS
from benchmarks.kinds.shards import tables
from benchmarks.providers import NORM_AND_ROTATION, ROTATION, ROTATION_BY_TABLE, SHARES
from benchmarks.results import RESULTS, load
from benchmarks.workload import Workload
from made_up_benchmark import FakeGPU

FEW_HEADS, PARTS = sets.SHARDS


def tiny(case):
    cuts = tuple(range(0, 16 * case.cp_size + 1, 8 * case.cp_size)) if case.cu_seqlens else ()
    return replace(case, s=16, d=16, cu_seqlens=cuts, dtype="float32")


def run(tmp_path, *groups):
    kind = replace(SHARDS, sets={"shards": groups})
    status = command.main(["shards", "--out", str(tmp_path)], FakeGPU(device="cpu"), [kind])
    return status, load(tmp_path / "made-up-shards.json")


def test_a_run_is_right_and_has_what_the_page_shows(tmp_path):
    few = replace(FEW_HEADS, cases=tuple(tiny(case) for case in FEW_HEADS.cases[4:]))
    parts = replace(PARTS, cases=tuple(tiny(case) for case in PARTS.cases if case.cp_size == 4))
    status, results = run(tmp_path, few, parts)
    assert status == 0 and results["complete"] and results["record"]
    assert {left["provider"] for left in results["left_out"]} == {NORM_AND_ROTATION}
    assert {left["cp_size"] for left in results["left_out"]} == {4}
    rows = [row for row in results["rows"] if row["provider"] != "copy_"]
    assert set(rows[0]) >= set(load(RESULTS / "nvidia-h200-shards.json")["rows"][0])
    calls = {(row["provider"], row["direction"]): row for row in rows}
    assert len(calls) == 6 and len(rows) == 4 * 6 + 4 * 4
    for (name, direction), row in calls.items():
        copies = 1.5 if (name, direction) == (NORM_AND_ROTATION, "backward") else 1.0
        assert row["copies"] == copies and 0 < row["error"] < 1e-6
        assert row["of_copy"] == pytest.approx(copies * row["copy_us"] / row["median_us"], abs=1e-4)


def test_another_rank_is_an_error(monkeypatch):
    """The reference takes its positions from `cp_positions`, so it would notice."""
    case = tiny(next(case for case in PARTS.cases if case.cp_size == 4))
    workload, rotation = Workload(case, "cpu"), SHARES[ROTATION]

    def error():
        one = rotation.run(workload, rotation.function(workload), "forward")
        return workload.error(one.call(), one.layout, "forward")

    assert error() < rotation.allowed_error(case)
    monkeypatch.setattr(Workload, "ranks", {"cp_size": 4, "cp_rank": 1, "cp_order": "zigzag"})
    assert error() > 0.1


def test_a_wrong_result_is_not_timed(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.providers.ours.rope_qk", lambda q, k, *_, **options: (q, k))
    status, results = run(tmp_path, replace(FEW_HEADS, cases=(tiny(FEW_HEADS.cases[0]),)))
    assert status == 1
    wrong = {left["provider"]: left["why"] for left in results["left_out"]}
    assert set(wrong) == {ROTATION, ROTATION_BY_TABLE} and "against fp64" in wrong[ROTATION]


def test_the_page_has_the_table_of_the_record():
    record = load(RESULTS / "nvidia-h200-shards.json")
    (table,) = tables(record)
    lines = table.text.splitlines()
    assert lines[2].startswith("| 8 + 1 | sbhd | 13.1 (99) | ")
    assert sum(line.startswith("| 8 | 16,384 |") for line in lines) == 4
    page = table.file.read_text(encoding="utf-8")
    assert table.filled_in(page) == page
    record["rows"][0]["median_us"] += 1
    assert tables(record)[0].filled_in(page) != page
