"""The tool that times two checkouts on a GPU: what it times, and what it holds that against."""

import json
import subprocess
import sys

import pytest
import torch

import device_times
import rope_kernels
from processes import ROOT
from rope_lab.compiler.plans import plans

CASES = {case.title: case for case in device_times.all_cases()}
ROWS = [title for title, case in CASES.items() if case.group == "row"]
GROUPS = {case.group.split()[0] for case in CASES.values()}


def run(*arguments):
    command = [sys.executable, "tools/device_times.py", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")


@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize("group", sorted(GROUPS))
def test_what_is_timed_is_one_launch_and_what_it_is_held_against_has_its_bytes(group, monkeypatch):
    """A norm's backward is two: the second adds up the weights' gradients."""
    monkeypatch.setattr(torch, "randn_like", torch.empty_like)  # which costs nothing
    cases = [case for case in device_times.all_cases() if case.group.split()[0] == group]
    for case in cases:
        call = case.call(rope_kernels)
        with plans() as found:
            timed = device_times.run_of(call, case.backward)
            before = len(found)
            results = timed()
        assert len(found) - before == (2 if case.row.is_norm and case.backward else 1), case.title
        copied = sum(x.nbytes for x in call.rows)
        rows = results if isinstance(results, tuple) else (results,)
        if case.row.to_cache:  # k and v are in it
            assert copied == results.nbytes // 32 * (32 + 8 + 8), case.title
        else:
            assert copied == sum(x.nbytes for x in rows if x.dim() > 1), case.title
    assert len({case.title for case in cases}) == len(cases)


@pytest.mark.parametrize("title", ROWS)
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_that_it_needs_one():
    said = run(".", ".")
    assert said.returncode == 1 and said.stdout == ""
    assert said.stderr.startswith("device_times.py needs a GPU") and said.stderr.count("\n") == 1


@pytest.mark.gpu
@pytest.mark.slow
def test_both_checkouts_are_timed(tmp_path):
    file = tmp_path / "times.json"
    said = run(".", ".", "--only", "split d=80 bshd backward", "--turns", 1, "--json", file)
    assert said.returncode == 0, said.stderr
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert [row["call"] for row in rows] == [
        "qkv, bshd, backward",
        "grouped, bshd, backward",
    ]
    assert all(10 < row[name] < 120 for row in rows for name in ("before", "after"))
