"""Get a notebook ready that came alone, on Colab or Kaggle: its first cell runs this file.

It is no part of `rope_lab`, which picks its engine when it is imported: Triton comes before. What
is installed already stays, above all torch, which the host has chosen for its own GPU.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

TOOLBOX = Path(__file__).resolve().parents[1]
RUNGS = "ROPE_LAB_RUNGS"  # as rope_lab/rungs/kept.py calls the folder of a reader's kernels
DRIVE = Path("/content/drive/MyDrive")  # Colab's, once the reader has mounted it
# The Triton that torch's builds with CUDA ask for; those without CUDA ask for none.
TRITON_OF = {
    "2.9": "3.5.1",
    "2.10": "3.6.0",
    "2.11": "3.6.0",
    "2.12": "3.7.0",
    "2.13": "3.7.1",
    "2.14": "3.8.0",
}


def triton_for(torch: str) -> str:
    """The Triton for a torch, as '2.11.0+cpu'; for one that is not listed, the newest."""
    release = ".".join(torch.split(".")[:2])
    return TRITON_OF.get(release, list(TRITON_OF.values())[-1])


def install_missing() -> None:
    """Install what the host lacks of Triton and of what draws figures and sliders.

    Triton comes without its dependencies: it has none that matter here.
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
    """Say where a reader's kernels are kept, and let them be kept there.

    Kernels of worked solutions are not the reader's: they go where nothing is looked for.
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
    """Have Triton, what figures need, the toolbox, and a place for the reader's kernels.

    Args:
        worked_solutions: whether the notebook has these in place of the reader's.
    """
    install_missing()
    if str(TOOLBOX) not in sys.path:
        sys.path.insert(0, str(TOOLBOX))  # pip would install no rope_lab, and nothing to read
    keep_kernels(worked_solutions)
