"""Compile our launchers with nvcc and call them with tensors, or import a file of a project.

A launcher is one C++ file in `launchers/` that includes a project's sources and has plain C
functions, whose arguments are pointers, `int64_t` and `double`, then the stream. They return null,
or an error message. They aren't linked to libtorch, so compiling takes only seconds, and each run
compiles everything that it measures.
"""

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

HERE = Path(__file__).resolve().parent
DTYPE_CODES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}  # as in the launchers
_PREFIX = "_peers"  # of modules' names, so that they never shadow an installed package
_ALWAYS = ("-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", "--expt-relaxed-constexpr")


def find_nvcc() -> str:
    """The path of CUDA's compiler, in CUDA_HOME or on the PATH.

    Raises:
        RuntimeError: there is none.
    """
    places = filter(None, (os.environ.get("CUDA_HOME"), "/usr/local/cuda"))
    nvcc = shutil.which("nvcc", path=os.pathsep.join(f"{place}/bin" for place in places))
    if found := nvcc or shutil.which("nvcc"):
        return found
    raise RuntimeError("there is no nvcc to compile it with")


def nvcc_version() -> str:
    """The version of nvcc, such as '13.0'."""
    told = subprocess.run([find_nvcc(), "--version"], capture_output=True, encoding="utf-8").stdout
    release = re.search(r"release ([0-9.]+)", told)
    return release[1] if release else "unknown"


def build(launcher: str, include: Sequence[Path], flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Compile `launchers/<launcher>.cu` into a shared object, and load it.

    Args:
        launcher: the name of a file in `launchers/`, without its suffix.
        include: folders with headers: the project's, and our stubs.
        flags: more flags for nvcc: those of the project's own build that change code.

    Raises:
        RuntimeError: there is no nvcc, or it failed; the message has its first error.
    """
    source, nvcc = HERE / "launchers" / f"{launcher}.cu", find_nvcc()
    major, minor = torch.cuda.get_device_capability()
    command = [nvcc, *_ALWAYS, f"-arch=sm_{major}{minor}", *flags, str(source)]
    command += [f"-I{folder}" for folder in (source.parent, *include)]
    with tempfile.TemporaryDirectory() as place:  # Once it is loaded, its file is not needed.
        target = f"{place}/{launcher}.so"
        done = subprocess.run([*command, "-o", target], capture_output=True, encoding="utf-8")
        if done.returncode != 0:
            raise RuntimeError(f"nvcc failed: {_first_error(done.stderr + done.stdout)}")
        return ctypes.CDLL(target)


def call(function, *arguments: Tensor | int | float | None) -> None:
    """Call a launcher's function on the current stream. Tensors are passed as pointers.

    Raises:
        RuntimeError: the function returned an error message.
    """
    function.restype = ctypes.c_char_p
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    failure = function(*map(_as_c, arguments), stream)
    if failure is not None:
        raise RuntimeError(failure.decode())


def import_file(
    path: Path, name: str, stubs: Mapping[str, Mapping[str, object]] | None = None
) -> ModuleType:
    """Import a file as a module, under a name with our prefix.

    `name` is its dotted name in its project, which resolves its relative imports. `stubs` are the
    modules that it imports this way, with the attributes that it needs.
    """
    names = {name, *(stubs or {})}
    for package in sorted({parent for one in names for parent in _parents(one)}):
        _put(package).__path__ = []
    for stub, attributes in (stubs or {}).items():
        vars(_put(stub)).update(attributes)
    spec = importlib.util.spec_from_file_location(f"{_PREFIX}.{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _as_c(argument: Tensor | int | float | None) -> ctypes._SimpleCData:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if argument is None:
        return ctypes.c_void_p(None)
    return ctypes.c_double(argument) if isinstance(argument, float) else ctypes.c_int64(argument)


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "")[:300]


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts))]  # '': only the prefix


def _put(name: str) -> ModuleType:
    full = f"{_PREFIX}.{name}" if name else _PREFIX
    return sys.modules.setdefault(full, ModuleType(full))
