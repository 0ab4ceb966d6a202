"""What comes from other projects' sources: unpacking, importing; no GPU."""

import subprocess
from dataclasses import replace

import pytest
import torch

from benchmarks.peers.code import import_file
from benchmarks.peers.sources import Source, blob_id

TEXT = b"x = 1\n"
MADE_UP = Source("Made up", "https://example.org/made-up", "release 1.2", {"a/b.py": blob_id(TEXT)})


# unpacking


@pytest.fixture
def repository(tmp_path):
    """A clone whose newest commit no longer has the content."""
    origin = tmp_path / "repository"
    (origin / "a").mkdir(parents=True)
    git = ["git", "-C", str(origin), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "init", "-q", str(origin)], check=True)
    for content in (TEXT, b"x = 2\n"):
        (origin / "a" / "b.py").write_bytes(content)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "change"], check=True)
    return origin


def test_the_content_that_was_measured_is_unpacked(repository, tmp_path):
    peers = tmp_path / "peers"
    assert MADE_UP.missing(peers) == ["a/b.py"]
    MADE_UP.unpack(repository, peers)
    written = peers / "Made up" / "a" / "b.py"
    assert written.read_bytes() == TEXT
    assert MADE_UP.missing(peers) == []
    written.write_bytes(b"edited\n")
    assert MADE_UP.missing(peers) == ["a/b.py"]


def test_another_content_is_refused_and_nothing_written(repository, tmp_path):
    wanted = replace(MADE_UP, files={**MADE_UP.files, "a/c.py": blob_id(b"never there")})
    with pytest.raises(ValueError, match=r"^origin .* has no a/c.py .*example.org.*release 1.2"):
        wanted.unpack(repository, tmp_path / "peers")
    assert not (tmp_path / "peers").exists()


# importing


def test_a_file_is_imported_with_stand_ins(tmp_path):
    path = tmp_path / "deep.py"
    path.write_text(
        "from ..near import FOUR\nfrom .beside import double\nEIGHT = double(FOUR)\n",
        encoding="utf-8",
    )
    stubs = {"torch.near": {"FOUR": 4}, "torch.ops.beside": {"double": lambda x: 2 * x}}
    module = import_file(path, "torch.ops.deep", stubs)
    assert module.EIGHT == 8
    assert not hasattr(torch, "near")  # the installed package is left as it is
    with pytest.raises(ImportError):
        import_file(path, "elsewhere.ops.deep", {"elsewhere.near": {"FOUR": 4}})
    with pytest.raises(FileNotFoundError):
        import_file(tmp_path / "none.py", "none")
