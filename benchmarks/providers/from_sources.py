"""A project's RoPE without its package: a few of its files, compiled or imported alone."""

from ctypes import CDLL
from functools import cached_property
from types import ModuleType

from benchmarks.peers.sources import Source
from benchmarks.providers.base import Provider, first_line

BY_ITS_HOST_CODE = "its kernel, launched by its own host code"


class FromSources(Provider):
    """Subclasses say the first lines, and compile or import in `prepare`."""

    source: Source
    measures: str  # what is inside the call that is timed

    def version(self) -> str | None:
        """The revision; None: its files are not unpacked."""
        return None if self.source.missing() else self.source.revision

    def absent(self) -> str:
        """Why it cannot take part; '': it is compiled or imported now."""
        missing = self.source.missing()
        if missing:
            return f"not unpacked: {', '.join(missing)}"
        try:
            self.code  # noqa: B018
        except Exception as failure:  # of whatever kind: the others are measured all the same
            return first_line(failure)
        return ""

    def origin(self) -> str:
        """In words: built or imported, and at which commit or release."""
        how = "built" if self.built_with else "imported"
        here = "" if self.version() else " (not unpacked)"
        return f"{how} from sources, {self.source.revision}{here}"

    def about(self) -> dict:
        """Where it comes from and what is timed, for a record."""
        about = {"measures": self.measures, "repository": self.source.repository}
        return about | {"revision": self.source.revision, "built_with": self.built_with}

    @cached_property
    def code(self) -> ModuleType | CDLL:
        """Its functions, compiled or imported once."""
        return self.prepare()

    def prepare(self) -> ModuleType | CDLL:
        """Import, or compile and load.

        Raises:
            Exception: of any kind, if that fails; the message says why.
        """
        raise NotImplementedError
