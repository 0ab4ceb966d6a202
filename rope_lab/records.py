"""What was measured, with the GPU, the versions and the date; replayed where there is no GPU.

`make notebooks` on a GPU writes the records, one file for each notebook; nothing else does. While
recording, what was written is replayed, so stored outputs are those of a machine without a GPU.
"""

import datetime
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from rope_kernels.modes import triton_is_installed

from .engine import nvidia_driver
from .timing import Timing, measure, require_compiled_kernels

RECORD_SWITCH = "ROPE_KERNELS_RECORD"  # set by `make notebooks`, and by nothing else
QUIET = "ROPE_LAB_QUIET"  # set where outputs are stored or compared: no word about the time
_RECORDS_OF_THE_SERIES = Path(__file__).resolve().parents[1] / "notebooks" / "records"


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What was found out on a GPU, and on which, with what, and when."""

    key: str
    gpu: str
    versions: dict[str, str]
    date: str
    replayed: bool = False

    @property
    def origin(self) -> str:
        """Where and when: the same words whether it was measured today or replayed."""
        return origin(self.gpu, self.versions, self.date)

    @property
    def source(self) -> str:
        """One line: where and when, and whether it was found today or is a record."""
        how = "Replayed from a record" if self.replayed else "Measured here"
        return f"{how}: {self.origin}"


@dataclass(frozen=True, kw_only=True)
class Measurement(Taken):
    """Timings of several cases from one run."""

    cases: dict[str, Timing]

    def __getitem__(self, case: str) -> Timing:
        return self.cases[case]

    def __repr__(self) -> str:
        width = max(len(case) for case in self.cases)
        lines = [
            f"{case:{width}}  {timing.median_us:9.1f} us   "
            f"({timing.low_us:.1f} to {timing.high_us:.1f})"
            for case, timing in self.cases.items()
        ]
        return "\n".join([self.source, *lines])


@dataclass(frozen=True, kw_only=True)
class Observation(Taken):
    """What an experiment returned."""

    values: dict

    def __getitem__(self, name: str) -> object:
        return self.values[name]


def bench(key: str, make_cases: Callable[[], dict[str, Callable[[], object]]]) -> Measurement:
    """Measure device time on a GPU; without one, replay the record of the same key.

    Args:
        key: 'NN/name', where NN is the notebook's number and the record's file is `NN.json`.
        make_cases: called only where there is a GPU; returns a label and a function without
            arguments for each case. It makes the inputs, so that their making is not timed.

    Returns:
        A `Measurement`; its `source` says whether it was measured or replayed.

    Raises:
        LookupError: there is no GPU and no record of this key.
        RuntimeError: the kernels are interpreted although there is a GPU (see `measure`).
    """
    return _here_or_replayed(key, lambda here: Measurement(cases=measure(make_cases()), **here))


def observe(key: str, experiment: Callable[[], dict]) -> Observation:
    """Run an experiment on a GPU; without one, replay the record of the same key.

    Args:
        key: as in `bench`.
        experiment: called only where there is a GPU; returns a dict of what JSON can hold.

    Raises:
        LookupError, RuntimeError: as in `bench`.
    """

    def take(here: dict) -> Observation:
        require_compiled_kernels()
        return Observation(values=experiment(), **here)

    return _here_or_replayed(key, take)


def _here_or_replayed(key: str, take: Callable[[dict], Taken]) -> Taken:
    path = _record_of(key)
    if not torch.cuda.is_available():
        return read(path, key)
    taken = take({"key": key} | circumstances())
    if os.environ.get(RECORD_SWITCH) == "1":
        write(path, taken)
        return read(path, key)
    return taken


def recorded(key: str) -> Measurement | Observation:
    """What another notebook measured when it was recorded: the same on every machine."""
    return read(_record_of(key), key)


def records_folder() -> Path:
    """The folder `records` beside the notebook or beside its folder; else that of this checkout.

    So notebooks, their solutions and copies of both find the records wherever they run.
    """
    here = Path.cwd()
    for folder in (here / "records", here.parent / "records"):
        if folder.is_dir():
            return folder
    return _RECORDS_OF_THE_SERIES


def circumstances() -> dict:
    """GPU, versions and date: what every figure names."""
    versions = {"torch": torch.__version__}
    if triton_is_installed():
        import triton

        versions["triton"] = triton.__version__
    versions |= {"driver": nvidia_driver() or "unknown", "python": platform.python_version()}
    return {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU",
        "versions": versions,
        "date": datetime.date.today().isoformat(),
    }


def origin(gpu: str, versions: dict[str, str], date: str) -> str:
    """The same in one line."""
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{gpu}, {listed}, {date}."


def _record_of(key: str) -> Path:
    return records_folder() / f"{key[:2]}.json"


def read(path: Path, key: str) -> Measurement | Observation:
    """One record of a file."""
    records = all_of(path)
    if key not in records:
        raise LookupError(
            f"there is no GPU here and no record {key!r} in {path.name}; "
            "`make notebooks` on a GPU writes it"
        )
    fields = records[key]
    if "values" in fields:
        return Observation(key=key, replayed=True, **fields)
    cases = {name: Timing(**timing) for name, timing in fields.pop("cases").items()}
    return Measurement(key=key, cases=cases, replayed=True, **fields)


def all_of(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(path: Path, taken: Taken) -> None:
    """Put a record into its file, in place of what that has by its key."""
    path.parent.mkdir(exist_ok=True)
    recorded = all_of(path)
    fields = {x: value for x, value in asdict(taken).items() if x not in ("key", "replayed")}
    recorded[taken.key] = fields
    text = json.dumps(dict(sorted(recorded.items())), indent=2) + "\n"
    path.write_text(text, encoding="utf-8")
