"""tools/compare_*.py: do they see what they must see?"""

import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import compare_machine_code
import compare_results
import compare_speed
import rope_kernels
from calls.draw import FUNCTIONS, draw
from calls.make import Maker, arguments_of

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
pytestmark = pytest.mark.usefixtures("needs_triton")


def run_tool(name, *arguments):
    command = [sys.executable, TOOLS / f"{name}.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


# What a copy of the package ends with: the negative for interleaved pairs, and of a norm's gradient
WRONG = """
import torch

_rotate, _norm = apply_rotary_pos_emb, norm_rope


def apply_rotary_pos_emb(*arguments, **options):
    out = _rotate(*arguments, **options)
    return -out if options["interleaved"] else out


class _Negated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


def norm_rope(*arguments, **options):
    out = _norm(*arguments, **options)
    return _Negated.apply(out) if out.requires_grad else out
"""


def is_plain(call, mode):
    """Not refused, and not without elements."""
    refused = call.inplace or call.module.interpolation or call.cp or 0 in (call.s, call.b, call.h)
    refused = refused or (call.one_column_per_pair and not call.rotary_dim_is_named)
    return not refused and call.mode == mode


def test_a_broken_copy_is_found_in_the_broken_calls_alone(tmp_path):
    calls = {i: draw(0, i) for i in range(300)}
    rotations = {
        i: call.interleaved
        for i, call in calls.items()
        if is_plain(call, "no_grad") and call.function == "apply_rotary_pos_emb"
    }
    broken = [i for i, is_broken in rotations.items() if is_broken][:1]
    sound = [i for i, is_broken in rotations.items() if not is_broken][:1]
    norms = (i for i, x in calls.items() if is_plain(x, "grad") and x.function == "norm_rope")
    broken.append(next(i for i in norms if calls[i].grad_of["t"]))
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "rope_kernels", tmp_path / "rope_kernels", ignore=ignored)
    with (tmp_path / "rope_kernels" / "__init__.py").open("a") as file:
        file.write(WRONG)
    result = run_tool("compare_results", ROOT, tmp_path, "--jobs", 1, "--only", *broken, *sound)
    assert result.returncode == 1, result.stderr
    assert "2 differences in 3 calls" in result.stdout
    assert all(f"call {index}:\n" in result.stdout for index in broken)
    assert "differs: #0 0: old ['" in result.stdout
    assert "differs: #0 gradient of t: old ['" in result.stdout


class Negated(compare_results.PlainPyTorch):
    """Plain PyTorch that turns the other way."""

    def __getattr__(self, name):
        plain = super().__getattr__(name)
        if name not in FUNCTIONS:
            return plain
        return lambda *given, **options: plain(
            *given, **options | {"inverse": not options["inverse"]}
        )


def test_plain_pytorch_agrees_and_what_does_not_is_found():
    calls = {i: draw(0, i) for i in range(200, 1200)}
    plain = [i for i, call in calls.items() if is_plain(call, "no_grad")]
    plain = [i for i in plain if calls[i].function == "apply_rotary_pos_emb"]
    index = min(plain, key=lambda i: calls[i].s * calls[i].d)
    asked = 0, index, "cpu", rope_kernels
    assert compare_results.differences_from_pytorch(*asked) == []
    found = compare_results.differences_from_pytorch(*asked, Negated(rope_kernels))
    assert any(line.startswith("#0 0: differs by") for line in found)


def test_every_argument_is_drawn_with_another_value_than_its_default():
    """An argument that is added to a function has to be drawn, too."""
    parameters = {x: inspect.signature(getattr(rope_kernels, x)).parameters for x in FUNCTIONS}
    missing = {
        (function, name)
        for function in FUNCTIONS
        for name, parameter in parameters[function].items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for index in range(400):
        call = draw(0, index)
        made = arguments_of(call, rope_kernels, Maker(0, index, "cpu"))
        _, options = made.given(rope_kernels, made.tensors)
        for name, value in options.items():
            default = parameters[call.function][name].default
            if isinstance(value, (torch.Tensor, tuple)) or value != default:
                missing.discard((call.function, name))
    assert missing == set()


LAUNCH = {"sass": "a", "opcodes": "b", "registers": 40, "spilled": 0, "stack": 0, "shared": 0}
LAUNCH |= {"loads": {"16": 4}, "stores": {"16": 4}, "instructions": 300, "launch": [8, 1]}


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({}, 0, "identical: 1 of 1"),
        ({"sass": "x"}, 0, "same opcodes: 1 of 1 calls\n    table"),
        ({"sass": "x", "opcodes": "x"}, 0, "same figures: 1 of 1 calls\n    table"),
        ({"sass": "x", "registers": 41}, 1, "different: 1 of 1 calls\n    table: registers 40"),
        ({"sass": "x", "instructions": 297}, 0, "within 1 %: 1 of 1 calls"),
        ({"sass": "x", "instructions": 304}, 1, "different: 1 of 1 calls"),
        ({"launch": [4, 1]}, 0, "warps: 1 calls\n    table: [[8, 1]] -> [[4, 1]]"),
    ],
)
def test_machine_code_is_compared(changes, status, said, capsys):
    before = {"table": [LAUNCH]}
    assert compare_machine_code.compare(before, {"table": [LAUNCH | changes]}) == status
    assert said in capsys.readouterr().out
    assert compare_machine_code.compare(before, {"table": [{"refused": "ValueError"}]}) == 1
    assert "refused None -> ValueError" in capsys.readouterr().out


def test_a_call_is_compiled_without_a_gpu():
    """One of each kind; a backward has launches of its own."""
    asked = {"target": "sm_90"}
    refused = compare_machine_code.answer(asked | {"name": "drawn | 3"})
    assert refused == [{"refused": "ValueError"}]
    for name, launches in {
        "sample | half rotary": 1,
        "large | norm of q and k, backward": 3,
        "drawn | 1": 1,
    }.items():
        found = compare_machine_code.answer(asked | {"name": name})
        assert len(found) == launches, name
        assert all(0 < x["registers"] <= 255 and x["instructions"] > 90 for x in found), found


def test_two_checkouts_are_asked_for_their_machine_code():
    result = run_tool("compare_machine_code", ROOT, ROOT, "--only", "sample | half rotary")
    assert result.returncode == 0, result.stderr
    assert "identical: 1 of 1 calls" in result.stdout


def test_times_are_judged_by_their_medians():
    times = {"old": [100.0, 101.0, 99.0], "new": [102.0, 150.0, 101.5]}
    row = compare_speed.row_of("a call", "device", times)
    assert (row["ratio"], row["spread"], row["verdict"]) == (1.02, 0.02, "SLOWER")
    assert compare_speed.row_of("a call", "host", times)["verdict"] == "same"
    turned = compare_speed.row_of("a call", "device", {"old": times["new"], "new": times["old"]})
    assert turned["verdict"] == "faster"


def test_two_checkouts_make_a_call_in_a_dry_run(tmp_path):
    output = tmp_path / "speed.json"
    norm = "qk_norm_rope, on the fly, thd (8192, 32/8, 128) bf16"
    options = "--dry-run", "--only", norm, "--rounds", 2, "-o", output
    result = run_tool("compare_speed", ROOT, ROOT, *options)
    assert result.returncode == 0, result.stderr
    rows = json.loads(output.read_text())["rows"]
    assert len(rows) == 2 and all(row["call"].startswith(norm) for row in rows)
    assert [(row["verdict"], len(row["rounds"]["new"])) for row in rows] == [("same", 2)] * 2
