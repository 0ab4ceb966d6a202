"""What a peer is: a provider of the benchmark that has sources to unpack and to make ready."""

from functools import cached_property
from types import SimpleNamespace

from benchmarks.peers.sources import Source
from benchmarks.providers.base import Provider

BY_ITS_HOST_CODE = "its kernel, launched by its own host code"


class Peer(Provider):
    """A project's RoPE without its package. Subclasses say the first lines and the calls."""

    source: Source
    measures: str  # what is inside the call that is timed
    built_with: str = ""  # flags of nvcc that change code, as the project's build has them

    def version(self) -> str | None:
        """The revision; None: its files are not unpacked."""
        return None if self.source.missing() else self.source.revision

    @cached_property
    def calls(self) -> SimpleNamespace:
        """Its functions, compiled or imported once."""
        return self.prepare()

    def prepare(self) -> SimpleNamespace:
        """Compile or import.

        Raises:
            Exception: of any kind, if that fails; the message says why.
        """
        raise NotImplementedError
