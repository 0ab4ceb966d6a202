"""What is changed in a run of a candidate, and what is noted of it. Triton need not be there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

if TYPE_CHECKING:  # they import Triton, which a reader may not have
    from ..hooks import Access, Memory

Index = tuple[int, ...]
Places = tuple[np.ndarray, ...]  # the indices of elements, dimension by dimension
# A name of a kernel, and the line that sets it, '' for an argument; or '' and an access's line.
Setting = tuple[str, str]
Blocks = dict[int, np.ndarray]  # of each program
Put = Callable[[int, np.ndarray], np.ndarray]  # another block, from a program's number and its own

FOR_PROOFS, IN_ALL = 6000, 8000  # loads and stores
A_RUN = 10  # what the launch of a run costs, in these


class OutOfBudget(Exception):
    """The experiments have made as many loads and stores as they may."""


class Budget:
    """How much the experiments of one verdict may do.

    It counts and takes no time, so that a verdict is the same on every machine.

    Attributes:
        hurries: whether no proofs are looked for any more, but only what a run shows.
    """

    def __init__(self) -> None:
        self.spent, self.hurries = 0, False

    @property
    def is_spent(self) -> bool:
        return self.spent > (IN_ALL if self.hurries else FOR_PROOFS)

    def spend(self, accesses: int = 1) -> None:
        """Raises OutOfBudget."""
        self.spent += accesses
        if self.is_spent:
            raise OutOfBudget


@dataclass(frozen=True)
class Program:
    """One program of a launch: its number among all that run, its place, and the grid."""

    number: int
    place: Index
    grid: Index


@dataclass(frozen=True)
class Changes:
    """What is changed in a run.

    Attributes:
        inputs: changes them in place.
        arguments: of launches, by name: their new values.
        grid: that of all launches; None: their own.
        blocks: what a name of a kernel becomes, or what a line accesses, from the number of the
            program and its block.
        memories: of the run in which the addresses of these blocks are.
        fill: a line, and what its masked lanes load; '' stands for all lines.
        only: the one program that runs; None: all run.
    """

    inputs: Callable[[list[Tensor]], object] = lambda given: None
    arguments: Mapping[str, object] = field(default_factory=dict)
    grid: Index | None = None
    blocks: Mapping[Setting, Put] = field(default_factory=dict)
    memories: "Sequence[Memory]" = ()
    fill: tuple[str, float] | None = None
    only: Program | None = None


@dataclass(frozen=True)
class Noted:
    """An access of a block, by a program and at a line of the reader's."""

    access: "Access"
    program: int
    line: str

    @property
    def is_load(self) -> bool:
        return self.access.does == "loads"

    @property
    def shape(self) -> Index:
        return self.access.addresses.shape

    def address(self, lane: Index, shape: Index, is_on: bool = True) -> int | None:
        """Of a lane in another block of the program; None if blocks differ, or masks do."""
        try:
            at, on = (
                np.broadcast_to(x, shape)[lane] for x in (self.access.addresses, self.access.wanted)
            )
        except ValueError:
            return None
        return int(at) if on == is_on else None


@dataclass(frozen=True)
class Named:
    """A name of a kernel that a program has set."""

    program: int
    setting: Setting
    block: np.ndarray
    kind: str  # 'f', 'i' or 'b', as in NumPy; 'p' for a pointer, 'u' for bf16
    dtype: str  # in Triton's words

    @property
    def name(self) -> str:
        return self.setting[0]

    @property
    def line(self) -> str:
        return self.setting[1]


@dataclass(frozen=True)
class Launched:
    """A launch of a kernel."""

    kernel: Callable
    arguments: dict[str, object]


NOTHING = Changes()


class NoRecord:
    """Of a run without Triton: no kernel has run."""

    noted: Sequence[Noted] = ()
    named: Sequence[Named] = ()
    launched: Sequence[Launched] = ()
    programs: Sequence[Index] = ()
    memories: "Sequence[Memory]" = ()
    leaves = False

    def stores(self) -> list[Noted]:
        return []

    loads = stores


def address_of(tensor: Tensor, at: Index | Places) -> "int | np.ndarray":
    """The address of one element, or those of many."""
    steps = (i * step for i, step in zip(at, tensor.stride(), strict=True))
    return tensor.data_ptr() + tensor.element_size() * sum(steps)
