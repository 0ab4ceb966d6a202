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

torch._C._cuda_getDevice = lambda: 0  # of a build for GPUs, before anything asks for it

import triton  # noqa: E402
from recorded import believe_in_a_gpu, both_ways, cases, driver, whole_ways  # noqa: E402
from triton.backends.amd.driver import HIPDriver  # noqa: E402


class RecordingDriver(HIPDriver):
    """Triton's driver for AMD GPUs, but for what it would ask PyTorch about the GPU."""

    def __init__(self):
        super().__init__()
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda device: driver.stream


driver.library = ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])
driver.library.pretend_to_be(sys.argv[1].encode(), int(sys.argv[2]))
triton.runtime.driver.set_active(RecordingDriver())
believe_in_a_gpu()


if __name__ == "__main__":
    names = sys.argv[3:] or cases().keys()
    result = {
        "cases": {name: both_ways(*cases()[name]) for name in names},
        "targets": list(whole_ways.targets),
    }
    json.dump(result, sys.stdout)
