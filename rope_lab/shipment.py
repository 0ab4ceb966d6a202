"""Source of a function and of everything it uses, for a process without the notebook.

The processes that judge and compile cannot import a notebook's cells. They get the source of a
module in which the function works as in its cell: a `Shipment`. `Shipped` is a function that is
called there.
"""

import ast
import importlib.util
import inspect
import math
import re
import symtable
import sys
import types
from pathlib import Path

import torch

_PLAIN = (int, float, str, bool, bytes, complex, types.NoneType, types.EllipsisType)
_HOLDERS = (tuple, list, dict)
_WRAPPERS = ("builtins", "functools", "rope_lab", "triton")  # classes of these hold a function
# modules of objects that name none, or another
_HOMES = ("torch", "torch.nn.functional", "triton.language")


class CannotPassOn(TypeError):
    """Something has no source that can be passed on; the message is a sentence for the reader."""

    def __init__(self, name: str, what: str, advice: str = "make it inside the function") -> None:
        super().__init__(f"{name} is {what}, which the check cannot pass on: {advice}")
        self.name, self.what = name, what


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
    """Name -> value, for what a function uses from its module or an enclosing function.

    `source` is the part of its source that is passed on.
    """
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


class Shipment:
    """Source of a module with a function and everything it uses.

    Attributes:
        parts: name -> the lines that define it, after everything that they need.
    """

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._values: dict[str, object] = {}

    @property
    def program(self) -> str:
        return "\n\n".join(filter(None, self.parts.values())) + "\n"

    def add(self, name: str, value: object) -> None:
        """Add the lines that define `name`, and what they need.

        Raises:
            CannotPassOn: there are no such lines.
        """
        if name not in self._values:
            self._values[name] = value  # before its source, because a function may use itself
            self.parts[name] = self.source(name, value)
        elif not _same(self._values[name], value):
            raise CannotPassOn(name, "a name with two meanings", "rename one of them")

    def source(self, name: str, value: object) -> str:
        """The lines that define `name`; what they need is added."""
        function = function_of(value)
        if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
            return f"import {value.__name__} as {name}"
        if type(value) in (*_PLAIN, *_HOLDERS):
            return f"{name} = {self._expression(name, value)}"
        if place := self.place_of(value):
            module, there = place
            return f"from {module} import {there} as {name}"
        if isinstance(function, types.FunctionType):
            return self._function(name, value, function)
        if type(value).__name__ == "constexpr":
            inside = self._expression(name, value.value)
            return f"import triton.language\n{name} = triton.language.constexpr({inside})"
        if type(value).__module__ == "triton.runtime.autotuner":  # a `triton.Config`
            options = self._expression(name, vars(value))
            return f"import triton\n{name} = triton.Config(**{options})"
        if isinstance(value, torch.device):
            return f"import torch\n{name} = torch.device({str(value)!r})"
        if isinstance(value, torch.Size):
            return f"import torch\n{name} = {value!r}"
        raise CannotPassOn(name, kind_of(value))

    def can_be_imported(self, module: str) -> bool:
        """Whether the other process finds a module of this name."""
        found = sys.modules.get(module)
        return module != "__main__" and getattr(found, "__spec__", None) is not None

    def place_of(self, value: object) -> tuple[str, str] | None:
        """Module and name from which the other process can import a value."""
        function = function_of(value)
        called = getattr(function, "__name__", "")
        for module in (getattr(function, "__module__", None), *_HOMES):
            if module not in sys.modules or not self.can_be_imported(module):
                continue
            names = vars(sys.modules[module])
            if called in names and function_of(names[called]) is function:
                return module, called
            for name, other in names.items():
                if other is value:
                    return module, name
        return None

    def _expression(self, name: str, value: object) -> str:
        """An expression for a value; what isn't plain in it gets its own name."""
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')"
        if type(value) in _PLAIN:
            return repr(value)
        if type(value) is dict:
            return f"dict({self._expression(name, list(value.items()))})"
        if type(value) in _HOLDERS:
            items = [self._expression(f"_{name}_{i}", item) for i, item in enumerate(value)]
            # after a single item, a comma makes a tuple
            items = "".join(f"{item}, " for item in items)
            return f"[{items}]" if type(value) is list else f"({items})"
        self.add(name, value)
        return name

    def _function(self, name: str, value: object, function: types.FunctionType) -> str:
        try:
            source = text_of(function)
        except OSError:
            advice = "write it by def in a cell or a file"
            raise CannotPassOn(name, "a function without a source", advice) from None
        if is_kernel(value):
            if not _has_its_decorators(value, source):
                advice = "write its decorators above its def"
                raise CannotPassOn(name, "a kernel that a call has made", advice)
            if name != function.__name__:
                self.add(function.__name__, value)
                return f"{name} = {function.__name__}"
            text = source
        else:
            try:
                text = _named(name, source, function)
            except SyntaxError:
                what = "a lambda in a statement with several lambdas or lines"
                raise CannotPassOn(name, what, "write it by def") from None
        for other, thing in globals_of(function, text).items():
            self.add(other, thing)
        return text


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


def _same(one: object, other: object) -> bool:
    if type(one) in _PLAIN:
        return type(one) is type(other) and one == other
    return function_of(one) is function_of(other)


def _named(name: str, source: str, function: types.FunctionType) -> str:
    """The lines that define a function by this name, without its decorators."""
    if function.__code__.co_name == "<lambda>":
        return f"{name} = {_lambda_in(source)}"
    head = re.search(r"^def \w+", source, re.MULTILINE)
    if head is None:
        raise SyntaxError("no def")
    return f"def {name}" + source[head.end() :]


def _lambda_in(source: str) -> str:
    """The source of the lambda in these lines.

    Raises:
        SyntaxError: the lines aren't a whole statement, or have several lambdas.
    """
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda)]
    if len(nodes) != 1:
        raise SyntaxError(f"{len(nodes)} lambdas")
    return ast.get_source_segment(source, nodes[0])
