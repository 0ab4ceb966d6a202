"""Notebook 08's five limits: the record, the exercises and the checklist agree with each other."""

import json
import re

import pytest
import torch

from notebook_form import FOLDER
from rope_kernels import RotaryPositionEmbedding, reference
from rope_lab.profiling import machines
from rope_lab.records import recorded
from rope_lab.steps.fingerprint import CHANGES
from rope_lab.steps.five_limits import SETTINGS, Setting

CHECKLIST = FOLDER.parent / "docs" / "checklist.md"
_GAIN = re.compile(r"`(\d\d/[a-z0-9-]+)` ([^`|;]+)")


def limit_of(changes):
    """The table of section 5, asked from the top."""
    graph, programs, arithmetic, dtype, _ = (changes[name] or 1 for name in CHANGES)
    if graph < 0.7:
        return "host"
    if programs < 0.8 or programs > 1.25:
        return "starts" if programs < 1 else "latency"
    if arithmetic > 1.25:
        return "instructions"
    return "bytes" if dtype > 1.6 else "none"


def test_each_setting_runs_into_its_limit():
    found = recorded("08/five-limits").values
    assert {name: limit_of(changes) for name, changes in found.items()} == {
        name: name for name in SETTINGS
    }
    waits_for_hbm = {name for name, changes in found.items() if changes["warm L2"] < 0.8}
    assert waits_for_hbm == {"bytes", "latency"}


@pytest.mark.parametrize("changed", [{}, {"turns": 3}, {"programs": 3}, {"rows": 1}])
def test_no_knob_changes_the_rotation(changed, device):
    setting = Setting(**{"shape": (6, 2, 4, 16), "rows": 4, "dtype": torch.float32} | changed)
    torch.manual_seed(0)
    got = setting.call(device)()
    torch.manual_seed(0)
    t = torch.randn(setting.shape, device=device)
    wanted = reference.apply_rotary_pos_emb(t, RotaryPositionEmbedding(16).to(device)(6))
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def microseconds(key, case):
    record = json.loads((FOLDER / "records" / f"{key[:2]}.json").read_text())[key]
    if "cases" in record:
        return record["cases"][case]["median_us"]
    how, whose = case.split(", ")
    return record["values"][how][whose]


def test_the_checklists_gains_are_those_of_the_records():
    gains = _GAIN.findall(CHECKLIST.read_text())
    assert len(gains) >= 12
    for key, cases in gains:
        for said in re.split(r" → |, (?=copy \d)", cases.strip()):
            case, us = re.fullmatch(r"(.+) ([\d.]+)", said).groups()
            digits = len(us.partition(".")[2])
            assert f"{microseconds(key, case):.{digits}f}" == us, (key, case)


def test_the_checklist_names_both_gpus_times():
    found = machines.read(FOLDER / "records" / "machines.json").values()
    times = [machines.median_of_passes(gpu["headline"]["us"]) for gpu in found]
    (_, naive_100, ours_100), (_, naive_200, ours_200) = times
    text = CHECKLIST.read_text()
    assert f"from {ours_100:.0f} to {ours_200:.0f}" in text
    assert f"at {naive_100:.0f} and {naive_200:.0f}" in text
