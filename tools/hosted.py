"""Prepare a single notebook on Colab or Kaggle: its first cell runs this file.

It isn't part of `rope_lab`, because Triton must be installed before `rope_lab` is imported.
Installed packages are kept, above all torch, which the host has chosen for its GPU.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

TOOLBOX = Path(__file__).resolve().parents[1]
RUNGS = "ROPE_LAB_RUNGS"  # the folder of a reader's kernels, as in rope_lab/rungs/kept.py
DRIVE = Path("/content/drive/MyDrive")  # on Colab, after the reader has mounted it
# The Triton that torch's CUDA builds require. CPU builds require none.
TRITON_OF = {
    "2.9": "3.5.1",
    "2.10": "3.6.0",
    "2.11": "3.6.0",
    "2.12": "3.7.0",
    "2.13": "3.7.1",
    "2.14": "3.8.0",
}


def triton_for(torch: str) -> str:
    """The version of Triton for a torch such as '2.11.0+cpu'; the newest if it isn't listed."""
    release = ".".join(torch.split(".")[:2])
    return TRITON_OF.get(release, list(TRITON_OF.values())[-1])


def install_missing() -> None:
    """Install Triton and the packages for figures and sliders, if they are missing.

    Triton is installed without its dependencies, which aren't needed here.
    """
    if importlib.util.find_spec("triton") is None:
        wanted = f"triton=={triton_for(version('torch'))}"
        print(
            f"There is no Triton here: installing {wanted}, 200 MB, which takes a minute.",
            flush=True,
        )
        _install("--no-deps", wanted)
    figures = [x for x in ("ipywidgets", "matplotlib") if importlib.util.find_spec(x) is None]
    if figures:
        print(f"Installing {' and '.join(figures)}, for the figures.", flush=True)
        _install(*figures)


def _install(*packages: str) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(install, check=True)
    importlib.invalidate_caches()


def keep_kernels(worked_solutions: bool) -> None:
    """Set the folder where a reader's kernels are kept, and print it.

    In worked solutions, kernels are not the reader's, so they go to a temporary folder.
    """
    if worked_solutions:
        os.environ[RUNGS] = tempfile.mkdtemp()
        return
    if DRIVE.is_dir():
        os.environ.setdefault(RUNGS, str(DRIVE / "rope_in_triton" / "rungs"))
    if RUNGS in os.environ:
        print(f"Your kernels are kept in {os.environ[RUNGS]}.")
        return
    print(
        "Later notebooks use kernels that you will write. They are kept on this machine, and go "
        f"with it. To keep them longer, name a folder that stays in os.environ['{RUNGS}']. On "
        "Colab it is enough to mount Google Drive, and to run this cell again."
    )


def get_ready(worked_solutions: bool = False) -> None:
    """Install what is missing, and set up the toolbox and the folder of the reader's kernels.

    Args:
        worked_solutions: whether the notebook contains worked solutions.
    """
    install_missing()
    if str(TOOLBOX) not in sys.path:
        sys.path.insert(0, str(TOOLBOX))  # pip would install only rope_kernels.
    keep_kernels(worked_solutions)
