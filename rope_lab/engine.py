"""Where the tensors of notebooks are, chosen when this module is imported: there kernels run.

- compiled: there is a CUDA GPU. Kernels are compiled for it and work on CUDA tensors.
- interpreted: there is none. Triton's interpreter runs the same kernels on CPU tensors.
- PyTorch alone: Triton is not installed. The notebooks without Triton kernels run.

On macOS and Windows, only Triton's interpreter is installed, which needs no compiler.
"""

import faulthandler
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from rope_kernels.paths import compiler_is_installed, interpreter_is_on, triton_is_installed

from .interpreter import run_as_compiled
from .run import Now

COMPILED, INTERPRETED, PYTORCH = "compiled", "interpreted", "PyTorch alone"


@dataclass(frozen=True)
class Engine:
    """How kernels run in this process, and the properties of the machine that decide it."""

    system: str  # 'Linux', 'Darwin', 'Windows'
    triton_installed: bool
    torch_built_for_cuda: bool
    compiler_installed: bool = True  # Triton's; there may be only its interpreter
    gpu: str = ""  # the name of the CUDA GPU that torch can use
    nvidia_driver: str | None = None  # its version; None if absent, or if torch can use the GPU
    lacks: tuple[str, ...] = ()  # missing things that Triton needs to launch on a GPU
    triton_interprets_all: bool = False  # it was loaded before `rope_lab`, for its interpreter
    interpreter_asked_for: bool = False  # the reader set TRITON_INTERPRET

    @property
    def kind(self) -> str:
        """One of the three names above."""
        if not self.triton_installed:
            return PYTORCH
        compiles = self.gpu and self.compiler_installed and not self.interpreter_asked_for
        return COMPILED if compiles else INTERPRETED

    @property
    def device(self) -> str:
        """Where tensors for kernels live: 'cuda' for compiled ones, else 'cpu'."""
        return "cuda" if self.kind == COMPILED else "cpu"

    @property
    def problems(self) -> list[str]:
        """What prevents the best engine here, one sentence each: the cause, then what to do."""
        problems = []
        if self.nvidia_driver and not self.gpu:
            if self.torch_built_for_cuda:
                problems.append(
                    f"There is an NVIDIA driver, {self.nvidia_driver}, but torch cannot use a GPU: "
                    "update the driver if it is too old, and see whether `nvidia-smi` lists a GPU."
                )
            else:
                problems.append(
                    "There is an NVIDIA GPU, but this is the CPU build of torch: run `make clean`, "
                    "then `make lab` without `CPU=1`."
                )
        if not self.triton_installed:
            problems.append(self.how_to_get_triton)
        if self.triton_installed and self.gpu and not self.compiler_installed:
            problems.append(
                "There is a GPU, but of Triton only the interpreter is installed: docs/install.md "
                "says how to get a compiler."
            )
        if self.kind == COMPILED and self.lacks:
            problems.append(
                f"Triton needs {' and '.join(self.lacks)} to launch on a GPU: install gcc and "
                "python3-dev."
            )
        if self.triton_interprets_all and self.compiler_installed:
            problems.append(
                "Triton was loaded before `rope_lab`, for its interpreter, and can't compile here: "
                "restart the kernel and import `rope_lab` first."
            )
        return problems

    @property
    def how_to_get_triton(self) -> str:
        if self.system == "Linux":
            return "Triton is not installed: `make lab` installs it."
        command = "py lab.py" if self.system == "Windows" else "python3 lab.py"
        return f"Triton is not installed: `{command}` installs its interpreter."

    def __repr__(self) -> str:
        """One line: the engine, why it is not the best one, and what to do about that.

        Notebooks print it, and nbval compares no line that starts with `Engine: `.
        """
        name, reason = f"{self.kind} on the CPU", ""
        if self.kind == COMPILED:
            name = f"compiled for cuda ({self.gpu})"
        elif self.kind == INTERPRETED and self.gpu:
            if self.interpreter_asked_for:
                reason = ", because TRITON_INTERPRET is set"
        elif self.kind == INTERPRETED and not self.nvidia_driver:
            reason = ", because this machine has no NVIDIA GPU"
        found = " ".join(self.problems)
        return f"Engine: {name}{reason}" + (f". {found}" if found else "")


def need_triton() -> None:
    """Stop a notebook that needs Triton if it isn't installed.

    It also imports Triton, lets kernels run where their tensors are, and makes the interpreter
    faster and more accurate. If native code crashes, which ends the notebook's process, its log
    shows the line.

    Raises:
        ImportError: Triton is not installed.
    """
    if ENGINE.kind == PYTORCH:
        raise ImportError(ENGINE.how_to_get_triton)
    run_as_compiled()
    if sys.__stderr__ and not faulthandler.is_enabled():
        faulthandler.enable(sys.__stderr__)


def look() -> Engine:
    """Examine this machine, without loading Triton. torch warns if the driver is too old."""
    available = torch.cuda.is_available()
    needed = {
        "a C compiler": os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"),
        "the header Python.h": Path(sysconfig.get_path("include"), "Python.h").exists(),
    }
    language = sys.modules.get("triton.language")
    return Engine(
        system=platform.system(),
        triton_installed=triton_is_installed(),
        compiler_installed=compiler_is_installed(),
        torch_built_for_cuda=torch.version.cuda is not None,
        gpu=torch.cuda.get_device_name() if available else "",
        nvidia_driver=None if available else nvidia_driver(),
        lacks=tuple(name for name, there in needed.items() if not there),
        # whether Triton's own helpers are interpreted was decided when it was loaded
        triton_interprets_all=type(getattr(language, "cdiv", None)).__name__
        == "InterpretedFunction",
        interpreter_asked_for=interpreter_is_on(),
    )


def start() -> Engine:
    """Pick the engine, and let Triton be loaded with its compiler, if it has one."""
    engine = look()
    if not engine.compiler_installed or engine.triton_interprets_all:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is loaded
    else:  # also where a reader has set it: then tensors are on the CPU
        os.environ.pop("TRITON_INTERPRET", None)
    # Say how products and sums are fused, because a future Triton changes the default
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    return engine


@cache
def nvidia_driver() -> str | None:
    """The version of the driver; None if there is none."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            query, capture_output=True, encoding="utf-8", timeout=20, check=True
        )
    except (subprocess.SubprocessError, OSError):
        return None
    return answer.stdout.partition("\n")[0].strip() or None


ENGINE = start()
Now.device = device = ENGINE.device
