"""The tools that compare two checkouts: calls are drawn of every function, and a bit is seen."""

import inspect
import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

import drawn_calls
import rope_kernels
from drawn import TURNS, draw
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


def test_every_function_is_drawn():
    assert {draw(1, i).function for i in range(len(TURNS))} == FUNCTIONS | TABLES


def test_a_call_is_the_same_each_time_whatever_comes_before_it():
    first, _, again = draw(7, 4), draw(7, 3), draw(7, 4)
    other_seed = draw(8, 4)
    assert first.arguments == again.arguments != other_seed.arguments
    never = first.listed[:2]
    assert set(never).isdisjoint(draw(7, 4, never).listed)
    results = [call.run(rope_kernels) for call in (first, again)]
    for name, x in results[0].items():
        assert torch.equal(drawn_calls.bits_of(x), drawn_calls.bits_of(results[1][name]))


OTHERWISE = {  # what is done to a result -> words on what differs
    "nothing": (lambda y: y, None),
    "a bit": (lambda y: y * (1 + torch.finfo(y.dtype).eps), "elements differ"),
    "strides": (lambda y: y.transpose(1, 2).contiguous().transpose(1, 2), "strides"),
    "no gradient": (lambda y: y.detach(), "after: result 0"),
    "an error": (lambda y: y.no_such_name, "after: AttributeError: "),
}


@pytest.mark.parametrize("done", OTHERWISE)
def test_what_differs_is_told(done):
    calls = (draw(1, i) for i in range(len(TURNS)))
    call = next(call for call in calls if call.function == "rotate_half")
    change, words = OTHERWISE[done]

    def rotate_half(x, interleaved):
        return change(rope_kernels.rotate_half(x, interleaved))

    other = SimpleNamespace(__name__="another", rotate_half=rotate_half)
    lines = drawn_calls.compare(call, (rope_kernels, other))
    assert any(words in line for line in lines) if words else not lines


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
