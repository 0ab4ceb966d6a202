"""A call on an AMD GPU: the fast path hands the runtime what Triton's JIT hands it.

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
SOME = ("table", "q and k in place", "whole rows", "packed", "norm of q and k")  # on the second one
pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() or shutil.which("gcc") is None or not BACKEND.is_dir(),
    reason="needs gcc, Triton's compiler for AMD, and no real driver",
)


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
        child += SOME if gpu == "gfx1100" else ()
        done = subprocess.run(child, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return {gpu: run(gpu) for gpu in GPUS}


@pytest.mark.parametrize("gpu", GPUS)
def test_the_runtime_gets_the_same_both_ways(noted, gpu):
    assert noted[gpu]["targets"] == [["hip", gpu]]
    assert len(noted[gpu]["cases"]) >= (len(SOME) if gpu == "gfx1100" else 28)
    for name, ways in noted[gpu]["cases"].items():
        whole, fast = ways["whole"], ways["fast"]
        assert (whole.pop("whole way"), fast.pop("whole way")) == (1, 0), name
        assert whole == fast, name
        assert fast["launches"] == 1 and fast["its own stream"], name
        assert fast["threads"] % GPUS[gpu] == 0 and fast["threads"], name
        assert "unknown" not in [value for _, value in fast["parameters"]], name
