"""The tool that compares machine code: it plans every call, and says what differs."""

import json
import shutil
import subprocess
import sys

import pytest

import rope_kernels
import sized_calls
from processes import ROOT
from rope_lab.compiler.plans import plans_of

# A call of `rope_qk` becomes one in fp32, whatever the kernel is.
IN_FP32 = """
_in_bf16 = rope_qk

def rope_qk(q, k, *arguments, **options):
    return _in_bf16(q.float(), k.float(), *arguments, **options)
"""


@pytest.mark.usefixtures("needs_triton")
def test_every_call_has_a_plan_and_a_name_of_its_own():
    cases = sized_calls.all_cases()
    assert len({case.title for case in cases}) == len(cases)
    launches = {}
    for case in cases:
        call = case.call(rope_kernels)
        plans = plans_of(call.function, *call.given, **call.options)
        launches.setdefault(case.group.split()[0], set()).add(len(plans))
    assert launches.pop("backward") == {1, 2}  # of `rope_bw`; of `rope_qk` and its backward
    assert launches == {"qk": {1}, "options": {1}, "cache": {1}, "split": {2}, "norm": {3}}


def run(*arguments):
    command = [sys.executable, "tools/machine_code.py", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("needs_triton")
def test_a_changed_call_is_told_and_no_other(tmp_path):
    file = tmp_path / "code.json"
    shutil.copytree(ROOT / "rope_kernels", tmp_path / "rope_kernels")
    with (tmp_path / "rope_kernels/__init__.py").open("a", encoding="utf-8") as source:
        source.write(IN_FP32)
    options = "--only", "backward d=80 sbhd", "--json", file
    said = run(".", tmp_path, *options)
    assert said.returncode == 1, said.stderr
    found = json.loads(file.read_text(encoding="utf-8"))["rows"]
    differs = {f"{row['call']} {row['launch']}": row["differs"] for row in found}
    assert [name for name, words in differs.items() if words] == [
        "rope_qk, sbhd 1",
        "rope_qk, sbhd 2",
    ]
    assert len(differs) == 4
    same = run(".", ".", *options)
    assert same.returncode == 0 and "0 launches differ" in same.stdout, same.stdout
