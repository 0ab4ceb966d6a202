"""Make a package of Triton's interpreter alone, for systems that Triton has no packages for.

    python tools/interpreter_wheel.py 3.7.1 FOLDER

pip downloads Triton's package for Linux. Of its 198 MB, 1 MB of Python files is the interpreter.
They are copied unchanged to `triton-3.7.1+interpreter-py3-none-any.whl`, with Triton's license, and
with `libtriton.py` instead of the compiled library. `lab.py` makes and installs this package on
macOS and Windows.

This file uses only the standard library.
"""

import argparse
import base64
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

STAND_IN = Path(__file__).with_name("libtriton.py")
# The Python files are the same in all Linux packages, but pip requires a Python version and a
# platform.
ANY_LINUX = ["--python-version=3.13", "--implementation=cp", "--platform=manylinux_2_28_x86_64"]
ANY_LINUX += ["--platform=manylinux_2_27_x86_64", "--platform=manylinux2014_x86_64"]
# Modules that interpreted kernels don't import.
LEFT_OUT = (
    "triton/backends/amd/",
    "triton/backends/nvidia/",
    "triton/experimental/",
    "triton/instrumentation/",
    "triton/plugins/",
    "triton/profiler/",
    "triton/tools/triton_to_gluon_translater/",
)
METADATA = """\
Metadata-Version: 2.4
Name: triton
Version: {version}
Summary: Triton's interpreter alone: kernels run on the CPU, and nothing is compiled
License-Expression: MIT
License-File: LICENSE
Requires-Python: >=3.10
Requires-Dist: numpy

Triton's Python files are unchanged. Its compiled part is replaced by a module of "RoPE in Triton",
whose tools/interpreter_wheel.py made this package from the one that Triton's authors publish.
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: interpreter_wheel
Root-Is-Purelib: true
Tag: py3-none-any
"""


def download(version: str, folder: Path) -> Path:
    """Download Triton's package for Linux with pip, on any system.

    Raises:
        subprocess.CalledProcessError: pip failed, and has printed why.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += [*ANY_LINUX, f"--dest={folder}", f"triton=={version}"]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("triton-*.whl")
    return wheel


def make(wheel: Path, folder: Path) -> Path:
    """Write the package of the interpreter to a folder.

    Args:
        wheel: Triton's package with its original name, `triton-3.7.1-...whl`.
        folder: is created if it doesn't exist.
    """
    version = f"{wheel.name.split('-')[1]}+interpreter"
    info = f"triton-{version}.dist-info"
    files = python_and_licence(wheel, info)
    files["triton/_C/libtriton/__init__.py"] = STAND_IN.read_bytes()
    # torch.compile hashes the file with this name. Python imports the folder instead.
    for end in ("so", "pyd"):
        files[f"triton/_C/libtriton.{end}"] = b"The compiled part of Triton is not here.\n"
    files[f"{info}/METADATA"] = METADATA.format(version=version).encode()
    files[f"{info}/WHEEL"] = WHEEL.encode()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"triton-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return path


def python_and_licence(wheel: Path, info: str) -> dict[str, bytes]:
    """Triton's Python files, and its license with its new path in `info`."""
    with zipfile.ZipFile(wheel) as packed:
        names = sorted(packed.namelist())
        licences = [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
        if len(licences) != 1:
            raise ValueError(f"{wheel.name} has {len(licences)} files LICENSE; accepted: 1")
        files = {
            name: packed.read(name)
            for name in names
            if name.startswith("triton/") and name.endswith(".py") and not name.startswith(LEFT_OUT)
        }
        return files | {f"{info}/licenses/LICENSE": packed.read(licences[0])}


def record(files: dict[str, bytes], own_name: str) -> str:
    """A wheel's list of files, with hashes and sizes."""
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        lines.append(f"{name},sha256={digest.decode()},{len(content)}\n")
    return "".join([*lines, f"{own_name},,\n"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version", help="of Triton, as 3.7.1")
    parser.add_argument("folder", type=Path, help="for the package")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as downloads:
        try:
            print(make(download(asked.version, Path(downloads)), asked.folder))
        except subprocess.CalledProcessError as failed:
            return failed.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
