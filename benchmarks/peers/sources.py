"""Where a project's RoPE comes from, and the unpacking of the few files that hold it.

`python -m benchmarks sources` clones what is missing, and needs a network. The files go to the
git-ignored folder `.peers/`, which can be copied to a GPU machine without one.

A file is known by its content, not by its place: the project's class in `benchmarks/providers` has
git's id of the content (of the blob), and nothing else is taken.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PEERS = Path(__file__).resolve().parents[2] / ".peers"


@dataclass(frozen=True)
class Source:
    """Files of a project at a commit, or as a release of it has them."""

    name: str  # of its folder in `.peers/`
    repository: str
    revision: str  # release, commit, or both
    files: Mapping[str, str]  # path in the repository: git's id of the content

    def folder(self, peers: Path | None = None) -> Path:
        """Where its files are, or would be; `peers` replaces `.peers/`."""
        return (peers or PEERS) / self.name

    def missing(self, peers: Path | None = None) -> list[str]:
        """Files that are not unpacked, or hold something else than what was measured."""
        places = {path: self.folder(peers) / path for path in self.files}
        there = {p: blob_id(place.read_bytes()) for p, place in places.items() if place.is_file()}
        return [path for path, wanted in self.files.items() if there.get(path) != wanted]

    def unpack(self, origin: Path, peers: Path | None = None) -> None:
        """Copy the files out of a git clone.

        Raises:
            ValueError: `origin` has no file with such a content. Nothing is written then.
        """
        contents = {path: _content(origin, wanted) for path, wanted in self.files.items()}
        if absent := [path for path, content in contents.items() if content is None]:
            raise ValueError(
                f"origin {str(origin)!r} has no {', '.join(absent)} with the content that was "
                f"measured; accepted: {self.repository}, {self.revision}"
            )
        for path, content in contents.items():
            target = self.folder(peers) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def clone(self) -> None:
        """Clone the project without its files' contents, then unpack the few that are needed."""
        with tempfile.TemporaryDirectory() as folder:
            options = ["--quiet", "--bare", "--filter=blob:none"]
            subprocess.run(["git", "clone", *options, self.repository, folder], check=True)
            self.unpack(Path(folder))


def blob_id(content: bytes) -> str:
    """Git's name for a content: the SHA-1 of a header and the content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _content(origin: Path, wanted: str) -> bytes | None:
    """By git's name for it."""
    command = ["git", "-C", str(origin), "cat-file", "blob", wanted]
    shown = subprocess.run(command, capture_output=True)
    return shown.stdout if shown.returncode == 0 else None


def main(arguments: Sequence[str], sources: Mapping[str, Source]) -> int:
    """The command: clone what is missing, and say what is there."""
    parser = argparse.ArgumentParser("python -m benchmarks sources", description=__doc__)
    parser.parse_args(arguments)
    for source in sources.values():
        try:
            if source.missing():
                source.clone()
        except (ValueError, subprocess.CalledProcessError) as failure:
            print(failure, file=sys.stderr)
        state = "missing" if source.missing() else "unpacked"
        print(f"{source.name:20} {state:10} {source.repository}, {source.revision}")
    return 1 if any(source.missing() for source in sources.values()) else 0
