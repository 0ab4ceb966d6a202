"""A mistake that readers make: the words that they are told, and what they write instead.

    ROTATE_HALF = Solution("n03/solutions.py", "rotate_half")

    @spec(
        kernel=True,
        mistakes=ROTATE_HALF.with_mistakes(
            Mistake(
                "column HALF is the first of the second half: <, not <=",
                in_first_half="column <= HALF",
            ),
            Mistake(
                "the sign is added, where it is a factor",
                {"sign[None, :] * x": "sign[None, :] + x"},
            ),
        ),
    )

The first replaces the line that sets `in_first_half`, the second a text. A wrong result is compared
with what the changed solution computes (`quick_triton.py`). Tests paste the changed solution into
the notebook, and expect the words.
"""

import ast
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from .shipped import Shipped

_ROPE_LAB = Path(__file__).parent.parent
_IMPORTS = """\
import torch

from rope_lab.judge.definitions import rotate_half
from rope_lab.judge.quick_triton import tl, triton


"""


class Mistake:
    """A change of a solution, and the words by which a verdict tells it.

    Args:
        words: what the verdict says.
        instead: text of the solution -> what is in its place, wherever it is.
        lines: name -> what the line that sets it sets it to.
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
    """A right answer to an exercise, as text: a function, and those that it names."""

    file: str  # in rope_lab
    name: str  # of the function
    options: Mapping[str, object] = field(default_factory=dict)  # it is called with
    instead: Mapping[str, str] = field(default_factory=dict)  # of what is in the file

    @functools.cached_property
    def text(self) -> str:
        source = replaced((_ROPE_LAB / self.file).read_text(encoding="utf-8"), self.instead)
        functions = {x.name: x for x in ast.parse(source).body if isinstance(x, ast.FunctionDef)}
        used, lines = [self.name], source.splitlines()
        for name in used:
            named = {x.id for x in ast.walk(functions[name]) if isinstance(x, ast.Name)}
            used += [other for other in functions if other in named and other not in used]
        parts = []
        for function in (x for name, x in functions.items() if name in used):
            first = min(x.lineno for x in (function, *function.decorator_list))
            parts.append("\n".join(lines[first - 1 : function.end_lineno]))
        return "\n\n\n".join(parts) + "\n"

    def with_mistakes(self, *mistakes: Mistake) -> dict[str, "Mistaken"]:
        """By their words, for a specification's `mistakes`."""
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
    def shipped(self) -> Shipped:
        """For a child: by its text, as it is."""
        name, options = self.solution.name, dict(self.solution.options)
        return Shipped(_IMPORTS + self.text, name, options, renamed={})

    @functools.cached_property
    def function(self) -> Callable:
        names: dict[str, object] = {}
        exec(_IMPORTS + self.text, names)
        return functools.partial(names[self.solution.name], **self.solution.options)

    def __call__(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.function(*inputs)


def replaced(text: str, instead: Mapping[str, str]) -> str:
    """A text with others in place of some of its parts.

    Raises:
        ValueError: a part is not there.
    """
    for part, other in instead.items():
        if part not in text:
            raise ValueError(f"{part!r} is not in the solution")
        text = text.replace(part, other)
    return text
