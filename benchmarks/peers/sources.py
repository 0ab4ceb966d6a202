"""Where each project's RoPE comes from, and the unpacking of the few files that hold it.

    python -m benchmarks sources flashinfer=/path/of/a/clone Unsloth=/path/of/a/folder
    python -m benchmarks sources --clone

A path is a git clone (a bare one too), or a folder that a release of the project, a source archive
or a wheel, has been unpacked into. `--clone` clones what is still missing; it needs a network. The
files go to the git-ignored folder `.peers/`, one folder a project. That folder can be copied to a
GPU machine without a network.

A file is known by its content, not by its place: git's id of the content (of the blob) is in the
list below, and nothing else is taken.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rows import ROOT

PEERS = ROOT / ".peers"


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
        folder = self.folder(peers)
        return [
            path
            for path, wanted in self.files.items()
            if not (folder / path).is_file() or blob_id((folder / path).read_bytes()) != wanted
        ]


TRANSFORMER_ENGINE = Source(
    "TransformerEngine",
    "https://github.com/NVIDIA/TransformerEngine",
    "commit d0067d0da6cb01811b8072a7d304f0e00344ce2b",
    {
        "transformer_engine/common/fused_rope/fused_rope.cu": (
            "c7b762e9731d68f67fde71bd9c4f08b1d1c6e900"
        )
    },
)
FLASHINFER = Source(
    "flashinfer",
    "https://github.com/flashinfer-ai/flashinfer",
    "release 0.7.2.post1, commit beabf5004585b03da60e927bbb803acbaa62fe36",
    {
        "include/flashinfer/pos_enc.cuh": "87664f4cdb0afac7c8ba39b0102bed72155c26c6",
        "include/flashinfer/layout.cuh": "aeaf26b580c753293773b0c73d45a3badacee720",
        "include/flashinfer/math.cuh": "f06ae0feb9ab8c87857728f103f1559d4fd466f6",
        "include/flashinfer/page.cuh": "4e4d490cc824e4009f234b6a05f363eb375a907a",
        "include/flashinfer/utils.cuh": "9f78fd05c0b6ad58663c0fd86f27c73d40b07160",
        "include/flashinfer/vec_dtypes.cuh": "d0cfa148e12448c1f1311b01f485a0fa6b003a8c",
        "include/flashinfer/exception.h": "aaaa2b5b3e51d6274cb97087c346d69ffa6a8683",
    },
)
VLLM = Source(
    "vLLM",
    "https://github.com/vllm-project/vllm",
    "release 0.33.0, commit 4ba787ec9",
    {"csrc/pos_encoding_kernels.cu": "bad616fc8748b343cfd59cc0933872a9f042e1ea"},
)
FLASH_ATTENTION = Source(
    "FlashAttention",
    "https://github.com/Dao-AILab/flash-attention",
    "commit 0251105a2fb19d2957484b7f023cd8c115286ced",
    {"flash_attn/ops/triton/rotary.py": "ff4017fda3e4a6e18cf3a51b34f0fb073d8f678a"},
)
UNSLOTH = Source(
    "Unsloth",
    "https://github.com/unslothai/unsloth",
    "release 2026.10.9",
    {"unsloth/kernels/rope_embedding.py": "dc5f3962688a113811bdeef02c501141b0b6e899"},
)
LIGER = Source(
    "Liger-Kernel",
    "https://github.com/linkedin/Liger-Kernel",
    "release 0.8.5",
    {"src/liger_kernel/ops/rope.py": "4a650eae3bc86f100b831b324a4f0812fff87cdc"},
)
SOURCES = {
    source.name: source
    for source in (TRANSFORMER_ENGINE, FLASHINFER, VLLM, FLASH_ATTENTION, UNSLOTH, LIGER)
}


def blob_id(content: bytes) -> str:
    """Git's name for a content: the SHA-1 of a header and the content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def unpack(source: Source, origin: Path, peers: Path | None = None) -> list[Path]:
    """Copy a project's files out of a clone or a folder.

    Args:
        source: what to unpack.
        origin: a git clone, bare or not, or a folder with the project's files anywhere in it.
        peers: where to; by default `.peers/`.

    Returns:
        The files that were written.

    Raises:
        ValueError: `origin` is no folder, or has no file with such a name and content. Nothing is
            written then.
    """
    origin = Path(origin)
    if not origin.is_dir():
        raise ValueError(f"origin is {str(origin)!r}; accepted: a git clone or a folder")
    is_clone = (origin / ".git").exists() or (origin / "HEAD").is_file()
    read = _from_clone if is_clone else _from_folder
    contents = {path: read(origin, path, wanted) for path, wanted in source.files.items()}
    absent = [path for path, content in contents.items() if content is None]
    if absent:
        raise ValueError(
            f"origin {str(origin)!r} has no {', '.join(absent)} with the content that was measured;"
            f" accepted: {source.repository}, {source.revision}"
        )
    written = []
    for path, content in contents.items():
        target = source.folder(peers) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        written.append(target)
    return written


def clone(source: Source, peers: Path | None = None) -> list[Path]:
    """Clone a project without its files' contents, then unpack the few that are needed.

    Raises:
        ValueError: as `unpack`.
        subprocess.CalledProcessError: git could not clone.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = ["--quiet", "--bare", "--filter=blob:none"]
        subprocess.run(["git", "clone", *options, source.repository, folder], check=True)
        return unpack(source, Path(folder), peers)


def main(arguments: Sequence[str] | None = None, peers: Path | None = None) -> int:
    """The command: unpack what is named, then say what is there and what is missing."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks sources",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("origins", nargs="*", metavar="NAME=PATH", help=", ".join(SOURCES))
    parser.add_argument("--clone", action="store_true", help="clone what is still missing")
    options = parser.parse_args(arguments)
    try:
        for name, origin in map(_named, options.origins):
            unpack(SOURCES[name], Path(origin), peers)
        for source in SOURCES.values():
            if options.clone and source.missing(peers):
                clone(source, peers)
    except (ValueError, subprocess.CalledProcessError) as failure:
        print(failure, file=sys.stderr)
        return 1
    for source in SOURCES.values():
        state = "missing" if source.missing(peers) else "unpacked"
        print(f"{source.name:20} {state:10} {source.repository}, {source.revision}")
    return 0


def _named(argument: str) -> tuple[str, str]:
    name, separator, origin = argument.partition("=")
    if not separator or name not in SOURCES:
        raise ValueError(f"origins has {argument!r}; accepted: NAME=PATH, NAME of {list(SOURCES)}")
    return name, origin


def _from_clone(origin: Path, path: str, wanted: str) -> bytes | None:
    command = ["git", "-C", str(origin), "cat-file", "blob", wanted]
    shown = subprocess.run(command, capture_output=True)
    return shown.stdout if shown.returncode == 0 else None


def _from_folder(origin: Path, path: str, wanted: str) -> bytes | None:
    contents = (found.read_bytes() for found in sorted(origin.rglob(Path(path).name)))
    return next((content for content in contents if blob_id(content) == wanted), None)
