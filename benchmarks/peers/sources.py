"""Download the source files of other projects' RoPE.

`python -m benchmarks sources` clones what is missing. The files are stored in the git-ignored
folder `.peers/`, which can be copied to a GPU machine without a network.

A file is accepted only if git's id of its content (the blob) is the one in the project's class in
`projects.py`.
"""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PEERS = Path(__file__).resolve().parents[2] / ".peers"


@dataclass(frozen=True)
class Source:
    """Files of a project at a commit or in a release."""

    name: str  # of its folder in `.peers/`
    repository: str
    revision: str  # release, commit, or both
    files: Mapping[str, str]  # path in the repository: git's id of the content

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return PEERS / self.name

    def missing(self) -> list[str]:
        """Files that don't exist, or have another content than the measured one."""
        places = {path: self.folder / path for path in self.files}
        there = {p: blob_id(place.read_bytes()) for p, place in places.items() if place.is_file()}
        return [path for path, wanted in self.files.items() if there.get(path) != wanted]

    def unpack(self, origin: Path) -> None:
        """Copy the files from a git clone.

        Raises:
            ValueError: `origin` doesn't have a file with this content. Nothing is written.
        """
        contents = {path: _content(origin, wanted) for path, wanted in self.files.items()}
        if absent := [path for path, content in contents.items() if content is None]:
            raise ValueError(
                f"origin {str(origin)!r} has no {', '.join(absent)} with the content that was "
                f"measured; accepted: {self.repository}, {self.revision}"
            )
        for path, content in contents.items():
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def clone(self) -> None:
        """Clone the project without contents, then copy the files, which downloads only these."""
        with tempfile.TemporaryDirectory() as folder:
            options = ["--quiet", "--bare", "--filter=blob:none"]
            subprocess.run(["git", "clone", *options, self.repository, folder], check=True)
            self.unpack(Path(folder))


def blob_id(content: bytes) -> str:
    """Git's id of a content: the SHA-1 of a header and the content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _content(origin: Path, wanted: str) -> bytes | None:
    """The content with this id, or None."""
    command = ["git", "-C", str(origin), "cat-file", "blob", wanted]
    shown = subprocess.run(command, capture_output=True)
    return shown.stdout if shown.returncode == 0 else None


def download(sources: Iterable[Source]) -> int:
    """The command: clone what is missing, and list what exists."""
    are_here = True
    for source in sources:
        try:
            if source.missing():
                source.clone()
        except (ValueError, subprocess.CalledProcessError) as failure:
            print(failure, file=sys.stderr)
        state = "missing" if source.missing() else "unpacked"
        are_here &= state == "unpacked"
        print(f"{source.name:20} {state:10} {source.repository}, {source.revision}")
    return 0 if are_here else 1
