"""Source of a function and of what it uses: a module in which it works as in its cell."""

import ast
import importlib.util
import inspect
import symtable
import sys
import types
from pathlib import Path

_WRAPPERS = ("builtins", "functools", "rope_lab", "triton")  # classes of these hold a function


class NotStandalone(TypeError):
    """Something has no source that a module could have; the message is for the reader."""


def globals_in(source: str) -> list[str]:
    """Names that a function's source uses from outside, in order of appearance.

    A code object's `co_names` also has attributes: for `tl.load`, also `load`.
    """
    tables = [symtable.symtable(source, "a cell", "exec")]
    for table in tables:
        tables += table.get_children()
    symbols = [symbol for table in tables for symbol in table.get_symbols()]
    found = [
        s.get_name()
        for s in symbols
        if s.is_global() and (s.is_referenced() or s.is_declared_global())
    ]
    return list(dict.fromkeys(found))


def globals_of(function: types.FunctionType, source: str) -> dict[str, object]:
    """Name -> value, for what a function with this source uses from around it, as it is now."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    filled = {n: cell.cell_contents for n, cell in cells.items() if cell != types.CellType()}
    around = function.__globals__ | filled
    names = globals_in(source)
    return {name: around[name] for name in names if name in around and not name.startswith("__")}


def text_of(function: types.FunctionType) -> str:
    """A function's source, its decorators included, moved to the left margin."""
    return inspect.cleandoc("\n" + inspect.getsource(function))


def function_of(value: object) -> object:
    """The Python function inside a kernel, a specification or a decorated function."""
    if isinstance(value, type | types.ModuleType):
        return value
    known = type(value).__module__.partition(".")[0] in _WRAPPERS
    own = getattr(value, "__dict__", {}) if known else {}
    inner = next((own[name] for name in ("fn", "__wrapped__") if name in own), None)
    return value if inner is None else function_of(inner)


def module_of_file(path: Path) -> types.ModuleType:
    """Load a source file as a new module."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


class Standalone:
    """Source of a module with a function and what it uses: kernels, functions, plain values.

    Attributes:
        parts: name -> the lines that define it, after everything that they need.
    """

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._values: dict[str, object] = {}

    def add(self, name: str, value: object) -> None:
        """Add the lines that define `name`, and what they need.

        Raises:
            NotStandalone: there are no such lines.
        """
        if name not in self._values:
            self._values[name] = value  # before its source, because a function may use itself
            self.parts[name] = self._source(name, value)
        elif self._values[name] is not value and self._values[name] != value:
            raise NotStandalone(f"{name} has two meanings: rename one of them")

    def _source(self, name: str, value: object) -> str:
        function = function_of(value)
        if isinstance(value, types.ModuleType):
            return f"import {value.__name__} as {name}"
        if _is_literal(value):
            return f"{name} = {value!r}"
        if type(value).__name__ == "constexpr" and _is_literal(value.value):
            return f"{name} = tl.constexpr({value.value!r})"
        own, home = getattr(function, "__name__", ""), getattr(function, "__module__", "")
        if home != "__main__" and hasattr(sys.modules.get(home), own):  # not a cell's
            return f"from {home} import {own} as {name}"
        if not isinstance(function, types.FunctionType) or not own.isidentifier():
            raise NotStandalone(f"{name} is {kind_of(value)}: write a function by def")
        if own != name:
            self.add(own, value)
            return f"{name} = {own}"
        return self._text(value, function)

    def _text(self, value: object, function: types.FunctionType) -> str:
        """The source of a function or a kernel, after what it uses is added."""
        try:
            text = text_of(function)
        except OSError:
            raise NotStandalone(f"{function.__name__} has no source") from None
        if not _has_its_decorators(value, text):
            raise NotStandalone(f"{function.__name__}: write its decorators above its def")
        for name, other in globals_of(function, text).items():
            self.add(name, other)
        return text


def _is_literal(value: object) -> bool:
    try:
        return ast.literal_eval(repr(value)) == value
    except (SyntaxError, ValueError):
        return False


def refusal_of_a_candidate(candidate: object, called: str = "the candidate") -> str:
    """Why it can't be called as a notebook's function; '' if it can. `called`: its name there."""
    if is_kernel(candidate) or is_launch(candidate):
        launcher = "the function that launches it, by kernel[grid](...), and returns its result"
        return f"{called} is a kernel: give {launcher}"
    return "" if callable(candidate) else f"{called} is {kind_of(candidate)}: give it a function"


def is_kernel(value: object) -> bool:
    """Whether it is a kernel: a `@triton.jit` function, possibly autotuned."""
    return hasattr(value, "fn") and type(value).__module__.partition(".")[0] == "triton"


def is_launch(value: object) -> bool:
    """Whether it is `kernel[grid]`, a Triton function that holds the kernel."""
    cells = getattr(value, "__closure__", None) or ()
    home = str(getattr(value, "__module__", "")).partition(".")[0]
    return home == "triton" and any(is_kernel(cell.cell_contents) for cell in cells)


def kind_of(value: object) -> str:
    """'a Tensor'."""
    if is_kernel(value):
        return "a kernel"
    kind = "class" if isinstance(value, type) else type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _has_its_decorators(kernel: object, source: str) -> bool:
    """Whether a kernel's source has all of them, unlike that of `kernel = triton.jit(f)`."""
    count = 0
    while is_kernel(kernel):
        count, kernel = count + 1, kernel.fn
    return count <= len(ast.parse(source).body[0].decorator_list)
