"""What a function in a cell uses reaches the process that judges it; what cannot is named."""

import functools
import math

import pytest
import torch

import rope_lab as lab
from cells import names_in
from rope_lab.judge import definitions
from rope_lab.judge.spec import STRIDED, spec

DECOYS = {name: torch.ones(3) for name in ("cat", "chunk", "device", "float64", "eye")}


@pytest.fixture
def cell(tmp_path):
    return functools.partial(names_in, folder=tmp_path)


# candidates in a cell

USED = {
    "values of many kinds": (
        "signs, shape = [(-1, 1)], torch.ones(2, 3).shape",
        "parts = {'most': [(0, float('inf'))], 'dtype': torch.float64, 'on': torch.device('cpu')}",
        "@torch.no_grad()",
        "def rotated(x, number=shape.numel(), *, join=torch.cat):",
        "    a, b = x.chunk(2, -1)",
        "    assert parts['most'][0][1] == float('inf') and parts['dtype'] is torch.float64",
        "    assert torch.empty(shape, device=parts['on']).numel() == number",
        "    return join((signs[0][0] * b, signs[0][1] * a), -1)",
    ),
    "a name of Python's, given another meaning": (
        "def sum(a, b):",
        "    return torch.cat((-b, a), -1)",
        "def rotated(x):",
        "    return sum(*x.chunk(2, -1))",
    ),
    "a function around it": (
        "def make(sign):",
        "    def rotated(x):",
        "        a, b = x.chunk(2, -1)",
        "        return torch.cat((sign * b, a), -1)",
        "    return rotated",
        "rotated = make(-1)",
    ),
    "a function of PyTorch that is not in torch": (
        "from torch.nn.functional import linear",
        "def rotated(x):",
        "    a, b = x.chunk(2, -1)",
        "    return torch.cat((-b, linear(a, torch.eye(a.shape[-1], dtype=x.dtype))), -1)",
    ),
    "lambdas": (
        "halves = lambda x: x.chunk(2, -1)",
        "join = lambda a, b: torch.cat((-b, a), -1)",
        "rotated = lambda x: join(*halves(x))",
    ),
}


@pytest.mark.parametrize("lines", USED.values(), ids=USED.keys())
def test_what_a_candidate_may_use(lines, cell):
    names = cell("\n".join(("import torch", *lines)), **DECOYS)
    verdict = lab.check_exercise(names["rotated"], definitions.rotate_half)
    assert verdict, verdict


# what cannot be passed on

REFUSED = {
    "factors is a Tensor": "factors = torch.ones(3)",
    "_factors_1 is a Tensor": "factors = [1, torch.ones(3)]",
    "factors is a class": "class factors:\n    pass",
    "factors is a partial": "import functools\nfactors = functools.partial(max, 1)",
    "factors is a function without a source": "exec('def factors(x):\\n    return x')",
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_passed_on_is_named(said, cell):
    text = f"import torch\n{REFUSED[said]}\ndef mine(x):\n    return x * factors"
    verdict = lab.check_exercise(cell(text)["mine"], definitions.rotate_half)
    assert not verdict and verdict.state == "not yet"
    assert repr(verdict).startswith(f"NOT YET: {said}, which the check cannot pass on: ")
    assert len(repr(verdict).splitlines()) == 1 and "lab-not-yet" in verdict._repr_html_()


@pytest.mark.parametrize(
    "candidate, said",
    (
        (torch.ones(3), "the candidate is a Tensor"),
        (functools.partial(math.pow, 2.0), "the candidate is a partial"),
        (torch.nn.Identity(), "candidate is an Identity"),
    ),
    ids=("a tensor", "a partial", "a module"),
)
def test_what_is_no_function_is_named(candidate, said):
    verdict = lab.check_exercise(candidate, definitions.rotate_half)
    assert verdict.state == "not yet" and verdict.reason.startswith(f"{said}, which the check")


def test_a_name_that_is_not_there_yet_is_the_readers_error(cell):
    text = (
        "def make():\n    def mine(x):\n        return later * x\n    return mine\n"
        "    later = 1\n"
        "mine = make()"
    )
    verdict = lab.check_exercise(cell(text)["mine"], definitions.rotate_half)
    assert verdict.state == "wrong" and "NameError: name 'later' is not" in verdict.reason


def test_one_name_with_two_meanings_is_named(cell):
    text = (
        "import torch\n"
        "def make(sign):\n    def part(x):\n        return sign * x\n    return part\n"
        "one, other = make(torch.neg), make(torch.abs)\n"
        "def mine(x):\n    return one(x) + other(x)"
    )
    verdict = lab.check_exercise(cell(text)["mine"], definitions.rotate_half)
    assert verdict.reason.startswith("sign is a name with two meanings, which the check cannot")


# kernels

DOUBLES = """
import torch
import triton
import triton.language as tl

@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

def double(x):
    out = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out

def twice(x: "(n)"):
    return 2 * x

def make(size, device):
    return (torch.randn(100 * size, device=device),)

first, second = lambda x: 2 * x, lambda x: 3 * x
"""


@pytest.fixture
def doubles(cell):
    pytest.importorskip("triton", reason="needs Triton")
    return cell


def test_a_kernel_may_have_two_names(doubles):
    names = doubles(f"{DOUBLES}kernel = double_kernel")
    function, reference, make = names["double"], names["twice"], names["make"]
    verdict = lab.check_exercise(function, spec(leave_out=STRIDED)(reference))
    assert verdict and verdict.cases.launches, verdict
    found = lab.inspect(function, reference, make, small=1, large=10)
    assert found and [launch.kernel for launch in found.launches] == ["double_kernel"], found


def test_configurations_may_be_a_list_of_the_notebook(doubles):
    configs = """
def forget(arguments):
    arguments["out_ptr"].zero_()

CONFIGS = [triton.Config({"BLOCK": 32}, num_warps=2, pre_hook=forget), triton.Config({"BLOCK": 64})]
"""
    tuned = f"{configs}\n@triton.autotune(CONFIGS, ['n'])\n@triton.jit"
    text = DOUBLES.replace("@triton.jit", tuned).replace(", BLOCK=64", "")
    text = text.replace("64)", "meta['BLOCK'])")
    names = doubles(f"{text}kernel = double_kernel")
    function, reference, make = names["double"], names["twice"], names["make"]
    verdict = lab.check_exercise(function, spec(leave_out=STRIDED)(reference))
    assert verdict and verdict.cases.launches, verdict
    found = lab.inspect(function, reference, make, small=1, large=10)
    assert [launch.num_warps for launch in found.launches] == [2], found


@pytest.mark.parametrize(
    "text",
    (
        DOUBLES.replace("@triton.jit\n", "") + "kernel = triton.jit(double_kernel)",
        f"{DOUBLES}kernel = triton.autotune([triton.Config({{}})], key=[])(double_kernel)",
    ),
    ids=("jit", "autotune"),
)
def test_what_a_call_has_made_and_no_source_shows_is_named(text, doubles):
    names = doubles(text)
    verdict = lab.check_exercise(names["double"], spec(leave_out=STRIDED)(names["twice"]))
    assert verdict.state == "not yet"
    assert verdict.reason.startswith("kernel is a kernel that a call has made, which the check")


def test_a_kernel_is_no_launcher(doubles):
    names = doubles(f"{DOUBLES}kernel = double_kernel")
    advice = "is a kernel, which the check cannot pass on: give the function that launches it"
    for kernel in (names["kernel"], names["kernel"][1,]):
        verdict = lab.check_exercise(kernel, spec(leave_out=STRIDED)(names["twice"]))
        assert verdict.state == "not yet" and f"the candidate {advice}" in verdict.reason
    found = lab.inspect(names["double"], names["kernel"], names["make"], small=1, large=10)
    assert f"reference {advice}" in found.refused


def test_one_lambda_of_several_is_asked_for_by_def(doubles):
    names = doubles(f"{DOUBLES}kernel = double_kernel")
    found = lab.inspect(names["double"], names["second"], names["make"], small=1, large=10)
    assert found.refused.startswith("reference is a lambda in a statement with several lambdas")
    assert found.refused.endswith("write it by def")
