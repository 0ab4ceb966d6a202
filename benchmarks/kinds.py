"""The three kinds of record: what is measured beside whom, and what a row says of it.

They differ in nothing else: `measure.py` measures them all the same way.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from benchmarks.bars import COS_AND_SIN, ON_THE_FLY
from benchmarks.case import Case, Group
from benchmarks.norm_cases import NORM_GROUPS, NORM_OURS, UNITS
from benchmarks.norm_workload import LARGEST_ERROR, NormWorkload
from benchmarks.providers import FROM_SOURCES, NORMS, OURS, PROVIDERS
from benchmarks.providers.base import Provider, Run
from benchmarks.reports import norm, peers, rotation
from benchmarks.reports.markdown import Table
from benchmarks.shapes import EVERYBODY_FROM_SOURCES, RECORD, SETS
from benchmarks.workload import Errors, Workload, allowed_error
from rope_lab.timing import Timing


@dataclass(frozen=True)
class Checked:
    """A call that may be timed."""

    run: Run
    errors: Errors | None  # None: a limit rotates nothing
    right: bool
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


@dataclass(frozen=True)
class Kind:
    """What tells one kind of record from another."""

    file: str  # name of its records
    sets: dict[str, tuple[Group, ...]]
    record: tuple[str, ...]  # the sets that a record holds
    providers: dict[str, Provider]
    ours: tuple[str, ...]  # measured always, and an error of the command if it fails
    place: Callable[[str, Group, Case], dict]  # which case, in the first fields of a row
    facts: Callable[[Measured], dict]  # the last fields of a row
    about: Callable[[Iterable[Provider], dict[str, str]], dict]  # who took part, for the record
    mark: str  # a field of its rows that no other kind has
    page: Callable[[dict], str]
    pictures: str = ""  # module of `benchmarks.reports` that draws them
    tables: Callable[[dict], list[Table]] = lambda results: []  # in README files
    verdicts: Callable[[dict], list[str]] = lambda results: []  # in words, one a line
    workload: type[Workload] = Workload
    allowed_error: Callable[[Case, str], float] = allowed_error
    times_wrong: bool = False  # a wrong result has a row that says so; else it is left out


def _rotation(measured: Measured) -> dict:
    group, case, checked = measured.group, measured.case, measured.checked
    bar = group.bar(measured.direction) if measured.provider == OURS else None
    return {
        "error": checked.errors and _rounded(checked.errors.relative),
        "right": checked.right,
        "peak_bytes": checked.peak_bytes,
        "host_us": measured.host_us,
        "how": checked.run.how,
        "bytes": case.bytes_moved * (2 if measured.direction == "both" else 1),
        "bar": bar and asdict(bar),
        "in_readme": group.in_readme,
    } | case.fields()


def _from_sources(measured: Measured) -> dict:
    """Without host time: launchers of ours are not what the projects' users call."""
    errors = measured.checked.errors
    return {
        "error": errors and _rounded(errors.relative),
        "max_error": errors and _rounded(errors.largest),
        "how": measured.checked.run.how,
        "of_copy": round(measured.limit_us / measured.timing.median_us, 4),
        "bytes": measured.case.bytes_moved,
    }


def _norm(measured: Measured) -> dict:
    unit, errors = measured.limit_us * UNITS[measured.direction], measured.checked.errors
    share = {"per_cent": round(100 * unit / measured.timing.median_us, 1)}
    return share | ({"error": errors.relative} if errors else {})


def _rounded(error: float) -> float:
    return float(f"{error:.3g}")


def _versions(providers: Iterable[Provider], absent: dict[str, str]) -> dict:
    versions = {provider.name: provider.version() for provider in providers}
    packages = {p.distribution: p.version() for p in providers if p.version()}
    return {"format": 2, "providers": versions, "packages": packages}


def _origins(providers: Iterable[Provider], absent: dict[str, str]) -> dict:
    about = {p.name: p.about() | {"absent": absent.get(p.name)} for p in providers}
    return {"format": 1, "providers": about}


ROTATION = Kind(
    file="{gpu}",
    sets=SETS,
    record=RECORD,
    providers=PROVIDERS,
    ours=(OURS,),
    place=lambda name, group, case: {"set": name, "group": group.title, "shape": case.label},
    facts=_rotation,
    about=_versions,
    mark="set",
    page=rotation.page,
    pictures="rotation_pictures",
    tables=rotation.tables,
    verdicts=rotation.verdict_lines,
    times_wrong=True,
)
PEERS = Kind(
    file="peers-{gpu}",
    sets={"peers": EVERYBODY_FROM_SOURCES},
    record=("peers",),
    providers=FROM_SOURCES,
    ours=(OURS, ON_THE_FLY, COS_AND_SIN),
    place=lambda name, group, case: {"shape": case.label},
    facts=_from_sources,
    about=_origins,
    mark="of_copy",
    page=peers.page,
    pictures="peers_picture",
    tables=peers.tables,
)
NORM = Kind(
    file="{gpu}-norm",
    sets={"norm": NORM_GROUPS},
    record=("norm",),
    providers=NORMS,
    ours=NORM_OURS,
    place=lambda name, group, case: {"format": case.tensor_format},
    facts=_norm,
    about=_origins,
    mark="per_cent",
    page=norm.page,
    verdicts=norm.verdict_lines,
    workload=NormWorkload,
    allowed_error=lambda case, provider: LARGEST_ERROR,
)
KINDS = (ROTATION, PEERS, NORM)
