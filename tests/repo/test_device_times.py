"""The tool that times two checkouts on a GPU, with its timer replaced where there is none."""

import json
import os
import subprocess
import sys

import pytest
import torch

import device_times
import rope_kernels
from processes import ROOT
from rope_lab.compiler.plans import launched_by, plans
from rope_lab.timing import Timing

CASES = {case.title: case for case in device_times.all_cases()}
PACKAGES = rope_kernels, rope_kernels


def timing(microseconds, spread=0.0):
    return Timing(microseconds, microseconds, microseconds, spread, 1)


def run(*arguments):
    command = [sys.executable, "tools/device_times.py", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")


@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize("group", ("core", "wide", "cache", "split", "norm", "row"))
def test_what_is_timed_is_one_launch_and_what_it_is_held_against_has_its_bytes(group, monkeypatch):
    """A norm's backward is two: the second adds up the weights' gradients."""
    monkeypatch.setattr(torch, "randn_like", torch.empty_like)  # which costs nothing
    cases = [case for case in device_times.all_cases() if case.group == group]
    for case in cases:
        call = case.call(rope_kernels)
        with plans() as found:
            timed = device_times.run_of(call, case.backward)
            before = len(found)
            results = timed()
        of_norm = group == "norm" or (case.row is not None and case.row.is_norm)
        assert len(found) - before == (2 if of_norm and case.backward else 1), case.title
        copied = sum(x.nbytes for x in call.rows)
        rows = results if isinstance(results, tuple) else (results,)
        if group == "cache" or (case.row is not None and case.row.to_cache):  # k and v are in it
            assert copied == results.nbytes // 32 * (32 + 8 + 8), case.title
        else:
            assert copied == sum(x.nbytes for x in rows if x.dim() > 1), case.title
    assert len({case.title for case in cases}) == len(cases)


@pytest.mark.parametrize("title", [title for title, case in CASES.items() if case.row is not None])
def test_the_formula_of_a_limit_counts_what_a_call_is_given(title):
    """Its tables have as many positions as it needs; but a step that decodes leaves most alone."""
    row, call = CASES[title].row, CASES[title].call(rope_kernels)
    assert row.copied == 2 * sum(x.nbytes for x in call.rows)
    freqs = call.given[3 if row.to_cache else len(call.rows) + 2 * row.is_norm]
    if isinstance(freqs, torch.nn.Module):
        table = freqs.inv_freq.numel() * 8
    else:
        parts = freqs if isinstance(freqs, tuple) else (freqs,)
        table = sum(x[: row.positions].nbytes for x in parts)
        assert row.decodes or len(parts[0]) == row.positions
    weights = sum(x.nbytes for x in call.given[2:4]) if row.is_norm else 0
    ids, cuts = call.options.get("position_ids"), call.options.get("cu_seqlens")
    wanted = {
        "table": table,
        "position ids": 0 if ids is None else ids.nbytes,
        "slots": call.given[-1].nbytes if row.to_cache else 0,
        "cu_seqlens": 0 if cuts is None else cuts.nbytes,
        "weights": weights,
        "gradients of weights": weights if row.backward else 0,
    }
    assert {name: row.moved[name] for name in wanted} == wanted
    if ids is not None:
        assert len(ids.unique()) == row.positions


def test_a_copy_has_all_rows_of_a_call():
    rows = torch.arange(6).view(2, 3), torch.arange(6, 10)
    call = device_times.Call(None, (), {}, rows)
    assert torch.equal(device_times.copy_of(call)(), torch.arange(10))


@pytest.fixture
def figures(monkeypatch):
    """Times that a timer would have taken, and how it was asked."""
    asked = {}

    def measure(runs, rounds):
        asked["rounds"], asked["names"] = rounds, list(runs)
        return {"before": timing(40.0, 0.01), "after": timing(50.0), "copy_": timing(36.0)}

    monkeypatch.setattr(device_times, "measure", measure)
    monkeypatch.setattr(torch, "randn_like", torch.empty_like)
    return asked


@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize(
    ("title", "before", "after"),
    (
        ("core, bshd, in place", 90.0, 72.0),
        ("split, d=80, qkv, bshd, backward", 90.0, 72.0),
        ("norm, thd, on the fly, forward", 90.0, 72.0),
        ("norm, thd, on the fly, backward", 135.0, 108.0),
    ),
)
def test_figures_are_per_cent_of_a_copy(title, before, after, figures):
    """Of one and a half of a norm's backward, which reads what its forward read, too."""
    with launched_by(lambda *launch: None):
        row = device_times.time_case(CASES[title], PACKAGES, 3)
    assert figures == {"rounds": 3, "names": ["before", "after", "copy_"]}
    assert (row["before"], row["after"], row["scatter"]) == (before, after, round(after / 100, 2))
    assert row["microseconds"] == {"before": 40.0, "after": 50.0, "copy_": 36.0}
    assert f"{after - before:+.1f}" in device_times.line_of(row)


@pytest.mark.usefixtures("needs_triton")
def test_a_row_has_its_limit_and_how_much_of_it_the_call_after_reaches(figures):
    title = "row, qk_norm_rope, bshd, 2x4096 tokens, norm after, backward, fp32 cos and sin (s, d)"
    with launched_by(lambda *launch: None):
        row = device_times.time_case(CASES[title], PACKAGES, 3)
    assert (row["after"], row["limit"]) == (108.0, 97.74)
    assert device_times.line_of(row).endswith("97.7   110.5%")


@pytest.mark.usefixtures("needs_triton")
def test_a_step_that_decodes_is_timed_beside_a_rotation_in_place(figures, monkeypatch):
    times = {"before": 6.0, "after": 5.5, "copy_": 4.0, device_times.ROTATION: 5.0}

    def measure(runs, rounds):
        assert list(runs) == list(times)
        runs[device_times.ROTATION]()
        return {name: timing(time) for name, time in times.items()}

    monkeypatch.setattr(device_times, "measure", measure)
    with launched_by(lambda *launch: None):
        row = device_times.time_case(
            CASES["row, rope_to_cache, 64 tokens, on the fly"], PACKAGES, 3
        )
    assert row["rotations"] == 1.1
    assert device_times.line_of(row).endswith("1.10 times rope_qk in place")


def test_a_call_that_a_checkout_refuses_has_a_row_that_says_why(figures):
    class Older:
        RotaryPositionEmbedding = rope_kernels.RotaryPositionEmbedding

    row = device_times.time_case(CASES["core, bshd, in place"], (Older, rope_kernels), 3)
    assert row["refused"] == "AttributeError: type object 'Older' has no attribute 'rope_qk'"
    assert row["refused"] in device_times.line_of(row)
    assert list(device_times.by_group([row])) == []


def test_a_group_has_its_medians_and_the_range_of_what_differs():
    figures = (90.0, 91.0), (92.0, 90.0), (95.0, 95.0)
    rows = [{"group": "core", "before": before, "after": after} for before, after in figures]
    (line,) = device_times.by_group(rows)
    words, figures = "core median of 3 calls", "92.0 91.0 -2.0 to +1.0"
    assert " ".join(line.split()) == f"{words} {figures}"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_that_it_needs_one():
    said = run(".", ".")
    assert said.returncode == 1 and said.stdout == ""
    assert said.stderr.startswith("device_times.py needs a GPU") and said.stderr.count("\n") == 1


STUBBED = """
import sys
import torch
import device_times
from rope_lab.compiler.plans import launched_by
from rope_lab.timing import Timing

def measure(runs, rounds):
    return {name: Timing(us, us, us, 0.0, 1) for name, us in zip(runs, (40.0, 50.0, 36.0))}

device_times.require_compiled_kernels = lambda: None
device_times.compile_all = lambda numbers, folder, processes: None
device_times.measure = measure
torch.randn_like = torch.empty_like
with launched_by(lambda *launch: None):
    sys.exit(device_times.main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("needs_triton")
def test_both_checkouts_are_called_and_reported_where_a_timer_is_stubbed(tmp_path):
    file = tmp_path / "times.json"
    only = "--only", "norm, bshd fly", "--json", str(file)
    command = [sys.executable, "-c", STUBBED, ".", ".", *only]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"}
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8")
    assert said.returncode == 0, said.stderr
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert [(row["call"], row["before"], row["after"]) for row in rows] == [
        ("bshd, on the fly, forward", 90.0, 72.0),
        ("bshd, on the fly, backward", 135.0, 108.0),
    ]
    lines = [line.split() for line in said.stdout.splitlines()]
    assert lines[3][:6] == ["norm", "bshd,", "on", "the", "fly,", "forward"], said.stdout
    assert lines[-2][:2] == ["norm", "median"]


@pytest.mark.gpu
@pytest.mark.slow
def test_both_checkouts_are_timed(tmp_path):
    file = tmp_path / "times.json"
    said = run(".", ".", "--only", "d=80 bshd backward", "--turns", 1, "--json", file)
    assert said.returncode == 0, said.stderr
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert [row["call"] for row in rows] == [
        "d=80, qkv, bshd, backward",
        "d=80, grouped, bshd, backward",
    ]
    assert all(10 < row[name] < 120 for row in rows for name in ("before", "after"))
