"""What comes from other projects' sources: unpacking, importing; no GPU."""

import subprocess
from dataclasses import replace

import pytest
import torch

from benchmarks.peers import sources
from benchmarks.peers.code import import_file
from benchmarks.peers.sources import Source, blob_id

TEXT = b"x = 1\n"
MADE_UP = Source("Made up", "https://example.org/made-up", "release 1.2", {"b.py": blob_id(TEXT)})


def test_the_content_that_was_measured_is_unpacked_and_no_other(tmp_path, monkeypatch):
    """From a clone whose newest commit no longer has the content."""
    origin, peers = tmp_path / "origin", tmp_path / "peers"
    monkeypatch.setattr(sources, "PEERS", peers)
    git = ["git", "-C", str(origin), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "init", "-q", str(origin)], check=True)
    for content in (TEXT, b"x = 2\n"):
        (origin / "b.py").write_bytes(content)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "change"], check=True)
    wanted = replace(MADE_UP, files={**MADE_UP.files, "c.py": blob_id(b"never there")})
    with pytest.raises(ValueError, match=r"^origin .* has no c.py .*example.org.*release 1.2"):
        wanted.unpack(origin)
    assert not peers.exists() and MADE_UP.missing() == ["b.py"]
    MADE_UP.unpack(origin)
    written = peers / "Made up/b.py"
    assert written.read_bytes() == TEXT and MADE_UP.missing() == []
    written.write_bytes(b"edited\n")
    assert MADE_UP.missing() == ["b.py"]


def test_a_file_is_imported_with_stand_ins(tmp_path):
    path = tmp_path / "deep.py"
    text = "from ..near import FOUR\nfrom .beside import double\nEIGHT = double(FOUR)\n"
    path.write_text(text, encoding="utf-8")
    stubs = {"torch.near": {"FOUR": 4}, "torch.ops.beside": {"double": lambda x: 2 * x}}
    module = import_file(path, "torch.ops.deep", stubs)
    assert module.EIGHT == 8
    assert not hasattr(torch, "near")  # the installed package is left as it is
    with pytest.raises(ImportError):
        import_file(path, "elsewhere.ops.deep", {"elsewhere.near": {"FOUR": 4}})
