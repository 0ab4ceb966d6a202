"""A function's own code as a short digest: which function it is, wherever it was copied to.

Annotations, docstrings, decorators and comments don't count. Names of functions don't count either,
so a helper that was renamed is the same. What the code refers to does: helpers by their own code,
modules by their names. The digest is read from the source, so the source has to be what runs.
"""

import ast
import hashlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

NOT_COUNTED = ("annotation", "returns", "decorator_list", "type_comment", "type_params", "ctx")
originals: dict[Callable, Callable] = {}  # by the function of ours that replaces each


class UnknownCode(Exception):
    """The code can't be read, or refers to something that has no digest. The message says why."""


def original_of(value: Any) -> Any:
    """What a function of ours replaced; any other object itself, also a wrapper around ours."""
    return originals.get(value, value) if isinstance(value, FunctionType) else value


def code_digest(function: Callable) -> str:
    """The digest of a Python function and of the helpers that it calls.

    The same for every version of Python: only fields of the syntax tree that have been there since
    3.9 are walked, one by one. Raises `UnknownCode` if its source is not available or not what
    runs, or if it wraps a function or closes over variables.
    """
    return _digest_of([_function_in_words(function, ())])


def digest_of_parts(parts: Iterable[ast.AST]) -> str:
    """The digest of parts of a `definition_of` a function; a global is no more than its name."""
    return _digest_of([_in_words(part, {}, ()) for part in parts])


def _digest_of(words: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


def definition_of(function: Callable) -> ast.FunctionDef:
    """The definition in the file, without a docstring. Raises `UnknownCode` if other code runs."""
    if not isinstance(function, FunctionType):
        raise UnknownCode(f"{function!r} is no Python function")
    if function.__closure__ or hasattr(function, "__wrapped__"):
        raise UnknownCode(f"{function.__name__} wraps another function or closes over variables")
    code, name = function.__code__, function.__name__
    try:
        definitions, codes = _read("".join(inspect.findsource(function)[0]))
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise UnknownCode(f"the source of {name} is not available") from error
    place = code.co_name, code.co_firstlineno
    if place not in definitions or _as_compiled(code) not in codes:
        raise UnknownCode(f"the source of {name} is not the code that runs")
    return definitions[place]


@lru_cache(maxsize=1)  # a function and its helpers are mostly in one file
def _read(text: str) -> tuple[dict[tuple[str, int], ast.FunctionDef], set[CodeType]]:
    """All definitions in a file, by name and first line; and all code.

    The whole file is compiled, because its imports change the code for `torch.cat(...)`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import has shown them
        tree = ast.parse(text)
        codes = [compile(tree, "<source>", "exec", dont_inherit=True)]
    for code in codes:  # grows
        codes += [x for x in code.co_consts if isinstance(x, CodeType)]
    definitions = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = node.body[ast.get_docstring(node) is not None :]
            first_line = min(x.lineno for x in (node, *node.decorator_list))
            definitions[node.name, first_line] = node
    return definitions, {*map(_as_compiled, codes)}


def _as_compiled(code: CodeType) -> CodeType:
    """A copy, as if it had never run: Python rewrites what runs often or is traced.

    It has no columns, which `python -X no_debug_ranges` leaves out.
    """
    return code.replace(co_linetable=b"")


def _function_in_words(function: Callable, callers: tuple[Callable, ...]) -> str:
    node, code = definition_of(function), function.__code__
    local = {*code.co_varnames, *code.co_cellvars}
    names = {name: x for name, x in function.__globals__.items() if name not in local}
    parts = [_in_words(x, names, (*callers, function)) for x in (node.args, *node.body)]
    return " ".join(["def", *parts])


def _in_words(node: object, names: Mapping[str, object], callers: tuple[Callable, ...]) -> str:
    """A syntax tree as words, in which a name may be that of a global: then it is what it is."""
    if isinstance(node, ast.Name) and node.id in names:
        return _global_in_words(original_of(names[node.id]), callers)
    if isinstance(node, list):
        return " ".join(["[", *[_in_words(x, names, callers) for x in node], "]"])
    if not isinstance(node, ast.AST):
        return repr(node)
    words = [type(node).__name__]
    for name in sorted(node._fields):
        value = getattr(node, name, None)
        if name not in NOT_COUNTED and value is not None and value != []:
            words += [name, _in_words(value, names, callers)]
    return " ".join(words)


def _global_in_words(value: object, callers: tuple[Callable, ...]) -> str:
    if isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value:
        return value.__name__
    if isinstance(value, (type, BuiltinFunctionType)):
        return f"{type(value).__name__} {value.__module__}.{value.__qualname__}"
    if isinstance(value, (int, float, str)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, FunctionType) and value in callers:
        return f"caller {callers.index(value)}"
    return _function_in_words(value, callers)
