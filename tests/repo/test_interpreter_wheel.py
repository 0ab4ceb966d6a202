"""The package of Triton's interpreter alone: Triton's own files, and a stand-in for the rest."""

import subprocess
import sys
import zipfile
from pathlib import Path

import interpreter_wheel
from processes import ROOT

PYTHON = "triton/__init__.py", "triton/runtime/interpreter.py"
PUBLISHED = {
    "triton/__init__.py": b"import triton.runtime\n",
    "triton/runtime/interpreter.py": b"unchanged = True\n",
    "triton/backends/nvidia/driver.py": b"",
    "triton/_C/libtriton.so": b"compiled",
    "triton-3.7.1.dist-info/METADATA": b"of the package for Linux",
    "triton-3.7.1.dist-info/licenses/LICENSE": b"MIT",
}


def test_tritons_files_are_unchanged_and_the_stand_in_is_ours(monkeypatch, tmp_path):
    def download(command, check):
        """Triton's package for Linux, whatever the system."""
        assert command[:4] == [sys.executable, "-m", "pip", "download"] and check
        assert command[-1] == "triton==3.7.1" and "--no-deps" in command
        assert any("manylinux" in word for word in command)
        folder = Path(next(x for x in command if x.startswith("--dest=")).partition("=")[2])
        with zipfile.ZipFile(folder / "triton-3.7.1-cp313-linux_x86_64.whl", "w") as packed:
            for name, content in PUBLISHED.items():
                packed.writestr(name, content)

    monkeypatch.setattr(subprocess, "run", download)
    monkeypatch.setattr(sys, "argv", ["interpreter_wheel.py", "3.7.1", str(tmp_path)])
    assert interpreter_wheel.main() == 0
    (made,) = tmp_path.iterdir()
    assert made.name == "triton-3.7.1+interpreter-py3-none-any.whl"
    ours = zipfile.ZipFile(made)
    found = {name: ours.read(name) for name in ours.namelist()}
    info = "triton-3.7.1+interpreter.dist-info"
    wanted = {name: PUBLISHED[name] for name in PYTHON} | {
        "triton/_C/libtriton/__init__.py": (ROOT / "tools/libtriton.py").read_bytes(),
        f"{info}/licenses/LICENSE": b"MIT",
    }
    assert {name: found[name] for name in wanted} == wanted
    described = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    stubs = {f"triton/_C/libtriton.{end}" for end in ("so", "pyd")}
    assert found.keys() == wanted.keys() | described | stubs
    assert all(b"not here" in found[name] for name in stubs)
