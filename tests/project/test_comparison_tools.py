"""The tools that compare two checkouts: do they show what they must show?"""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import machine_code
import rope_kernels
from calls.draw import FUNCTIONS, draw
from calls.make import Maker, arguments_of

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
pytestmark = pytest.mark.usefixtures("needs_triton")


def run_tool(name, *arguments, checkout=ROOT):
    command = [sys.executable, TOOLS / f"{name}.py", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


# What a copy of the package ends with: the negative for interleaved pairs
WRONG = """
_rotate = apply_rotary_pos_emb


def apply_rotary_pos_emb(*arguments, **options):
    out = _rotate(*arguments, **options)
    return -out if options["interleaved"] else out
"""


def is_plain(call):
    """Of a rotation, not refused, and not without elements."""
    refused = call.inplace or call.cp or 0 in (call.s, call.b, call.h)
    refused = refused or (call.one_column_per_pair and not call.rotary_dim_is_named)
    return not refused and call.mode == "no_grad" and call.function == "apply_rotary_pos_emb"


def test_a_broken_copy_is_found_in_the_broken_call_alone(tmp_path):
    plain = [i for i in range(300) if is_plain(draw(0, i))]
    broken, sound = (
        next(i for i in plain if draw(0, i).interleaved is wanted) for wanted in (True, False)
    )
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "rope_kernels", tmp_path / "rope_kernels", ignore=ignored)
    with (tmp_path / "rope_kernels" / "__init__.py").open("a") as file:
        file.write(WRONG)
    numbers = "--only", broken, sound
    old, new = (run_tool("call_results", *numbers, checkout=x).stdout for x in (ROOT, tmp_path))
    pairs = zip(old.splitlines(), new.splitlines(), strict=True)
    different = [one for one, other in pairs if one != other]
    assert {line.split(" | ")[0] for line in different} == {f"call {broken}"}
    assert f"call {broken} | #0 0: [" in "\n".join(different)


def test_every_argument_is_drawn_with_another_value_than_its_default():
    """An argument that is added to a function has to be drawn, too."""
    parameters = {x: inspect.signature(getattr(rope_kernels, x)).parameters for x in FUNCTIONS}
    missing = {
        (function, name)
        for function in FUNCTIONS
        for name, parameter in parameters[function].items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for index in range(600):
        call = draw(0, index)
        made = arguments_of(call, rope_kernels, Maker(0, index, "cpu"))
        _, options = made.given(made.tensors)
        for name, value in options.items():
            default = parameters[call.function][name].default
            if isinstance(value, (torch.Tensor, tuple)) or value != default:
                missing.discard((call.function, name))
    assert missing == set()


def test_a_call_is_compiled_without_a_gpu():
    """One of each kind; a backward has launches of its own."""
    calls = dict(machine_code.calls(12))
    assert list(machine_code.lines_of(calls["drawn | 10"], "sm_90")) == ["ValueError"]
    for name, launches in {
        "sample | half rotary": 1,
        "large | norm of q and k, backward": 3,
        "drawn | 5": 1,
        "drawn | 8": 2,  # a projection, and its gradient
    }.items():
        found = list(machine_code.lines_of(calls[name], "sm_90"))
        assert len(found) == launches, name
        for line in found:
            numbers = dict(re.findall(r"(\w+) (\d+)[,|]", line + ","))
            assert 0 < int(numbers["registers"]) <= 255 and int(numbers["instructions"]) > 90


def test_two_checkouts_make_a_call_in_a_dry_run(tmp_path):
    output = tmp_path / "speed.json"
    norm = "qk_norm_rope, on the fly, thd (8192, 32/8, 128) bf16"
    options = "--dry-run", "--only", norm, "--rounds", 2, "-o", output
    result = run_tool("compare_speed", ROOT, ROOT, *options)
    assert result.returncode == 0, result.stderr
    rows = json.loads(output.read_text())["rows"]
    assert len(rows) == 2 and all(row["call"].startswith(norm) for row in rows)
    assert [(row["verdict"], len(row["rounds"]["new"])) for row in rows] == [("same", 2)] * 2
