"""The limit that each row of the benchmark has of its own, and its page.

What a row moves is held against the tensors of its call in `test_device_times.py`.
"""

from dataclasses import replace

import pytest
import torch
from made_up_benchmark import FakeGPU

from benchmarks import __main__ as command
from benchmarks.case import FP32, OURS, ROTATION, Group, Row
from benchmarks.providers.rows import (
    PROVIDERS,
    CompiledNorm,
    CopyOfRows,
    OursOfRows,
    RotationInPlace,
)
from benchmarks.tables import BENCHMARKS, ROWS, load, page

PARTIALS = 132 * 12 * 128 * 4 * 2  # each program's, written and read


def test_a_norms_backward_has_one_and_a_half_copies_two_gradients_and_partial_sums():
    row = Row("qk_norm_rope", FP32, "bshd", s=4096, b=2, backward=True)
    rows = 8192 * 40 * 128 * 2 * 3  # rows and gradients are read, gradients are written
    others = 4096 * 2 * 512 + 2 * 2 * 256 + PARTIALS
    assert sum(row.moved.values()) == rows + others
    assert row.own_limit == pytest.approx(rows / (rows + others))
    assert 0.97 < row.own_limit < 0.98


def test_each_row_has_a_name_of_its_own_and_a_limit_below_a_copy():
    labels = [row.label for row in ROWS]
    assert len(set(labels)) == len(labels)
    assert all(str(row.table) in row.label for row in ROWS)
    assert all(0.8 < row.own_limit < 1 for row in ROWS)


# a run of tiny rows

SETS = {one.name: one for one in BENCHMARKS if one.has_own_limits}
(BESIDE_PYTORCH,) = (one for one in BENCHMARKS if one.name == "norm")


def tiny(row):
    """The same call with few tokens and heads."""
    sizes = {"s": 8, "h": 4, "k_heads": min(row.k_heads, 2), "d": 16, "cuts": (0, 3, 8)}
    return replace(row, **sizes)


def run(name, tmp_path, *others):
    measured = SETS.get(name, BESIDE_PYTORCH)
    groups = tuple(Group(tuple(map(tiny, x.cases)), x.directions) for x in measured.groups)
    providers = CopyOfRows(), OursOfRows(), RotationInPlace(), *others
    benchmark = replace(measured, groups=groups, providers=providers)
    status = command.main([name, "--out", str(tmp_path)], FakeGPU(device="cpu"), [benchmark])
    results = load(tmp_path / f"made-up-{name}.json")
    return status, results, page(results)


def test_every_row_is_in_one_of_the_sets():
    measured = [row for one in SETS.values() for group in one.groups for row in group.cases]
    assert sorted(row.label for row in measured) == sorted(row.label for row in ROWS)


@pytest.mark.parametrize("name", SETS)
def test_each_row_is_checked_against_fp64_and_shown_beside_its_limit(name, tmp_path):
    status, results, shown = run(name, tmp_path)
    assert status == 0 and not results["left_out"], results["left_out"]
    rows = {(row["shape"], row["provider"]): row for row in results["rows"]}
    for group in SETS[name].groups:
        for case in map(tiny, group.cases):
            ours = rows[case.label, OURS]
            assert 0 < ours["error"] <= 1e-2 and rows[case.label, "copy_"]["error"] is None
            assert ours["own_limit"] == round(case.own_limit, 4)
            assert ours["of_limit"] == pytest.approx(case.copies * 0.985, abs=1e-3)
            assert ((case.label, ROTATION) in rows) == case.decodes
            of_its_limit = f"{ours['of_limit'] / ours['own_limit']:.1%}"
            assert f"| {case.label} | {ours['own_limit']:.1%} | 10.0 µs |" in shown
            assert f"{ours['of_limit']:.1%} (10.2 µs) | {of_its_limit} |" in shown
    # A step that decodes: the clocks of tests say 10.2 and 20 us.
    assert ("0.51 times 20.0 µs" in shown) == name.startswith("cache")


def test_norms_by_torch_compile_are_right(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    compiled = [provider for provider in PROVIDERS if isinstance(provider, CompiledNorm)]
    status, results, shown = run("norm", tmp_path, *compiled)
    assert status == 0 and not results["left_out"], results["left_out"]
    by_table = [row for row in results["rows"] if "cos and sin" in row["shape"]]
    assert len(by_table) == 8 * (2 + 2)
    assert "| qk_norm_rope, bhsd, 1x8 tokens, stored bshd, forward, " in shown
