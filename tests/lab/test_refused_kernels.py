"""Kernels that Triton's interpreter runs and its compiler refuses: wrong, with what to write.

All double their input, by a kernel with a few lines of their own.
"""

import ast

import pytest

import rope_lab as lab
from cells import names_in
from rope_lab.judge.errors import failure_of
from rope_lab.judge.spec import STRIDED, spec

pytestmark = pytest.mark.usefixtures("needs_triton")

CELL = """
import math
import numpy as np
import torch
import triton
import triton.language as tl
{above}

@triton.jit
def doubling_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, PART: tl.constexpr = None):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    {lines}
    tl.store(out_ptr + i, y, mask=i < n)

def doubled(x):
    out = torch.empty_like(x)
    doubling_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64{options})
    return out

def make(size, device):
    return (torch.randn(100 * size, device=device),)
"""


@spec(leave_out=STRIDED)
def twice(x: "(n,)"):  # noqa: F821
    return 2 * x


@pytest.fixture
def doubled_by(tmp_path):
    """The launcher of a cell whose kernel has these lines."""

    def made(lines, above="", options=""):
        lines = lines.replace("\n", "\n    ")
        text = CELL.format(above=above, lines=lines, options=options)
        return names_in(text, tmp_path)["doubled"]

    return made


REFUSED = {  # the kernel's lines, and the verdict's words
    "break": (
        "y = x\nfor k in range(4):\n    if k == 1:\n        break\n    y += x",
        "unsupported AST node type: Break (a loop in a kernel has no break or continue: ",
    ),
    "continue": (
        "y = x\nfor k in range(2):\n    if k == 1:\n        continue\n    y += x",
        "unsupported AST node type: Continue (a loop in a kernel has no break or continue: ",
    ),
    "return in a loop": (
        "y = x\nfor k in range(1):\n    if k > 5:\n        return\n    y += x",
        "Cannot have `return` statements inside `while` or `for` statements in triton. (a loop in "
        "a kernel ",
    ),
    "while, else": ("k = 0\nwhile k < 1:\n    k += 1\nelse:\n    y = 2 * x", ", at: while k"),
    "for, else": ("for k in range(1):\n    pass\nelse:\n    y = 2 * x", "has no else)"),
    "for of a tuple": ("y = 0.0 * x\nfor z in (x, x):\n    y += z", "(a loop runs over range "),
    "a comparison of three": (
        "y = x\nif 0 <= tl.program_id(0) < n:\n    y = 2 * x",
        "simultaneous multiple comparison is not supported (write a <= i < n as (a <= i) & (i < n)"
        "), at: if 0 <= tl.program_id(0) < n:",
    ),
    "a comprehension": (
        "xs = [x for _ in range(2)]\ny = xs[0] + xs[1]",
        "only tuple comprehensions are supported (a kernel ",
    ),
    "a list that grows": (
        "xs = []\nxs.append(2 * x)\ny = xs[0]",
        " (a list in a kernel does not grow",
    ),
    "an element that is set": ("xs = [x]\nxs[0] = 2 * x\ny = xs[0]", "(no element of a list "),
    "a lambda": ("f = lambda a: 2 * a\ny = f(x)", "Lambda (a kernel has no such expression"),
    "another type in a loop": (
        "y = 0\nfor k in range(2):\n    y += x",
        "Loop-carried variable y has initial type int32 but is re-assigned to <['64'], fp32> in "
        "loop! Please make sure that the type stays consistent. (before the loop, give it the dtype"
        " and shape that it has in the loop: tl.zeros((BLOCK,), tl.float32)), at: for k in",
    ),
    "another type in a branch": (
        "if tl.program_id(0) >= 0:\n    y = 2 * x\nelse:\n    y = 0",
        "Mismatched type for y between then block (<['64'], fp32>) and else block (int32) (give ",
    ),
    "set in a branch alone": ("if n > 0:\n    y = 2 * x", "y is not defined (a name that is set"),
    "an f-string": ("name = f'{BLOCK}'\ny = 2 * x", "(a kernel has no strings"),
    "Python's sum": ("y = sum((x, x))", "sum is not defined (of Python's own functions "),
    "math of a number": ("y = x * math.floor(2.5 + 0 * n)", "(Python's math takes constants: "),
    "NumPy's": ("y = x * np.sqrt(4)", "<ufunc 'sqrt'> (a kernel calls tl's functions, and "),
    "a helper without jit": (
        "y = f(x)",
        "Unsupported function referenced: <function f> (a kernel calls tl's functions, and your "
        "own with @triton.jit above their def)",
    ),
    "a number above the cell": (
        "y = FACTOR * x",
        "Cannot access global variable FACTOR from within @jit'ed function (pass it as an argument"
        ", NAME: tl.constexpr, or write NAME = tl.constexpr(...) above the kernel), at: y = FACTOR",
    ),
    "a number that a helper reads": (
        "y = f(x)",
        "variable FACTOR from within @jit'ed function (pass it as an argument, NAME: tl.constexpr,"
        " or write NAME = tl.constexpr(...) above the kernel), at: return FACTOR * a",
    ),
    "a number that a tuner reads, and the kernel": ("y = FACTOR * x", "variable FACTOR from"),
}
ABOVE = {  # what is above the kernel, of the few that need it
    "a helper without jit": "def f(a):\n    return 2 * a",
    "a number above the cell": "FACTOR = 2",
    "a number that a helper reads": "FACTOR = 2\n@triton.jit\ndef f(a):\n    return FACTOR * a",
    "a number that a tuner reads, and the kernel": (
        "FACTOR = 2\n@triton.autotune([triton.Config({}, num_warps=FACTOR)], key=['n'])"
    ),
}


@pytest.mark.needs_compiler
@pytest.mark.parametrize("what", REFUSED)
def test_what_the_compiler_refuses_is_wrong_and_has_a_cure(what, doubled_by):
    lines, told = REFUSED[what]
    verdict = lab.check_exercise(doubled_by(lines, ABOVE.get(what, "")), twice)
    begins = "right in the interpreter, but doubling_kernel does not compile for an H200: "
    assert verdict.state == "wrong" and verdict.reason.startswith(begins), verdict
    assert told in verdict.reason and "AssertionError(" not in verdict.reason, verdict


@pytest.mark.needs_compiler
@pytest.mark.parametrize(
    "option, told", [("num_warps=3", "a power of 2"), ("num_warp=4", "num_warp ")]
)
def test_what_a_launch_asks_of_the_compiler_counts(option, told, doubled_by):
    verdict = lab.check_exercise(doubled_by("y = 2 * x", options=f", {option}"), twice)
    assert verdict.state == "wrong" and told in verdict.reason, verdict


def test_a_gpu_s_own_compiler_is_told_in_the_same_words():
    """There the second child launches the kernel, and Triton raises its error."""
    from triton.compiler.errors import UnsupportedLanguageConstruct

    source = "def k():\n    while True:\n        break"
    node = ast.parse(source).body[0].body[0].body[0]
    error = UnsupportedLanguageConstruct(source, node, "unsupported AST node type: Break")
    reason = failure_of(error).reason
    assert reason.startswith("it does not compile: unsupported AST node type: Break (a loop in a ")
    assert reason.endswith(", at: break")


RIGHT = {  # the kernel's lines, what is above the kernel, and what else is launched with
    "a constexpr above the cell": ("y = FACTOR * x", "FACTOR = tl.constexpr(2)", ""),
    "names for a helper, a dtype and infinity": (
        "y = tl.minimum(doubles(x).to(FP32), MOST)",
        "MOST, FP32 = tl.constexpr(float('inf')), tl.float32\n"
        "@triton.jit\ndef f(a):\n    return 2 * a\n\ndoubles = f",
        "",
    ),
    "a number as a default": (
        "y = f(x)",
        "FACTOR = 2\n@triton.jit\ndef f(a, by: tl.constexpr = FACTOR):\n    return by * a",
        "",
    ),
    "a number that a tuner reads": (
        "y = 2 * x",
        "FOUR = 4\n@triton.autotune([triton.Config({}, num_warps=FOUR)], key=['n'])",
        "",
    ),
    "a heuristic": (
        "y = 2 * x if PART else x + x",
        "@triton.heuristics({'PART': lambda given: given['n'] < 50})",
        "",
    ),
    "constants of math": ("y = x * math.sqrt(4) * (math.pi / math.pi)", "", ""),
    "an argument that cannot be passed on": (
        "y = PART(x)",
        "@triton.jit\ndef part(a):\n    return 2 * a",
        ", PART=part",
    ),
    "two warps": ("y = 2 * x", "", ", num_warps=2"),
    "a named tuple": (
        "y = PART.by * x",
        "from collections import namedtuple",
        ", PART=namedtuple('Part', ['by'])(2)",
    ),
}


@pytest.mark.parametrize("what", RIGHT)
def test_what_compiles_is_right(what, doubled_by):
    lines, above, options = RIGHT[what]
    verdict = lab.check_exercise(doubled_by(lines, above, options), twice)
    assert verdict and not verdict.remark, verdict
