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
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

NOT_COUNTED = ("annotation", "returns", "decorator_list", "type_comment", "type_params", "ctx")
LETTERS = 12
REPLACES = "_rope_kernels_replaces"  # of a function of ours: itself, and what it replaced


class UnknownCode(Exception):
    """The code can't be read, or refers to something that has no digest. The message says why."""


def original_of(value: object) -> object:
    """What a function of ours replaced; any other object itself, also a wrapper around ours.

    `functools.wraps` gives a wrapper the attributes of ours, so these name their owner.
    """
    if not isinstance(value, FunctionType):
        return value
    ours, original = vars(value).get(REPLACES, (None, None))
    return original if ours is value else value


def code_digest(function: Callable) -> str:
    """The digest of a Python function and of the helpers that it calls.

    The same for every version of Python: only fields of the syntax tree that have been there since
    3.9 are walked, one by one.

    Raises:
        UnknownCode: its source is not available or not what runs, or it wraps a function or closes
            over variables.
    """
    return _digest_of(_words_of_function(function, ()))


def digest_of_parts(parts: Iterable[ast.AST]) -> str:
    """The digest of parts of a `definition_of` a function; a global is no more than its name."""
    writer = _Writer()
    return _digest_of(word for part in parts for word in writer.words_of(part))


def _digest_of(words: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:LETTERS]


def _words_of_function(function: Callable, callers: tuple[Callable, ...]) -> Iterator[str]:
    node = definition_of(function)
    scope = _Scope(function, (*callers, function))
    yield "def"
    yield from scope.words_of(node.args)
    has_docstring = ast.get_docstring(node) is not None
    for statement in node.body[1:] if has_docstring else node.body:
        yield from scope.words_of(statement)


def definition_of(function: Callable) -> ast.FunctionDef:
    """The definition in the file, if code and defaults are still those that it has there.

    Raises:
        UnknownCode: as `code_digest`, but for what the function calls.
    """
    if not isinstance(function, FunctionType):
        raise UnknownCode(f"{function!r} is no Python function")
    if function.__closure__ or hasattr(function, "__wrapped__"):
        raise UnknownCode(f"{function.__name__} wraps another function or closes over variables")
    code, name = function.__code__, function.__name__
    try:
        text = "".join(inspect.findsource(function)[0])
        nodes, codes = _compiled(text)
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise UnknownCode(f"the source of {name} is not available") from error
    if code.co_name == "<lambda>":
        raise UnknownCode(f"{name} was not written with def")
    node = nodes.get((code.co_name, code.co_firstlineno))
    if node is None or _without_columns(code) not in codes or not _has_defaults(function, node):
        raise UnknownCode(f"the source of {name} is not the code that runs")
    return node


@lru_cache(maxsize=1)  # a function and its helpers are mostly in one file
def _compiled(text: str) -> tuple[dict[tuple[str, int], ast.FunctionDef], set[CodeType]]:
    """The functions in a file by name and first line, and all code that they are compiled to.

    The whole file is compiled, because its imports change the code for `torch.cat(...)`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import has shown them
        tree = ast.parse(text)
        found = [compile(tree, "<source>", "exec", dont_inherit=True)]
    for code in found:  # grows
        found += [x for x in code.co_consts if isinstance(x, CodeType)]
    nodes = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first_line = min(x.lineno for x in (node, *node.decorator_list))
            nodes[node.name, first_line] = node
    return nodes, {_without_columns(code) for code in found}


def _without_columns(code: CodeType) -> CodeType:
    """A copy, which is as if it had never run: Python rewrites code that runs often or is traced.

    `python -X no_debug_ranges` leaves columns out.
    """
    return code.replace(co_linetable=b"")


def _has_defaults(function: FunctionType, node: ast.FunctionDef) -> bool:
    """Whether its defaults are those of the definition: as text, where 1 is not True."""
    given = node.args
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    try:
        by_place = tuple([ast.literal_eval(x) for x in given.defaults])
        by_name = {arg.arg: ast.literal_eval(x) for arg, x in named if x is not None}
    except ValueError as error:
        raise UnknownCode(f"a default of {node.name} is no literal") from error
    return repr((by_place, by_name)) == repr(
        (function.__defaults__ or (), function.__kwdefaults__ or {})
    )


class _Writer:
    """Writes a syntax tree as words."""

    def words_of(self, node: object) -> Iterator[str]:
        if isinstance(node, ast.AST):
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


class _Scope(_Writer):
    """Writes that of one function: a global as that which it is."""

    def __init__(self, function: FunctionType, callers: tuple[Callable, ...]) -> None:
        code = function.__code__
        self.globals, self.callers = function.__globals__, callers
        self.local = {*code.co_varnames, *code.co_cellvars}

    def words_of(self, node: object) -> Iterator[str]:
        if isinstance(node, ast.Name) and node.id not in self.local and node.id in self.globals:
            yield from self._words_of_global(node.id)
        else:
            yield from super().words_of(node)

    def _words_of_global(self, name: str) -> Iterator[str]:
        value = original_of(self.globals[name])
        if isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value:
            yield value.__name__
        elif isinstance(value, (type, BuiltinFunctionType)):
            yield f"{type(value).__name__} {value.__module__}.{value.__qualname__}"
        elif isinstance(value, (int, float, str)):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, FunctionType) and value in self.callers:
            yield f"caller {self.callers.index(value)}"
        else:
            yield from _words_of_function(value, self.callers)
