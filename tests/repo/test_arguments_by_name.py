"""In a call with more than four arguments, options go by name: a position can be the wrong one.

`EXCEPTIONS` are all calls that may pass more than four by position, and why.

In what Triton compiles, options are what is `tl.constexpr`. All else may pass by position there:
pointers, sizes and blocks.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import rope_kernels
from rope_kernels.norms import Norm
from rope_kernels.rotation import TENSORS_OF_GIVEN, Given

PACKAGE = Path(rope_kernels.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MOST = 4  # arguments, of which options may still pass by position
OPTIONS = {"fused", "inplace", *Given._fields[TENSORS_OF_GIVEN:], *Norm._fields}

EXCEPTIONS = {
    "Given": "`given_of` takes the fields by name; every call comes there (see its docstring)",
    "known.launch": "a launch: a compiled kernel takes its arguments by position alone",
    "KernelGradients.apply": "`autograd.Function.apply` takes no names",
    "self.rotation": "a model's own function; one or two tensors come first, the rest by name",
    "function": "what `gradients_by_pytorch` was given, which takes as many inputs as there are",
    # Any number of things of one kind.
    "math.gcd": "numbers",
    "zip": "sequences",
    "qkv.view": "sizes",
    "ctx.save_for_backward": "tensors",
    "ctx.mark_dirty": "tensors",
    "ctx.mark_non_differentiable": "tensors",
}

FAULTS = {  # what the search finds
    "turn(a, b, c, d, e)": True,
    "turn(a, *b)": True,
    "turn(a, b, c, d=d, inplace=e)": False,
    "turn(a, inplace, c, d=d, e=e)": True,
    "turn(a, options.cp_rank, c, d=d, e=e)": True,
    "turn(a, True, c, d=d, e=e)": True,
    "turn(a, -1, c, d=d, e=e)": True,
    "turn(a, inplace, True)": False,
    "def f(*options): ...\nf(a, b, c, d, e, *g)": False,
    "def f(x, inplace, *options): ...\nf(a, inplace, c, d, e)": True,
    "def f(x, *others):\n    return turn(x, *others)": False,
    "kernel[grid](a, *b)": False,
    "@operator('f', '')\ndef f(x, *values): ...\nf(x, *y)": False,
    "record = apply_without_functorch(F)\nrecord(a, b, c, d, e)": False,
    "zip(*x, *y)": False,
    "class A:\n    def f(self, *x): ...\na.f(*y)": False,
    "def f(x): ...\nf(*y)": True,
    "@triton.jit\ndef f(x):\n    turn(a, b, c, d, e)": False,
    "@triton.jit\ndef f(x):\n    turn(a, b, c, d, HALF)": True,
    "@triton.jit\ndef f(x):\n    turn(a, b, c, d, True)": True,
    "@triton.jit\ndef f(x):\n    turn(a, b, c, d, HALF=HALF)": False,
    "@triton.jit\ndef f(x):\n    turn(a, b, c, HALF)": False,
    "@triton.jit\ndef f(x):\n    turn(a, b, c, d, pair + HALF)": False,
    "@triton.jit\ndef f(x):\n    turn(a, *b)": True,
    # The function that is called tells which of its parameters are options.
    "@triton.jit\ndef f(x, y, z, ptr, N: tl.constexpr):\n    f(a, b, c, d, m or n)": True,
    "@triton.jit\ndef f(x, y, z, ptr, N: tl.constexpr):\n    f(a, b, c, d, N=m or n)": False,
    "@triton.jit\ndef f(x, y, z, ptr, stride):\n    f(a, b, c, d, 1)": False,
}


class Calls(ast.NodeVisitor):
    """The calls of a file that pass too much by position."""

    def __init__(
        self, with_names: dict[str, int | None], options_of_kernels: dict[str, set[int]]
    ) -> None:
        self.with_names = with_names
        self.options_of_kernels = options_of_kernels
        self.own_stars: list[str] = []  # of the functions around a call, such as `*args`
        self.found: list[ast.Call] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if is_kernel(node):
            calls = [x for x in ast.walk(node) if isinstance(x, ast.Call)]
            self.found += [call for call in calls if self.has_option_by_position(call)]
            return
        self.own_stars.append(node.args.vararg.arg if node.args.vararg else "")
        self.generic_visit(node)
        self.own_stars.pop()

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        called = ast.unparse(node.func)
        if isinstance(node.func, ast.Subscript) or called in EXCEPTIONS:  # `kernel[grid](...)`
            return
        method, function = f"self.{called.rpartition('.')[2]}", called.rpartition(".")[2]
        is_method = isinstance(node.func, ast.Attribute) and method in self.with_names
        named = node.args[: self.with_names.get(method if is_method else function)]
        # Arguments that a function was given itself may be handed on as they came.
        named = [x for x in named if not self.is_own_star(x)]
        has_star = any(isinstance(x, ast.Starred) for x in named)
        is_long = len(node.args) + len(node.keywords) > MOST
        if has_star or len(named) > MOST or (is_long and any(map(is_option, named))):
            self.found.append(node)

    def has_option_by_position(self, call: ast.Call) -> bool:
        """Whether a call in a kernel is long and passes an option by position.

        A function that isn't the package's own may have options anywhere: of its arguments, those
        that look like options count.
        """
        if any(isinstance(x, ast.Starred) for x in call.args):
            return True
        if len(call.args) + len(call.keywords) <= MOST:
            return False
        options = self.options_of_kernels.get(ast.unparse(call.func))
        if options is None:
            return any(is_option(x) or ast.unparse(x).isupper() for x in call.args)
        return any(place in options for place in range(len(call.args)))

    def is_own_star(self, argument: ast.expr) -> bool:
        return isinstance(argument, ast.Starred) and ast.unparse(argument.value) in self.own_stars


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether Triton reads a function, which then isn't Python's to call."""
    return any(ast.unparse(x).startswith("triton.jit") for x in function.decorator_list)


def is_option(argument: ast.expr) -> bool:
    """Whether this is a number or a flag, or has the name of an option."""
    if isinstance(argument, ast.UnaryOp):
        argument = argument.operand
    if isinstance(argument, ast.Constant):
        return not isinstance(argument.value, str)
    return ast.unparse(argument).rpartition(".")[2] in OPTIONS


def parameters_with_names(tree: ast.Module) -> dict[str, int | None]:
    """How many arguments of what a file defines have names; None: all of them.

    What goes to a parameter such as `*options` has none. Nor has an operator's field, which is in
    the order of its schema, and nothing that the `apply` of an autograd function takes.
    """
    found: dict[str, int | None] = {}
    methods = {x for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for x in node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not is_kernel(node):
            decorators = [ast.unparse(x) for x in node.decorator_list]
            count = len(node.args.args) - (node in methods) if node.args.vararg else None
            if any(x.startswith("operator(") for x in decorators):
                count = 0
            found[f"self.{node.name}" if node in methods else node.name] = count
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            is_apply = ast.unparse(node.value.func) == "apply_without_functorch"
            found |= {ast.unparse(node.targets[0]): 0} if is_apply else {}
    return found


def options_of_kernels(tree: ast.Module) -> dict[str, set[int]]:
    """For each function of a file that Triton reads: which of its parameters are options."""
    return {
        node.name: {i for i, x in enumerate(node.args.args) if is_constexpr(x)}
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and is_kernel(node)
    }


def is_constexpr(parameter: ast.arg) -> bool:
    return parameter.annotation is not None and ast.unparse(parameter.annotation) == "tl.constexpr"


def by_position(texts: dict[str, str]) -> Iterator[str]:
    """The calls in these files that pass too much by position."""
    trees = {name: ast.parse(text) for name, text in texts.items()}
    everywhere = {}
    in_kernels = {}
    for tree in trees.values():
        everywhere |= parameters_with_names(tree)
        in_kernels |= options_of_kernels(tree)
    for name, tree in trees.items():
        # A file's own functions come first: other files may have some of the same names.
        calls = Calls(
            everywhere | parameters_with_names(tree), in_kernels | options_of_kernels(tree)
        )
        calls.visit(tree)
        yield from [f"{name}:{call.lineno}: {ast.unparse(call)}" for call in calls.found]


def test_options_go_by_name_in_calls_with_more_than_four_arguments():
    texts = {str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in FILES}
    assert len(texts) > 30
    assert [*by_position(texts)] == []


def test_every_exception_is_called():
    """One that isn't would let a later call of this name pass."""
    calls = [
        ast.unparse(node.func)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
    ]
    assert set(calls) >= set(EXCEPTIONS)


@pytest.mark.parametrize("text", FAULTS)
def test_the_search_finds_a_position(text):
    assert len([*by_position({"text.py": text})]) == FAULTS[text]


def test_the_options_are_those_of_the_public_functions():
    names = inspect.signature(rope_kernels.apply_rotary_pos_emb).parameters
    tensors = {"t", "freqs", "cu_seqlens", "start_positions", "position_ids"}
    assert set(names) - tensors <= OPTIONS
