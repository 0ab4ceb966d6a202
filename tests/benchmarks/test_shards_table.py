"""The calls of a rank's share are right, and the page shows the record's figures, or none."""

import json
from dataclasses import replace

import pytest

from benchmarks import shards
from benchmarks.shards import CASES, FEW_HEADS, NORM, PAGE, PARTS, RESULTS, ROTATE
from rope_lab.timing import Timing


def made_up(calls):
    """Runs each call, and says 10 us for a copy, 12 for all others."""
    for call in calls.values():
        call()
    return {name: Timing(10.0 if name == "copy_" else 12.0, 9, 13, 0.01, 5) for name in calls}


def tiny(share):
    return replace(share, tokens=16, sequences=2, head_dim=16)


@pytest.mark.parametrize(
    "share", [s for s in FEW_HEADS if s.heads == 4], ids=lambda s: s.tensor_format
)
def test_few_heads_on_the_cpu(share):
    rows = shards.rows_of(tiny(share), shards.OF_FEW_HEADS, "cpu", made_up)
    assert [row["of_copy"] for row in rows] == [0.8333, 0.8333, 0.8333, 0.8333, 1.25]
    assert all(0 < row["error"] < shards.LARGEST_ERROR for row in rows)


def test_another_rank_is_an_error():
    """The reference takes its positions from `cp_positions`, so it would notice."""
    share = tiny(next(s for s in PARTS if s.cp_size == 4))
    inputs = shards.inputs_of(share, "cpu")
    want = inputs.exact.call(ROTATE, "forward")()
    assert shards.error_of(inputs.call(ROTATE, "forward")(), want) < shards.LARGEST_ERROR
    inputs.options["cp_rank"] = 1
    assert shards.error_of(inputs.call(ROTATE, "forward")(), want) > 0.1


def test_a_wrong_result_is_not_timed(monkeypatch):
    right = shards.rope_qk

    def wrong(q, k, *arguments, **options):
        return right(q, k, *arguments, **options) if "fused" in options else (q, k)

    monkeypatch.setattr(shards, "rope_qk", wrong)
    with pytest.raises(ValueError, match=r"error .* against fp64"):
        shards.rows_of(tiny(FEW_HEADS[0]), {(ROTATE, "forward"): 1.0}, "cpu", made_up)


def test_a_record_and_its_table():
    rows = [
        share.fields
        | {"what": what, "direction": direction, "us": 10.0, "of_copy": 0.8, "copies": copies}
        for share, asked in CASES
        for (what, direction), copies in asked.items()
    ]
    record = {"gpu": "a GPU", "versions": {"torch": "2"}, "date": "2026-11-22", "rows": rows}
    lines = shards.table(record).splitlines()
    assert lines[0].count("|") == 2 + 2 + 5 - 1 and NORM in lines[0]
    assert lines[2].startswith("| 8 + 1 | sbhd | 10.0 (80) | ")
    assert sum(line.startswith("| 8 | 16,384 |") for line in lines) == 4
    assert "a GPU, torch 2, 2026-11-22." in lines[-1]
    page = shards.with_table(PAGE.read_text(encoding="utf-8"), record)
    assert shards.between_marks(page) == shards.table(record)


def test_the_page_has_the_table_of_the_record_or_none():
    shown = shards.between_marks(PAGE.read_text(encoding="utf-8"))
    records = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")]
    assert shown in ([shards.table(record) for record in records] or [""])
