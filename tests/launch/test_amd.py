"""A call on an AMD GPU: Triton's own launcher takes it, with the library's sine, and nothing fails.

No AMD GPU was at hand. A HIP runtime that records launches stands in (`recording_driver/`), with
Triton's real driver and compiler for AMD before it. So this shows no result and no time.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rope_kernels

triton = pytest.importorskip("triton", reason="needs Triton")
HERE = Path(__file__).parent / "recording_driver"
BACKEND = Path(triton.__file__).parent / "backends" / "amd"
GPUS = {"gfx942": 64, "gfx1100": 32}  # threads a warp
pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() or shutil.which("gcc") is None or not BACKEND.is_dir(),
    reason="needs gcc, Triton's compiler for AMD, and no real driver",
)
ROPE, WHOLE_ROWS, NORM = "rope_kernel", "whole_rows_kernel", "norm_rope_kernel"
CALLS = {  # kernel, warps
    **{name: (ROPE, 1) for name in ("bf16", "fp64, on the fly", "q and k")},
    "norm of q and k": (NORM, 1),
    "whole rows in place": (WHOLE_ROWS, 2),
}


@pytest.fixture(scope="module")
def noted(tmp_path_factory):
    """GPU -> what `child_amd.py` printed, with the recording runtime."""
    folder = tmp_path_factory.mktemp("hip")
    library, code = folder / "libamdhip64.so", HERE / "libamdhip64.c"
    command = ["gcc", "-shared", "-fPIC", f"-I{BACKEND / 'include'}", "-o", library, code]
    subprocess.run(command, check=True)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "TRITON_LIBHIP_PATH": str(library),
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "ROPE_KERNELS_FAST_PATH": "1",
        "PYTHONPATH": os.pathsep.join(
            [str(Path(rope_kernels.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
        ),
    }

    def run(gpu):
        child = [sys.executable, HERE / "child_amd.py", gpu, str(GPUS[gpu])]
        done = subprocess.run(child, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return {gpu: run(gpu) for gpu in GPUS}


@pytest.mark.parametrize("gpu", GPUS)
def test_the_package_plans_for_amd(noted, gpu):
    assert noted[gpu]["engine"] == "AMD" and list(noted[gpu]["calls"]) == list(CALLS)


@pytest.mark.parametrize("gpu", GPUS)
def test_every_call_goes_through_the_slow_launcher_with_the_librarys_sine(noted, gpu):
    """The second and third call too, which an NVIDIA GPU would get by the fast path."""
    for name, (kernel, warps) in CALLS.items():
        once = {
            "launches": 1,
            "threads": warps * GPUS[gpu],
            "whole ways": [{"kernel": kernel, "fast sine": False, "target": ["hip", gpu]}],
        }
        assert noted[gpu]["calls"][name] == [once] * 3, name
