"""A reader's function on its way to a child process: as source, and there as a function again."""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..shipment import CannotPassOn, Shipment, is_kernel, is_launch, kind_of, module_of_file
from .spec import Spec

_PLAIN = (int, float, str, bool, type(None))  # what a partial may hold
_NUMBERS = itertools.count()  # of files


@dataclass(frozen=True)
class Shipped:
    """A function as source.

    Attributes:
        program: a module that has it.
        name: its name there.
        options: keyword arguments of all calls.
        renamed: name of a kernel there -> its own name, where they differ.
    """

    program: str
    name: str
    options: dict[str, object]
    renamed: dict[str, str]

    @classmethod
    def of(cls, function: Callable, called: str) -> "Shipped":
        """`called`: its name in a refusal.

        Raises:
            CannotPassOn: something in it has no source.
        """
        options = {}
        if isinstance(function, functools.partial):
            if function.args or not all(isinstance(v, _PLAIN) for v in function.keywords.values()):
                raise CannotPassOn(called, "a partial", "give it plain keyword arguments")
            function, options = function.func, dict(function.keywords)
        if is_kernel(function) or is_launch(function):
            launcher = "the function that launches it, by kernel[grid](...), and returns its result"
            raise CannotPassOn(called, "a kernel", f"give {launcher}")
        if not callable(function):
            raise CannotPassOn(called, kind_of(function), "give it a function")
        name = getattr(function, "__name__", "")
        # a lambda's is none
        return cls.by_name(name if name.isidentifier() else called.split()[-1], function, options)

    @classmethod
    def by_name(cls, name: str, value: object, options: dict | None = None) -> "Shipped":
        """A function, or a kernel, which gets this name."""
        shipment = Shipment()
        shipment.add(name, value)
        return cls(shipment.program, name, options or {}, shipment.renamed)

    def load(self, folder: Path, kind: str) -> Callable:
        """The function from its source, which is also a file: Triton reads kernels from there.

        `kind`: how the file's name begins. A line of a "candidate" is told where it goes wrong.
        """
        path = folder / f"{kind}_{next(_NUMBERS)}.py"
        path.write_text(self.program, encoding="utf-8")
        function = getattr(module_of_file(path), self.name)
        if isinstance(function, Spec):
            function = function.function
        return functools.partial(function, **self.options) if self.options else function
