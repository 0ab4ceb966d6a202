"""The benchmark of rows that have a limit of their own: a run of tiny rows, and its page."""

from dataclasses import replace

import pytest
import torch
from made_up_benchmark import FakeGPU

from benchmarks import __main__ as command
from benchmarks.case import OURS, ROTATION, Group
from benchmarks.own_limit import ROWS
from benchmarks.providers import ROW_PROVIDERS
from benchmarks.providers.rows import CopyOfRows, OursOfRows, PackedNorm, RotationInPlace
from benchmarks.row_inputs import RowInputs
from benchmarks.sets import BENCHMARKS
from benchmarks.tables import load

SETS = {one.name: one for one in BENCHMARKS if one.name.endswith("-limits")}
OURS_ALONE = CopyOfRows(), OursOfRows(), RotationInPlace()


def tiny(row):
    """The same call with few tokens and heads."""
    sizes = {"s": 8, "h": 4, "k_heads": min(row.k_heads, 2), "d": 16, "cuts": (0, 3, 8)}
    return replace(row, **sizes)


class PackedInPyTorch(PackedNorm):
    """What a kernel of others would do to a packed projection."""

    name = "in PyTorch"

    def make(self, inputs):
        qkv = self.packed(inputs)
        outs = self.q_and_k(inputs, qkv)

        def norm():
            for out, right in zip(outs, inputs.right(), strict=True):
                out.copy_(right)
            assert not torch.equal(qkv, self.packed(inputs))  # q and k are views of it
            return outs

        return norm


def run(name, tmp_path, providers=OURS_ALONE):
    groups = tuple(Group(tuple(map(tiny, x.cases)), x.directions) for x in SETS[name].groups)
    benchmark = replace(SETS[name], groups=groups, providers=providers)
    status = command.main([name, "--out", str(tmp_path)], FakeGPU(device="cpu"), [benchmark])
    return status, load(tmp_path / f"made-up-{name}.json"), tmp_path / f"made-up-{name}.md"


def test_every_row_is_in_one_of_the_sets():
    measured = [row for one in SETS.values() for group in one.groups for row in group.cases]
    assert sorted(row.label for row in measured) == sorted(row.label for row in ROWS)


@pytest.mark.parametrize("name", SETS)
def test_each_row_is_checked_against_fp64_and_has_its_limit(name, tmp_path):
    status, results, page = run(name, tmp_path)
    assert status == 0 and not results["left_out"], results["left_out"]
    rows = {(row["shape"], row["provider"]): row for row in results["rows"]}
    for group in SETS[name].groups:
        for case in map(tiny, group.cases):
            ours = rows[case.label, OURS]
            assert 0 < ours["error"] <= 1e-2 and rows[case.label, "copy_"]["error"] is None
            assert ours["own_limit"] == round(case.own_limit, 4)
            assert ours["of_limit"] == pytest.approx(case.copies * 0.985, abs=1e-3)
            assert ((case.label, ROTATION) in rows) == case.decodes
            assert f"| {case.label} | {ours['own_limit']:.1%} | 10.0 µs |" in page.read_text()


def test_a_step_that_decodes_is_compared_with_a_rotation_in_place(tmp_path):
    _, _, page = run("cache-limits", tmp_path)
    assert "0.51 times 20.0 µs" in page.read_text()  # the fake clock has 10.2 and 20 us


def test_somebody_who_writes_nothing_is_not_right_by_what_others_wrote(tmp_path):
    class Idle(OursOfRows):
        name = "idle"

        def make(self, inputs):
            return lambda: (inputs.tensors[0], inputs.k_cache, inputs.v_cache)

    status, results, _ = run("cache-limits", tmp_path, (*OURS_ALONE, Idle()))
    assert status == 1
    assert not [row for row in results["rows"] if row["provider"] == "idle"]
    assert all(left["why"].startswith("Wrong: error") for left in results["left_out"])


def test_the_fastest_of_the_others_is_beside_ours(tmp_path):
    status, results, page = run("norm-limits", tmp_path, (*OURS_ALONE, PackedInPyTorch()))
    assert status == 0 and not results["left_out"]
    found = {row["shape"] for row in results["rows"] if row["provider"] == "in PyTorch"}
    forward, *_ = SETS["norm-limits"].groups
    wanted = [row for row in map(tiny, forward.cases) if PackedInPyTorch().suits(row)]
    assert found == {row.label for row in wanted} and len(found) > 5
    assert "in PyTorch: 50.0%" in page.read_text()


def test_a_mean_over_all_heads_is_another_norm():
    (row,) = [
        x for x in ROWS if x.label == "qk_norm_rope, bshd, 2x4096 tokens, forward, on the fly"
    ]
    inputs = RowInputs(tiny(row), "cpu")
    q, _ = inputs.right(over_all_heads=True)
    x = inputs.tensors[0].double()
    wanted = x * (x.square().mean((2, 3), keepdim=True) + 1e-6).rsqrt() * inputs.weights[0].double()
    torch.testing.assert_close(q.norm(dim=-1)[:, 0], wanted.norm(dim=-1)[:, 0])
    torch.testing.assert_close(q[:, 0], wanted[:, 0])  # position 0 does not turn
    assert not torch.allclose(q, inputs.right()[0])


def test_each_of_the_others_says_which_rows_it_has():
    suited = {
        name: {row.function for row in ROWS if provider.suits(row)}
        for name, provider in ROW_PROVIDERS.items()
    }
    assert suited["vLLM"] == suited["SGLang"] == {"qk_norm_rope"}
    assert suited["flashinfer, one norm of all heads"] == {"qk_norm_rope"}
    assert suited["vLLM, rotate then write"] == suited["flashinfer"] == {"rope_to_cache"}
    others = [p for p in ROW_PROVIDERS.values() if not p.is_ours_or_a_limit]
    assert not any(provider.suits(row) for provider in others for row in ROWS if row.backward)
