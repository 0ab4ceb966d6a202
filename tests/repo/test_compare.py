"""The tool that compares two checkouts: it plans every call, and says what differs."""

import json
import shutil

import pytest
import torch

import compare
import rope_kernels
from processes import ROOT

# A call of `rope_qk` becomes one in fp32, whatever the kernel is.
IN_FP32 = """
_in_bf16 = rope_qk

def rope_qk(q, k, *arguments, **options):
    return _in_bf16(q.float(), k.float(), *arguments, **options)
"""


@pytest.mark.usefixtures("needs_triton")
def test_every_call_is_planned_and_has_a_title_of_its_own():
    calls = compare.all_calls()
    assert len({call.title for call in calls}) == len(calls)
    for call in calls:
        case, launches = call.case, compare.launches_of(call, rope_kernels)
        # A norm's backward is two: the second adds up the weights' gradients.
        backward = 2 if case.is_norm else 1
        assert len(launches) == 1 + backward * case.is_backward, call.title


@pytest.mark.skipif(torch.cuda.is_available(), reason="times are compared on a GPU")
@pytest.mark.needs_compiler
def test_a_changed_call_is_told_and_no_other(tmp_path, capsys):
    file = tmp_path / "found.json"
    shutil.copytree(ROOT / "rope_kernels", tmp_path / "rope_kernels")
    with (tmp_path / "rope_kernels/__init__.py").open("a", encoding="utf-8") as source:
        source.write(IN_FP32)
    options = ["--only", "8192 thd forward fly d=80", "--json", str(file)]
    assert compare.main([str(ROOT), str(tmp_path), *options]) == 1
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    changed = {row["call"].partition(",")[0] for row in rows if row["differs"]}
    assert changed == {"rope_qk"} and len(rows) == 2  # the other is a norm
    assert "instructions" in capsys.readouterr().out
    assert compare.main([str(ROOT), str(ROOT), *options]) == 0


@pytest.mark.gpu
def test_both_checkouts_are_timed(tmp_path):
    file = tmp_path / "found.json"
    options = ["--only", "split d=80", "--json", str(file)]
    assert compare.main([str(ROOT), str(ROOT), *options]) == 0
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 2
    assert all(10 < row[name] < 120 for row in rows for name in ("before", "after"))
