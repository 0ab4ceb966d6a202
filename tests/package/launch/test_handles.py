"""A call that is remembered hands the driver exactly what Triton's JIT hands it.

On a machine without a GPU a CUDA driver that records launches tells (`recording_driver/`), wherever
there is a C compiler. Where there is a GPU, the second of any two calls is launched by a handle.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from processes import PLACES
from rope_kernels.arguments import Tensors

triton = pytest.importorskip("triton", reason="needs Triton")
HERE = Path(__file__).parent / "recording_driver"
recorded = pytest.mark.skipif(
    torch.cuda.is_available() or shutil.which("gcc") is None,
    reason="needs gcc, and no real driver",
)


@pytest.fixture(scope="module")
def noted(tmp_path_factory):
    """What `child.py` prints with the recording driver."""
    folder = tmp_path_factory.mktemp("driver")
    headers = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    library = folder / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", f"-I{headers}", "-o", library, HERE / "libcuda.c"]
    subprocess.run(command, check=True)
    (folder / "libcuda.so").symlink_to(library)  # Triton 3.5 links its launchers with -lcuda

    def before(name, value):
        return os.pathsep.join([str(value), *filter(None, [os.environ.get(name)])])

    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", folder),
        "TRITON_LIBCUDA_PATH": str(folder),
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": before("PYTHONPATH", os.pathsep.join(PLACES)),
    }
    child = [sys.executable, HERE / "child.py"]
    done = subprocess.run(child, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@recorded
def test_the_driver_gets_the_same_from_the_jit_and_from_the_handle(noted):
    assert len(noted["cases"]) >= 24
    for name, ways in noted["cases"].items():
        jit, handle = ways["the JIT"], ways["the handle"]
        assert (jit.pop("by the JIT"), handle.pop("by the JIT")) == (1, 0), name
        assert jit == handle, name
        assert handle["launches"] == 1 and handle["its own stream"], name
        assert "unknown" not in [value for _, value in handle["parameters"]], name
    # addresses are told from each other, or this would compare nothing with nothing
    parameters = dict(noted["cases"]["rope_qk, 1"]["the handle"]["parameters"])
    for name, place in {"q": "q", "k_out": "out 1", "table": "freqs 0"}.items():
        assert parameters[f"tensors.{Tensors._fields.index(name)}"] == f"{place}, 0"


FOUND = {  # what a child tried -> what it has to find
    # launches, and those by the JIT: forward, backward, and the sum of the weights' gradients
    "norm with gradients": [[3, 3], [3, 0], [3, 0]],
    # strides of tokens and heads, 6 tokens of 4 heads of 32
    "into memory of a graph": [[128, 32], [32, 192]],
    # the number that all sequences start at, as 32 or 64 bits, and launches by the JIT
    "another first position": [[3, 0], [70, 0], [2**32 - 1, 0], [2**40 + 1, 0], [5, 0]],
    "enable_fp_fusion": [True],  # every launch says it: Triton 3.10 changes the default
}


@recorded
@pytest.mark.parametrize("tried", FOUND)
def test_what_a_child_finds(tried, noted):
    assert noted[tried] == FOUND[tried]


@recorded
def test_an_error_of_the_driver_is_raised_after_one_launch(noted):
    refused = noted["refused by the driver"]
    assert "Triton Error [CUDA]" in refused["error"]
    assert (refused["launches"], refused["next"]) == (1, 0)
