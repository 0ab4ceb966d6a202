"""The tools that compare two checkouts: calls are drawn of every function, and a bit is seen."""

import inspect
import json
import shutil
import subprocess
import sys

import pytest

from drawn import TURNS
from ops import PUBLIC
from processes import ROOT

FUNCTIONS = {name for name, x in PUBLIC.items() if inspect.isfunction(x)}
NOT_TIMED = "rope_fw", "rope_bw", "rotate_half", "cp_positions"
TABLES = {"RotaryPositionEmbedding", "RotaryPositionEmbedding.cos_sin"}
PLANTED = {  # in the room of each
    "rope_bw": "",
    "norm_rope": "norms",
    "split_qkv_rope": "serving",
    "rope_to_cache": "serving",
}
BUG = """
import torch


def _off_by_a_bit(function):
    def call(*given, **options):
        outs = function(*given, **options)
        first = (outs[0] if isinstance(outs, tuple) else outs).detach()
        first.mul_(1 + torch.finfo(first.dtype).eps)
        return outs

    return call
"""


def run(tool, *arguments):
    command = [sys.executable, f"tools/{tool}", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("needs_triton")
def test_planted_bugs_are_found_and_nothing_else(tmp_path):
    shutil.copytree(ROOT / "rope_kernels", tmp_path / "rope_kernels")
    for name, room in PLANTED.items():
        with (tmp_path / "rope_kernels" / room / "__init__.py").open("a", encoding="utf-8") as file:
            print(BUG, f"{name} = _off_by_a_bit({name})", sep="\n", file=file)
    said = run("drawn_calls.py", ".", tmp_path, "--calls", len(TURNS), "--processes", 2)
    assert said.returncode == 1, said.stderr
    *_, table = said.stdout.partition(" calls in ")
    rows = [row.split() for row in table.splitlines()[1:]]
    assert {row[0] for row in rows} == FUNCTIONS | TABLES | {"all"}
    different = [function for function, equal, _, _, _ in rows if equal == "0"]
    assert sorted(different) == sorted(PLANTED)
    assert all(row[3] == "0" for row in rows if row[0] not in [*PLANTED, "all"])


@pytest.mark.slow
@pytest.mark.usefixtures("needs_triton")
def test_host_times_of_both_checkouts_in_every_way(tmp_path):
    file = tmp_path / "times.json"
    few = "--turns", 1, "--calls", 2, "--json", file
    said = run("host_times.py", ".", ".", *few)
    assert said.returncode == 0, said.stderr
    rows, ways = json.loads(file.read_text(encoding="utf-8"))["rows"], {}
    for row in rows:
        ways.setdefault(row["call"].split(",")[0], set()).add(row["way"])
    assert ways.pop("rope_to_cache") == {"forward"}
    assert ways.keys() == FUNCTIONS - {"rope_to_cache", *NOT_TIMED}
    assert all(found == {"forward", "recorded", "both"} for found in ways.values())
    assert all(row[name] > 0 for row in rows for name in ("before", "after", "x * 2"))
