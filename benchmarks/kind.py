"""What tells one kind of record from another: its sets, its rows, its page.

They differ in nothing else: `measure.py` measures them all the same way. `kinds/` has a file each.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.case import Case, Group
from benchmarks.gpu import GPU
from benchmarks.provider import Provider, Run
from benchmarks.results import Table
from rope_lab.timing import Timing


@dataclass(frozen=True)
class Checked:
    """A call that may be timed."""

    run: Run
    error: float | None  # None: a limit rotates nothing
    peak_bytes: int


@dataclass(frozen=True)
class Measured:
    """One call: what was found out about it."""

    group: Group
    case: Case
    direction: str
    provider: str
    checked: Checked
    timing: Timing
    limit_us: float  # of the limit, measured in turns with it
    host_us: float

    @property
    def error(self) -> float | None:
        """In three digits."""
        return self.checked.error and float(f"{self.checked.error:.3g}")


def origins(providers: Iterable[Provider], absent: dict[str, str]) -> dict:
    """Who took part, for a record: where each comes from, and what is timed."""
    about = {p.name: p.about() | {"absent": absent.get(p.name)} for p in providers}
    return {"format": 1, "providers": about}


@dataclass(frozen=True)
class Kind:
    """A kind of record."""

    file: str  # name of its records
    sets: dict[str, tuple[Group, ...]]
    record: tuple[str, ...]  # the sets that a record holds
    mark: str  # a field, of its rows or beside them, that no kind after it has
    providers: dict[str, Provider] = field(default_factory=dict)
    ours: tuple[str, ...] = ()  # measured always, and an error of the command if it fails
    place: Callable[[str, Group, Case], dict] | None = None  # the first fields of a case's row
    facts: Callable[[Measured], dict] | None = None  # the last ones
    # measures what is no case: adds to a record's rows and fields, and says so after each part
    more: Callable[[GPU, dict], Iterable[str]] = lambda gpu, found: ()
    about: Callable[[Iterable[Provider], dict[str, str]], dict] = origins
    page: Callable[[dict], str] | None = None
    tables: Callable[[dict], list[Table]] = lambda results: []  # in README or docs
    has_picture: bool = False  # `pictures.py` draws it
