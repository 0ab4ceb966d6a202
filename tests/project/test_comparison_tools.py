"""tools/compare_*.py and sass_digest.py: do they see what they must see?"""

import importlib.util
import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rope_kernels
from random_calls.draw import FUNCTIONS, draw
from random_calls.make import Maker, arguments_of, sums_of_rows

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
pytestmark = pytest.mark.usefixtures("needs_triton")


def load(name):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sass_digest, compare_with_pytorch = load("sass_digest"), load("compare_with_pytorch")


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
    refused = call["mistake"] or call["inplace"] or call["module"]["interpolation"] or call["cp"]
    refused = refused or (call["one column per pair"] and not call["rotary_dim is named"])
    return not refused and call["mode"] == mode and all(call["sizes"].values())


def test_a_broken_copy_is_found_in_the_broken_calls_alone(tmp_path):
    calls = {i: draw(0, i) for i in range(300)}
    rotations = {
        i: call["interleaved"]
        for i, call in calls.items()
        if is_plain(call, "no_grad") and call["function"] == "apply_rotary_pos_emb"
    }
    broken = [i for i, is_broken in rotations.items() if is_broken][:1]
    sound = [i for i, is_broken in rotations.items() if not is_broken][:1]
    norms = (i for i, x in calls.items() if is_plain(x, "grad") and x["function"] == "norm_rope")
    broken.append(next(i for i in norms if calls[i]["grad of"]["t"]))
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


class Negated(compare_with_pytorch.PlainPyTorch):
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
    quick = {"function": "apply_rotary_pos_emb", "double backward": False}
    plain = [i for i, call in calls.items() if is_plain(call, "no_grad") and call | quick == call]
    index = min(plain, key=lambda i: calls[i]["sizes"]["s"] * calls[i]["sizes"]["d"])
    assert compare_with_pytorch.differences(0, index, rope_kernels) == []
    found = compare_with_pytorch.differences(0, index, rope_kernels, Negated(rope_kernels))
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
        sums = made.sums or sums_of_rows(call, rope_kernels, made.tensors)
        options = made.options | ({"sumsq": sums} if sums else {})
        for name, value in options.items():
            default = parameters[call["function"]][name].default
            if isinstance(value, (torch.Tensor, list)) or value != default:
                missing.discard((call["function"], name))
    assert missing == set()


KERNEL = {"sass": "a", "opcodes": "b", "registers": 40, "spilled": 0, "stack": 0, "shared": 0}
KERNEL |= {"loads": {"16": 4}, "stores": {"16": 4}, "instructions": 300, "warps": 1}


def digests_of(**changes):
    launch = {"kernel": "k", "grid": [8], "warps": 1}
    kernels = {"k": KERNEL | changes}
    return {"triton": "3", "target": "sm_90", "calls": {"table": [launch]}, "kernels": kernels}


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({}, 0, "identical: 1 of 1"),
        ({"sass": "x"}, 0, "same opcodes: 1 of 1 calls\n    table"),
        ({"sass": "x", "opcodes": "x"}, 0, "same figures: 1 of 1 calls\n    table"),
        ({"sass": "x", "registers": 41}, 1, "different: 1 of 1 calls\n    table: registers 40"),
        ({"sass": "x", "instructions": 297}, 0, "within 1 %: 1 of 1 calls"),
        ({"sass": "x", "instructions": 304}, 1, "different: 1 of 1 calls"),
    ],
)
def test_machine_code_is_compared(changes, status, said, capsys):
    assert sass_digest.compare(digests_of(), digests_of(**changes)) == status
    assert said in capsys.readouterr().out
    gone = digests_of() | {"calls": {}}
    assert sass_digest.compare(digests_of(), gone) == 1
    assert "in one file only: table" in capsys.readouterr().out


def test_a_call_is_compiled_without_a_gpu(tmp_path):
    output = tmp_path / "digests.json"
    name = "tests | half rotary, in place | rope_fw"
    result = run_tool("sass_digest", ROOT, "-o", output, "--only", name)
    assert result.returncode == 0, result.stderr
    digests = json.loads(output.read_text())
    (launch,) = digests["calls"][name]
    kernel = digests["kernels"][launch["kernel"]]
    assert set(kernel["stores"]) == {"16"} and 0 < kernel["registers"] <= 64, kernel
    assert launch["grid"] == [64], launch


def test_a_slower_checkout_is_found_in_a_dry_run(tmp_path):
    output = tmp_path / "speed.json"
    slow = "--dry-run", "--pretend-slowdown", 1.02, "--only", "headline bf16, on the fly"
    result = run_tool("compare_speed", ROOT, ROOT, *slow, "--rounds", 3, "-o", output)
    assert result.returncode == 1, result.stderr
    rows = json.loads(output.read_text())["rows"]
    assert [row["verdict"] for row in rows] == ["SLOWER"] * 2, rows
    assert all(1.01 < row["ratio"] < 1.03 and len(row["rounds"]["new"]) == 3 for row in rows)
