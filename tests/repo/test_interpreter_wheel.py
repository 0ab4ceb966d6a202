"""The package of Triton's interpreter alone: Triton's own files, and a stand-in for the rest."""

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import interpreter_wheel
from processes import ROOT

NAME = "triton-3.7.1+interpreter-py3-none-any.whl"
STAND_IN = "triton/_C/libtriton/__init__.py"


@pytest.fixture(scope="module")
def triton_for_linux(tmp_path_factory):
    """What this environment has of Triton, packed as if its authors had published it as 3.7.1."""
    pytest.importorskip("triton", reason="needs Triton")
    installed = metadata.distribution("triton")
    path = tmp_path_factory.mktemp("wheel") / "triton-3.7.1-cp313-cp313-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for file in installed.files:
            name = file.as_posix()
            if name.endswith("LICENSE"):
                packed.write(file.locate(), "triton-3.7.1.dist-info/licenses/LICENSE")
            elif name.startswith("triton/") and name.endswith(".py") and name != STAND_IN:
                packed.write(file.locate(), name)
        packed.writestr("triton/_C/libtriton.so", b"compiled")
    return path


@pytest.fixture(scope="module")
def made(triton_for_linux, tmp_path_factory):
    return interpreter_wheel.make(triton_for_linux, tmp_path_factory.mktemp("made"))


def test_tritons_files_are_unchanged_and_the_stand_in_is_ours(triton_for_linux, made):
    assert made.name == NAME
    original, ours = zipfile.ZipFile(triton_for_linux), zipfile.ZipFile(made)
    names = {name for name in ours.namelist() if name.endswith(".py") and name != STAND_IN}
    assert {"triton/runtime/interpreter.py", "triton/language/core.py"} <= names
    assert not any(name.startswith("triton/backends/nvidia") for name in names)
    for name in names:
        assert ours.read(name) == original.read(name), name
    assert ours.read(STAND_IN) == (ROOT / "tools/libtriton.py").read_bytes()
    info = "triton-3.7.1+interpreter.dist-info"
    assert ours.read(f"{info}/licenses/LICENSE") == original.read(
        "triton-3.7.1.dist-info/licenses/LICENSE"
    )
    assert ours.getinfo("triton/_C/libtriton.so").file_size < 100


def test_it_is_downloaded_for_linux_whatever_the_system(monkeypatch, tmp_path, triton_for_linux):
    calls = []

    def run(command, check):
        assert check
        calls.append(command)
        folder = Path(next(x for x in command if x.startswith("--dest=")).partition("=")[2])
        (folder / triton_for_linux.name).write_bytes(triton_for_linux.read_bytes())

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["interpreter_wheel.py", "3.7.1", str(tmp_path / "made")])
    assert interpreter_wheel.main() == 0
    (command,) = calls
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert command[-1] == "triton==3.7.1" and "--no-deps" in command
    assert any("manylinux" in word for word in command)
    assert [path.name for path in (tmp_path / "made").iterdir()] == [NAME]
