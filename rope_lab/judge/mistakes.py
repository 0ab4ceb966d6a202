"""A mistake that readers make: what the verdict says, and the code that they write.

    mistakes = Solution("03-ex3").with_mistakes(
        Mistake("HALF is the first of the second half: <, not <=", in_first_half="column <= HALF"),
        Mistake("the sign is added: multiply by it", {"sign[None, :] * x": "sign[None, :] + x"}),
    )

The first replaces the line that sets `in_first_half`, the second a string. A wrong result is
compared with what the changed solution computes (`quick_triton.py`). Tests paste the changed
solution into the notebook and expect the verdict's words.
"""

import ast
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

_SOLUTIONS = Path(__file__).resolve().parents[2] / "notebooks" / "solutions"
_IMPORTS = """\
import torch

from rope_lab.judge.definitions import rotate_half
from rope_lab.judge.quick_triton import SumTensors, norm_kernel, tl, triton


"""


class Mistake:
    """A change of a solution, and what a verdict says about it.

    Args:
        words: what the verdict says.
        instead: text of the solution -> its replacement, wherever it occurs.
        lines: name -> the new right-hand side of the line that sets it.
    """

    def __init__(
        self, words: str, instead: Mapping[str, str] | None = None, /, **lines: str
    ) -> None:
        self.words = words
        self.instead = dict(instead or {})
        self.lines = lines

    def made_in(self, solution: str) -> str:
        """The solution with the mistake in it.

        Raises:
            ValueError: a text that is replaced, or a line, is not in the solution.
        """
        for name, line in self.lines.items():
            found = re.search(rf"^( *){name} = .*$", solution, re.MULTILINE)
            if not found:
                raise ValueError(f"no line of the solution sets {name}")
            solution = solution.replace(found[0], f"{found[1]}{name} = {line}")
        return replaced(solution, self.instead)


@dataclass(frozen=True)
class Solution:
    """The worked solution of an exercise, as text: functions, and a check of the last one."""

    cell: str  # its id in the notebook of solutions
    options: Mapping[str, object] = field(default_factory=dict)  # of the function's call
    instead: Mapping[str, str] = field(default_factory=dict)  # replacements in the cell

    @functools.cached_property
    def text(self) -> str:
        """Its functions."""
        source = replaced(_cells_of_solutions(self.cell[:2])[self.cell], self.instead)
        *functions, _ = ast.parse(source).body
        return "\n".join(source.splitlines()[: functions[-1].end_lineno]) + "\n"

    @functools.cached_property
    def name(self) -> str:
        """Of the function that is checked."""
        return ast.parse(self.text).body[-1].name

    def with_mistakes(self, *mistakes: Mistake) -> dict[str, "Mistaken"]:
        """Words -> mistake, for a specification's `mistakes`."""
        return {mistake.words: Mistaken(self, mistake) for mistake in mistakes}


@dataclass(frozen=True)
class Mistaken:
    """A solution with a mistake in it: a function that computes its results in PyTorch."""

    solution: Solution
    mistake: Mistake

    @property
    def text(self) -> str:
        return self.mistake.made_in(self.solution.text)

    @property
    def is_there(self) -> bool:
        """Whether the solution has the text to change: a reader may have edited the notebook."""
        try:
            return bool(self.text)
        except (LookupError, OSError, SyntaxError, ValueError):
            return False

    def __call__(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        return _function_in(self.text, self.solution.name)(*inputs, **self.solution.options)


@functools.cache
def _function_in(text: str, name: str) -> Callable:
    names: dict[str, object] = {}
    exec(_IMPORTS + text, names)
    return names[name]


@functools.cache
def _cells_of_solutions(number: str) -> dict[str, str]:
    """Id -> source of the cells, for a notebook's number."""
    (path,) = _SOLUTIONS.glob(f"{number}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells}


def replaced(text: str, instead: Mapping[str, str]) -> str:
    """A text with some of its parts replaced.

    Raises:
        ValueError: a part is not there.
    """
    for part, other in instead.items():
        if part not in text:
            raise ValueError(f"{part!r} is not in the solution")
        text = text.replace(part, other)
    return text
