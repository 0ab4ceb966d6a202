"""Code that can be read: short functions, and few lines from a call to its store.

Ruff's C901 (see pyproject.toml) keeps the complexity of every function at 12 or below.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("rope_kernels", "rope_lab")
MOST_LINES_OF_A_BODY = 60
MOST_LINES_OF_A_CALL = 1200
CALL = (
    "api",
    "call/rotation",
    "kernels/parts",
    "kernels/rope_kernel",
    "launch/launch_rope",
    "autograd/rope_function",
    "reference/rope_reference",
)


def lines_of_body(function):
    """From the first statement to the last, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def long_functions(source):
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, functions)]
    return {f.name for f in found if lines_of_body(f) > MOST_LINES_OF_A_BODY}


def function_of(lines, *, docstring=0):
    text = '    """' + "words\n" * (docstring - 1) + '"""\n' if docstring else ""
    return "def f():\n" + text + "    x = 1\n" * lines


@pytest.mark.parametrize(
    "source, found",
    [
        (function_of(60), set()),
        (function_of(61), {"f"}),
        (function_of(60, docstring=30), set()),
        (function_of(0, docstring=90), set()),
        ("class C:\n" + "".join(f"    {line}\n" for line in function_of(61).splitlines()), {"f"}),
        ("async " + function_of(61), {"f"}),
    ],
)
def test_a_long_body_is_found(source, found):
    assert long_functions(source) == found


def test_no_function_body_is_above_60_lines():
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(paths) > 40
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for path in paths
        for name in long_functions(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_a_call_can_be_followed_in_1200_lines():
    paths = [ROOT / "rope_kernels" / f"{name}.py" for name in CALL]
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert sum(lines.values()) <= MOST_LINES_OF_A_CALL, lines


# Kernels: few arguments, each a value with fields


MOST_ARGUMENTS_OF_A_PART = 6
MOST_ARGUMENTS_OF_A_KERNEL = 30
# A norm has weights, sums and what a backward needs beside all that a rotation has.
MOST_OF = {"norm_rope_kernel": 31, "norm_rope_backward_kernel": 32}


def functions_of(source):
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]


def too_many_arguments(source):
    """Functions of a file of kernels with more arguments than a reader can follow."""
    found = {}
    for function in functions_of(source):
        is_kernel = function.name.endswith("_kernel")
        most = MOST_ARGUMENTS_OF_A_KERNEL if is_kernel else MOST_ARGUMENTS_OF_A_PART
        arguments = function.args
        count = len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs)
        if count > MOST_OF.get(function.name, most) or arguments.vararg or arguments.kwarg:
            found[function.name] = count
    return found


def starred(source):
    """Lines with a starred argument or a starred element, in which names lose their places."""
    return [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Starred)]


def takes(count, name="part"):
    return f"def {name}({', '.join(f'a{i}' for i in range(count))}): pass"


def test_too_many_arguments_are_found():
    assert too_many_arguments(takes(6)) == too_many_arguments(takes(30, "a_kernel")) == {}
    assert too_many_arguments(takes(7)) == {"part": 7}
    assert too_many_arguments(takes(31, "a_kernel")) == {"a_kernel": 31}
    assert too_many_arguments("def part(*all): pass") == {"part": 0}
    assert starred("f(*(a, b))") == starred("x = *a, b") == [1] and starred("f(a * b)") == []


def test_kernels_and_their_parts_take_a_handful_of_values():
    paths = sorted((ROOT / "rope_kernels" / "kernels").glob("*.py"))
    assert sum(len(functions_of(path.read_text(encoding="utf-8"))) for path in paths) > 40
    for path in paths:
        source = path.read_text(encoding="utf-8")
        assert too_many_arguments(source) == {} and starred(source) == [], path.name
