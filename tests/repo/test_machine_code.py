"""The tool that compares machine code: it plans every call, and says what differs."""

import json
import shutil
import subprocess
import sys

import pytest

import machine_code
import rope_kernels
from processes import ROOT
from rope_lab.compiler.plans import plans_of

LAUNCH = {
    "kernel": "rope_kernel",
    "grid": [64],
    "warps": 1,
    "registers": 64,
    "shared": 512,
    "spilled": 0,
    "stack": 0,
    "loads": {"16": 5},
    "stores": {"16": 4},
    "opcodes": ["LDG.E.128", "MUFU.SIN", "FFMA", "STG.E.128"],
}
CASE = machine_code.all_cases()[0]
# A call of `rope_qk` becomes one in fp32, whatever the kernel is.
IN_FP32 = """
_in_bf16 = rope_qk

def rope_qk(q, k, *arguments, **options):
    return _in_bf16(q.float(), k.float(), *arguments, **options)
"""


@pytest.mark.usefixtures("needs_triton")
def test_every_call_has_a_plan_and_a_name_of_its_own():
    cases = machine_code.all_cases()
    assert len({case.title for case in cases}) == len(cases)
    launches = {}
    for case in cases:
        call = case.call(rope_kernels)
        plans = plans_of(call.function, *call.given, **call.options)
        launches.setdefault(case.group.split()[0], set()).add(len(plans))
    assert launches.pop("backward") == {1, 2}  # of `rope_bw`; of `rope_qk` and its backward
    assert launches == {"qk": {1}, "options": {1}, "cache": {1}, "split": {2}, "norm": {3}}


@pytest.mark.parametrize(
    ("changed", "said"),
    (
        ({}, []),
        ({"kernel": "wide_kernel"}, []),
        ({"grid": [32], "warps": 2}, ["grid [64] -> [32]", "warps 1 -> 2"]),
        ({"registers": 72, "spilled": 8}, ["registers 64 -> 72", "spilled 0 -> 8"]),
        ({"loads": {"2": 40}}, ["loads 5 of 16 bytes -> 40 of 2 bytes"]),
        ({"stores": {}}, ["stores 4 of 16 bytes -> none"]),
        ({"opcodes": LAUNCH["opcodes"][::-1]}, ["the same opcodes in another order"]),
        (
            {"opcodes": ["LDG.E.64", "LDG.E.64", *LAUNCH["opcodes"][1:]]},
            ["instructions 4 -> 5", "LDG.E.64 +2, LDG.E.128 -1"],
        ),
    ),
)
def test_what_differs_is_said(changed, said):
    before, after = LAUNCH, LAUNCH | changed
    assert machine_code.differences(before, after) == said
    (row,) = machine_code.rows_of(CASE, [before], [after])
    *_, line = machine_code.table([row])
    name, launches, *same, _, _, _ = line.strip("| ").split(" | ")
    assert (name, launches) == ("all", "1")
    fields = {"opcodes"}, {"loads", "stores"}, {"grid", "warps"}
    assert [x == "1" for x in same] == [field.isdisjoint(changed) for field in fields]


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
        "rope_qk, sbhd, cos and sin of pairs 1",
        "rope_qk, sbhd, cos and sin of pairs 2",
    ]
    assert len(differs) == 4
    same = run(".", ".", *options)
    assert same.returncode == 0 and "0 launches differ" in same.stdout, same.stdout
