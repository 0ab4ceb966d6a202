"""Where each project's RoPE comes from, and the unpacking of the few files that hold it.

    python -m benchmarks.peers.sources flashinfer=/path/of/a/clone Unsloth=/path/of/an/archive
    python -m benchmarks.peers.sources --clone

A path is a git clone (a bare one too), from which the files are read at the commit named here, or
a folder with the project's files in it, such as an unpacked source archive. `--clone` clones what
is still missing; it needs a network. The files go to the git-ignored folder `.peers/`, one folder
a project. That folder can be copied to a GPU machine without a network.

A file is taken only if its content is the one that was measured: git's name for the content (the
id of the blob) is in the list below.
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
    """Files of a project at a commit."""

    name: str  # of its folder in `.peers/`
    repository: str
    commit: str
    files: Mapping[str, str]  # path in the repository: git's id of the content

    @property
    def short_commit(self) -> str:
        """Enough of the commit to tell it from others."""
        return self.commit[:10]

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
    "d0067d0da6cb01811b8072a7d304f0e00344ce2b",
    {
        "transformer_engine/common/fused_rope/fused_rope.cu": (
            "c7b762e9731d68f67fde71bd9c4f08b1d1c6e900"
        )
    },
)
FLASHINFER = Source(
    "flashinfer",
    "https://github.com/flashinfer-ai/flashinfer",
    "fb28d7242b3506a2348265962041acc1fb56cca4",
    {
        "include/flashinfer/pos_enc.cuh": "614a34a4d8a5e8a084b2878da072540067a60df8",
        "include/flashinfer/layout.cuh": "aeaf26b580c753293773b0c73d45a3badacee720",
        "include/flashinfer/math.cuh": "f06ae0feb9ab8c87857728f103f1559d4fd466f6",
        "include/flashinfer/page.cuh": "be7c29cfb0d050e5f4bab13f706d2cb85cb34661",
        "include/flashinfer/utils.cuh": "54a01e9e21d099e397298759efa0bf92cee4f723",
        "include/flashinfer/vec_dtypes.cuh": "6c26b0fa9b88fd633beeb93dec200e90474b9585",
        "include/flashinfer/exception.h": "aaaa2b5b3e51d6274cb97087c346d69ffa6a8683",
    },
)
VLLM = Source(  # the file is that of the release 0.33.0, too
    "vLLM",
    "https://github.com/vllm-project/vllm",
    "0f5257e245116449bfbe78a87c22aeef632eba8f",
    {"csrc/pos_encoding_kernels.cu": "bad616fc8748b343cfd59cc0933872a9f042e1ea"},
)
FLASH_ATTENTION = Source(
    "FlashAttention",
    "https://github.com/Dao-AILab/flash-attention",
    "0251105a2fb19d2957484b7f023cd8c115286ced",
    {"flash_attn/ops/triton/rotary.py": "ff4017fda3e4a6e18cf3a51b34f0fb073d8f678a"},
)
UNSLOTH = Source(
    "Unsloth",
    "https://github.com/unslothai/unsloth",
    "015bdef0d94a241bcd94eec7a405b1700632180d",
    {"unsloth/kernels/rope_embedding.py": "7acab02e8e311f3f0ef06fc2c7bfbce70c47e6dc"},
)
LIGER = Source(
    "Liger-Kernel",
    "https://github.com/linkedin/Liger-Kernel",
    "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c",
    {"src/liger_kernel/ops/rope.py": "bd8ded7308eeddb7762752f4adc95e68903a77ec"},
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
        origin: a git clone, bare or not, or a folder with the project's files.
        peers: where to; by default `.peers/`.

    Returns:
        The files that were written.

    Raises:
        ValueError: `origin` is no folder, lacks a file (or the commit), or has another content.
            Nothing is written then.
    """
    origin = Path(origin)
    if not origin.is_dir():
        raise ValueError(f"origin is {str(origin)!r}; accepted: a git clone or a folder")
    is_clone = (origin / ".git").exists() or (origin / "HEAD").is_file()
    read = _from_clone if is_clone else _from_folder
    contents = {path: read(source, origin, path) for path in source.files}
    for path, content in contents.items():
        if blob_id(content) != source.files[path]:
            raise ValueError(
                f"origin has another {path}: its content is {blob_id(content)}; "
                f"accepted: {source.files[path]}, that of {source.repository} at {source.commit}"
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
    parser = argparse.ArgumentParser("python -m benchmarks.peers.sources", description=__doc__)
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
        print(f"{source.name:20} {state:10} {source.repository} {source.commit}")
    return 0


def _named(argument: str) -> tuple[str, str]:
    name, separator, origin = argument.partition("=")
    if not separator or name not in SOURCES:
        raise ValueError(f"origins has {argument!r}; accepted: NAME=PATH, NAME of {list(SOURCES)}")
    return name, origin


def _from_clone(source: Source, origin: Path, path: str) -> bytes:
    command = ["git", "-C", str(origin), "show", f"{source.commit}:{path}"]
    shown = subprocess.run(command, capture_output=True)
    if shown.returncode != 0:
        why = shown.stderr.decode(errors="replace").strip()
        raise ValueError(f"origin {str(origin)!r} has no {path} at {source.commit}: {why}")
    return shown.stdout


def _from_folder(source: Source, origin: Path, path: str) -> bytes:
    if not (origin / path).is_file():
        raise ValueError(f"origin {str(origin)!r} has no {path}; accepted: files of {source.name}")
    return (origin / path).read_bytes()


if __name__ == "__main__":
    sys.exit(main())
