"""Which branches of functions a call takes: statements, and both arms of `x if y else z`."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple


class Branch(NamedTuple):
    """A part of a function that not every call runs."""

    function: str
    begin: tuple[int, int]  # line and column, of the file
    end: tuple[int, int]
    source: str

    def __str__(self) -> str:
        return f"{self.function}, line {self.begin[0]}: {self.source}"


@cache
def branches_of(function: Callable) -> tuple[Branch, ...]:
    """In the order of the file; without the docstring."""
    lines, first = inspect.getsourcelines(function)
    source = "".join(lines)
    (definition,) = ast.parse(textwrap.dedent(source)).body
    found = []
    for node in ast.walk(definition):
        if isinstance(node, ast.IfExp):
            found += [node.body, node.orelse]
        elif isinstance(node, ast.stmt) and not hasattr(node, "body"):
            found.append(node)
    found = [
        x for x in found if not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant))
    ]
    return tuple(
        Branch(
            function.__name__,
            (node.lineno + first - 1, node.col_offset),
            (node.end_lineno + first - 1, node.end_col_offset),
            ast.unparse(node),
        )
        for node in sorted(found, key=lambda node: (node.lineno, node.col_offset))
    )


@contextmanager
def branches_taken(*functions: Callable):
    """Notes the branches of these functions that run meanwhile.

    By instructions, not lines: the arms of `x if y else z` may share one.
    """
    by_code = {function.__code__: branches_of(function) for function in functions}
    places = {code: [*code.co_positions()] for code in by_code}
    taken: set[Branch] = set()

    def trace(frame, event, _):
        branches = by_code.get(frame.f_code)
        if branches is None:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            line, end_line, column, end_column = places[frame.f_code][frame.f_lasti // 2]
            if line is not None and column is not None:
                begin, end = (line, column), (end_line, end_column)
                taken.update(x for x in branches if x.begin <= begin and end <= x.end)
        return trace

    before = sys.gettrace()
    # Python 3.12 traces instructions only if a frame has asked for them before `settrace`.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        yield taken
    finally:
        sys.settrace(before)
