"""Is the launch wrong? With which other argument, or other grid, would every element be right?

In small cases many numbers would do by chance: all programs but the first may be masked off. So a
change counts only if it is computed from the sizes of the inputs, and makes other cases right, too.
"""

import ast
import inspect
import itertools
import math
import textwrap
from collections.abc import Callable
from functools import cached_property

from .changes import Changes
from .experiments import Experiments

_MOST_PROGRAMS = 4096


class Launch:
    """The candidate's first launch, and changes of it."""

    def __init__(self, e: Experiments) -> None:
        self.e = e
        self.launched = e.launch

    def cured_argument(self, names: list[str]) -> tuple[str, int, str] | None:
        """One of these arguments, its right value, and how it is computed."""
        for name in names:
            now = self.e.numbers.get(name)
            if now is not None:
                formulas = (
                    (lambda e, now=now: {str(not now): not now}) if now is bool(now) else sizes
                )
                found = self._cured(
                    formulas, now, lambda value, name=name: {"arguments": {name: value}}
                )
                if found:
                    return name, *found
        return None

    def exchanged_arguments(self, names: list[str]) -> tuple[str, str] | None:
        """Two of these that have changed places."""
        # Arguments that are passed as a tuple come in its order: then the kernel exchanges them.
        known = [name for name in names if name in self.e.numbers and self.passed(name)]
        for one, other in itertools.combinations(known, 2):

            def exchanged(e: Experiments, one: str = one, other: str = other) -> Changes:
                given = e.launch.arguments if e.launch else {}
                return Changes(arguments={one: given.get(other), other: given.get(one)})

            differs = self.e.numbers[one] != self.e.numbers[other]
            if differs and all(e.is_cured_by(exchanged(e)) for e in (self.e, *self.e.others)):
                return one, other
        return None

    def cured_grid(self) -> tuple[int, str] | None:
        """How many programs there should be, and how the number is computed."""
        stores = self.e.record.stores()
        lanes = {one.shape[0] for one in stores if one.shape}
        lanes |= {one.access.addresses.size for one in stores}
        return self._cured(
            lambda e: grids(e, sorted(lanes)),
            len(self.e.record.programs),
            lambda value: {"grid": (value,)},
        )

    def _cured(
        self,
        formulas: Callable[[Experiments], dict[str, int]],
        now: int,
        changes: Callable[[int], dict[str, object]],
    ) -> tuple[int, str] | None:
        """The first formula that makes all cases right, with its value in this one."""
        tried: dict[int, bool] = {now: False}
        for words, value in sorted(formulas(self.e).items(), key=lambda item: item[1]):
            if value not in tried:
                is_possible = 0 < value < _MOST_PROGRAMS or "grid" not in changes(value)
                tried[value] = is_possible and self.e.is_cured_by(Changes(**changes(value)))
            if tried[value] and all(
                other.is_cured_by(Changes(**changes(formulas(other)[words])))
                for other in self.e.others
            ):
                return value, words
        return None

    # in the reader's source

    @cached_property
    def _call(self) -> ast.Call | None:
        """The launch in the source of the reader's function."""
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(self.e.function)))
        except (OSError, TypeError, SyntaxError):
            return None
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        return next((call for call in calls if isinstance(call.func, ast.Subscript)), None)

    def passed(self, name: str) -> str:
        """What the launch passes for an argument, as it is written; '' if it isn't known."""
        if self._call is None or self.launched is None:
            return ""
        kernel = list(inspect.signature(self.launched.kernel).parameters)
        given = itertools.takewhile(lambda x: not isinstance(x, ast.Starred), self._call.args)
        written = dict(zip(kernel, given, strict=False))
        written |= {word.arg: word.value for word in self._call.keywords if word.arg}
        return ast.unparse(written[name]) if name in written else ""

    @property
    def line(self) -> str:
        """The line that sets the grid, or that launches."""
        if self._call is None:
            return ""
        source = textwrap.dedent(inspect.getsource(self.e.function)).splitlines()
        grid = self._call.func.slice
        if isinstance(grid, ast.Name):
            return next((x.strip() for x in source if x.strip().startswith(f"{grid.id} =")), "")
        return source[self._call.func.lineno - 1].strip()


def sizes(e: Experiments) -> dict[str, int]:
    """Numbers that a launcher may compute from its inputs."""
    found: dict[str, int] = {}
    for name, x in zip(e.wanted.names, e.given, strict=True):
        for k, size in enumerate(x.shape):
            found[f"{name}.shape[{k}]"] = size
        for first, end in itertools.combinations(range(x.dim() + 1), 2):
            if 1 < end - first < x.dim():
                words = " * ".join(f"{name}.shape[{k}]" for k in range(first, end))
                found[words] = math.prod(x.shape[first:end])
        found[f"{name}.numel()"] = x.numel()
        if x.dim():
            found[f"{name}.shape[-1] // 2"] = x.shape[-1] // 2
        for k, stride in enumerate(x.stride()):
            found[f"{name}.stride({k})"] = stride
    return found


def grids(e: Experiments, lanes: list[int]) -> dict[str, int]:
    """How many programs there may be, where each stores so many lanes."""
    found = sizes(e)
    for words, size in sizes(e).items():
        for count in lanes:
            found[f"cdiv({words}, {count})"] = -(-size // count)
    for (words, size), name in itertools.product(found.copy().items(), e.wanted.names[:1]):
        found[f"{name}.shape[0] * {words}"] = e.given[0].shape[0] * size
    return found
