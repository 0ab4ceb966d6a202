"""What a line means that looks like something else."""

import ast
from collections.abc import Callable
from types import FunctionType

from ...standalone import function_of, globals_of, text_of


def unlike_its_look(candidate: Callable) -> str:
    """A comparison with `&` or `|` in it and no parentheses, and what it means; '' if none is.

    `exists & a < b` is (exists & a) < b, because in Python `&` binds tighter than `<`.
    """
    return next(filter(None, map(_in_source, _sources(candidate))), "")


def _sources(candidate: Callable) -> list[str]:
    """The source of a function, and of those of its module that it uses."""
    functions, texts = [function_of(getattr(candidate, "func", candidate))], []
    for function in functions:
        try:
            text = text_of(function)
            used = map(function_of, globals_of(function, text).values())
        except (OSError, TypeError, SyntaxError):  # it has no source of its own, as a lambda
            continue
        texts.append(text)
        own = (x for x in used if isinstance(x, FunctionType) and x not in functions)
        functions += [x for x in own if x.__module__ == functions[0].__module__]
    return texts


def _in_source(program: str) -> str:
    for compared in ast.walk(ast.parse(program)):
        if not isinstance(compared, ast.Compare):
            continue
        written = ast.get_source_segment(program, compared)
        for part in (compared.left, *compared.comparators):
            is_joined = isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd | ast.BitOr)
            joined = ast.get_source_segment(program, part)
            if is_joined and f"({joined})" not in written:
                means = written.replace(joined, f"({joined})")
                return f"`{written}` means {means}: put each comparison in parentheses"
    return ""
