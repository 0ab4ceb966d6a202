"""What was measured, with the GPU, the versions and the date; replayed where there is no GPU.

On a GPU before sm_80, `torch.compile` can't make kernels for bf16, so these are replayed, too.

Only `make notebooks` on a GPU writes the records, one file for each notebook. While recording, each
record is read back, so stored outputs are those of a machine without a GPU.
"""

import datetime
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from rope_kernels.paths import triton_is_installed

from .engine import nvidia_driver
from .timing import Timing, measure, require_compiled_kernels

RECORD_SWITCH = "ROPE_KERNELS_RECORD"  # set by `make notebooks`, and by nothing else
QUIET = "ROPE_LAB_QUIET"  # set if outputs are stored or compared: prints no times
# Keys of bf16 measurements with `torch.compile`. A test finds the cells of notebooks that measure
# such a thing, and requires their keys here.
BF16_COMPILED = frozenset(
    {
        "00/where-this-leads",
        "08/inductor",
        "08/torch-compile",
        "11/backward",
        "11/forward",
        "12/shares",
    }
)
_RECORDS_OF_THE_SERIES = Path(__file__).resolve().parents[1] / "notebooks" / "records"


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A result from a GPU: which GPU, which versions, and when."""

    key: str
    gpu: str
    versions: dict[str, str]
    date: str
    replayed: bool = False
    because: str = ""  # why it was replayed although there is a GPU

    @property
    def origin(self) -> str:
        """Where and when: the same words whether it was measured today or replayed."""
        return origin(self.gpu, self.versions, self.date)

    @property
    def source(self) -> str:
        """One line: where and when, and whether it was found today or is a record."""
        if not self.replayed:
            return f"Measured here: {self.origin}"
        reason = f", because {self.because}" if self.because else ""
        return f"Replayed from a record{reason}: {self.origin}"


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

    A key in `BF16_COMPILED` is also replayed on a GPU whose `torch.compile` doesn't support bf16.

    Args:
        key: 'NN/name', where NN is the notebook's number and the record's file is `NN.json`.
        make_cases: creates the inputs, and returns a label and a function without arguments for
            each case. It is called only on a GPU. Creating inputs isn't timed.

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
        experiment: called only on a GPU; returns a dict that JSON can store.

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
    if key in BF16_COMPILED and not compiles_bf16():
        name = torch.cuda.get_device_name()
        return replace(read(path, key), because=f"torch.compile makes no bf16 kernels for {name}")
    taken = take({"key": key} | circumstances())
    if os.environ.get(RECORD_SWITCH) == "1":
        write(path, taken)
        return read(path, key)
    return taken


def compiles_bf16() -> bool:
    """Whether `torch.compile` supports bf16 on this GPU: from sm_80 on.

    On older GPUs, it warns, and runs PyTorch's operators uncompiled.
    """
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)


def recorded(key: str) -> Measurement | Observation:
    """Read the record of another notebook. It is the same on every machine."""
    return read(_record_of(key), key)


def records_folder() -> Path:
    """The folder `records` next to the notebook or next to its folder; otherwise this checkout's.

    So notebooks, their solutions and copies of both find the records wherever they run. A folder
    of that name next to the clone may be anything, so it must contain `machines.json`.
    """
    here = Path.cwd()
    for folder in (here / "records", here.parent / "records"):
        if (folder / "machines.json").is_file():
            return folder
    return _RECORDS_OF_THE_SERIES


def circumstances() -> dict:
    """GPU, versions and date, which every figure names."""
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
    """Put a record into its file; it replaces one with the same key."""
    path.parent.mkdir(exist_ok=True)
    recorded = all_of(path)
    not_kept = ("key", "replayed", "because")
    fields = {name: value for name, value in asdict(taken).items() if name not in not_kept}
    recorded[taken.key] = fields
    text = json.dumps(dict(sorted(recorded.items())), indent=2) + "\n"
    path.write_text(text, encoding="utf-8")
