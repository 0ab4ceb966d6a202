"""One job: what is measured, and where its results go."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.case import Case, Group
from benchmarks.kinds import Kind
from benchmarks.providers import LIMITS
from benchmarks.providers.base import Provider
from benchmarks.rows import RESULTS

ELSEWHERE = Path("build") / "benchmarks"  # not kept in git


@dataclass(frozen=True)
class Job:
    """Sets of one kind, beside the providers that their groups name, or those named here."""

    kind: Kind
    sets: tuple[str, ...]
    beside: tuple[str, ...] | None = None
    quick: bool = False
    minutes: float = 60.0  # start no case after these
    out: Path | None = None

    @property
    def is_record(self) -> bool:
        """Is it all that a record of this kind holds, measured in full?"""
        return self.sets == self.kind.record and self.beside is None and not self.quick

    @property
    def folder(self) -> Path:
        """Where the results go."""
        return self.out or (RESULTS if self.is_record else ELSEWHERE)

    def path(self, gpu: str) -> Path:
        """The file of results. A set's name tells a part of a kind's sets from its record."""
        name = self.kind.file.format(gpu=gpu.lower().replace(" ", "-"))
        parts = () if self.is_record or len(self.kind.sets) == 1 else self.sets
        return self.folder / f"{'-'.join([name, *parts])}.json"

    def cases(self) -> Iterator[tuple[str, Group, Case]]:
        """With the name of the set and the group."""
        for name in self.sets:
            for group in self.kind.sets[name]:
                for case in group.cases:
                    yield name, group, case

    def providers(self, *groups: Group) -> list[Provider]:
        """Those of some groups, or of all, in their order: limits and ours always."""
        groups = groups or tuple(group for _, group, _ in self.cases())
        wanted = {*LIMITS, *self.kind.ours}
        for group in groups:
            wanted.update(group.beside if self.beside is None else self.beside)
        return [provider for name, provider in self.kind.providers.items() if name in wanted]
