"""A function's own code as a short digest: which function it is, wherever it was copied to.

Annotations, docstrings, decorators and comments don't count. Names of functions don't count either,
so a helper that was renamed is the same. What the code refers to does: helpers by their own code,
modules by their names.
"""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType

NOT_COUNTED = ("annotation", "returns", "decorator_list", "type_comment", "type_params", "ctx")
LETTERS = 12


class UnknownCode(Exception):
    """The code can't be read, or refers to something that has no digest. The message says why."""


def code_digest(function: Callable) -> str:
    """The digest of a Python function and of the helpers that it calls.

    The same for every version of Python: only fields of the syntax tree that have been there since
    3.9 are walked, one by one.

    Raises:
        UnknownCode: its source is not available, or it wraps a function or closes over variables.
    """
    text = " ".join(_words_of_function(function, ()))
    return hashlib.sha256(text.encode()).hexdigest()[:LETTERS]


def _words_of_function(function: Callable, callers: tuple[Callable, ...]) -> Iterator[str]:
    if not isinstance(function, FunctionType):
        raise UnknownCode(f"{function!r} is no Python function")
    if function.__closure__ or hasattr(function, "__wrapped__"):
        raise UnknownCode(f"{function.__name__} wraps another function or closes over variables")
    try:
        source = textwrap.dedent(inspect.getsource(function))
        (node,) = ast.parse(source).body
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise UnknownCode(f"the source of {function.__name__} is not available") from error
    if not isinstance(node, ast.FunctionDef):
        raise UnknownCode(f"{function.__name__} was not written with def")
    scope = _Scope(function, (*callers, function))
    yield "def"
    yield from scope.words_of(node.args)
    has_docstring = ast.get_docstring(node) is not None
    for statement in node.body[1:] if has_docstring else node.body:
        yield from scope.words_of(statement)


class _Scope:
    """Writes the syntax tree of one function as words."""

    def __init__(self, function: FunctionType, callers: tuple[Callable, ...]) -> None:
        code = function.__code__
        self.globals, self.callers = function.__globals__, callers
        self.local = {*code.co_varnames, *code.co_cellvars}

    def words_of(self, node: object) -> Iterator[str]:
        if isinstance(node, ast.Name) and node.id not in self.local and node.id in self.globals:
            yield from self._words_of_global(node.id)
        elif isinstance(node, ast.AST):
            yield type(node).__name__
            for name in sorted(node._fields):
                value = getattr(node, name, None)
                if name not in NOT_COUNTED and value is not None and value != []:
                    yield name
                    yield from self.words_of(value)
        elif isinstance(node, list):
            yield "["
            for item in node:
                yield from self.words_of(item)
            yield "]"
        else:
            yield repr(node)

    def _words_of_global(self, name: str) -> Iterator[str]:
        value = self.globals[name]
        if isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(value, (int, float, str, type, BuiltinFunctionType)):
            yield getattr(value, "__qualname__", repr(value))
        elif value in self.callers:
            yield f"caller {self.callers.index(value)}"
        else:
            yield from _words_of_function(value, self.callers)
