"""A process that believes in an AMD GPU: launches calls both ways and prints what the driver noted.

For `test_amd.py`, which gives it `libamdhip64.so` made from `libamdhip64.c`. Triton's own
driver for AMD runs, but for what it would ask PyTorch. Arguments: a GPU, its threads a warp, and
names of cases; all cases without names.
"""

import ctypes
import json
import os
import sys

import torch

torch.version.hip = "7.0"  # what PyTorch says where it was built for AMD

import triton  # noqa: E402
from triton.backends.amd.driver import HIPDriver  # noqa: E402

from launches import both_ways, cases, driver, whole_ways  # noqa: E402
from rope_kernels import routes  # noqa: E402
from rope_kernels.launch import fastpath  # noqa: E402
from rope_kernels.machine import engine  # noqa: E402


class RecordingDriver(HIPDriver):
    """Triton's driver for AMD GPUs, but for what it would ask PyTorch about the GPU."""

    def __init__(self):
        super().__init__()
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda device: driver.stream


driver.library = ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])
driver.library.pretend_to_be(sys.argv[1].encode(), int(sys.argv[2]))
triton.runtime.driver.set_active(RecordingDriver())
fastpath._current_device = lambda: 0
routes.runs_in_triton = engine.runs_in_triton = lambda t: True  # they would ask for a GPU's tensor


if __name__ == "__main__":
    names = sys.argv[3:] or cases().keys()
    result = {
        "engine": engine.engine_of(torch.empty(0)).name,
        "cases": {name: both_ways(*cases()[name]) for name in names},
        "fast sine": list(whole_ways.fast_sine),
        "targets": list(whole_ways.targets),
    }
    json.dump(result, sys.stdout)
