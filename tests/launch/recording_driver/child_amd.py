"""A process that believes in an AMD GPU: makes calls, and prints how each was launched.

For `test_amd.py`, which gives it `libamdhip64.so` made from `libamdhip64.c`. Triton's own
driver for AMD runs, but for what it would ask PyTorch. Arguments: a GPU and its threads a warp.
"""

import ctypes
import json
import os
import sys

import torch

torch.version.hip = "7.0"  # what PyTorch says where it was built for AMD

import triton  # noqa: E402
from triton.backends.amd.driver import HIPDriver  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

from rope_kernels import RotaryPositionEmbedding, api, qk_norm_rope, rope_fw, rope_qk  # noqa: E402
from rope_kernels.launch import fastpath  # noqa: E402
from rope_kernels.machine import engine  # noqa: E402


class RecordingDriver(HIPDriver):
    """Triton's driver for AMD GPUs, but for what it would ask PyTorch about the GPU."""

    def __init__(self):
        super().__init__()
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda device: 0


class Noted(ctypes.Structure):
    """As in `libamdhip64.c`."""

    _fields_ = [(n, ctypes.c_ulonglong) for n in ("launches", "programs", "threads", "shared")]


hip = ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])
hip.pretend_to_be(sys.argv[1].encode(), int(sys.argv[2]))
triton.runtime.driver.set_active(RecordingDriver())
fastpath._current_device = lambda: 0
api.runs_in_triton = engine.runs_in_triton = lambda t: True  # they would ask for a GPU's tensor

whole_ways = []  # the launches that went through the JIT


def run_jit(kernel, *arguments, run=JITFunction.run, **options):
    """Note what goes through the JIT, which is the slow launcher."""
    compiled = run(kernel, *arguments, **options)
    target = compiled.metadata.target
    noted = {"kernel": kernel.__name__, "fast sine": options["lookup"].fast_sine}
    whole_ways.append(noted | {"target": [target.backend, target.arch]})
    return compiled


JITFunction.run = run_jit


def launched(call) -> dict:
    """How one call was launched."""
    before, after = Noted(), Noted()
    hip.last_launch(ctypes.byref(before))
    first = len(whole_ways)
    call()
    hip.last_launch(ctypes.byref(after))
    return {
        "launches": after.launches - before.launches,
        "threads": after.threads,
        "whole ways": whole_ways[first:],
    }


def calls() -> dict:
    """Name -> a call: each forward kernel, narrow and wide elements, one and two tensors."""
    table, t = RotaryPositionEmbedding(32)(9), torch.randn(6, 2, 4, 32)
    rows, weight = torch.randn(6, 2, 4, 36), torch.ones(32)
    return {
        "bf16": lambda: rope_fw(t.bfloat16(), table),
        "fp64, on the fly": lambda: rope_fw(t.double(), RotaryPositionEmbedding(32)),
        "q and k": lambda: rope_qk(t, t[:, :, :1].contiguous(), table),
        "norm of q and k": lambda: qk_norm_rope(t, t[:, :, :1], weight, weight, table),
        "whole rows in place": lambda: rope_fw(rows, RotaryPositionEmbedding(36)(9), inplace=True),
    }


if __name__ == "__main__":
    chosen = engine.engine_of(torch.empty(0)).name
    result = {name: [launched(call) for _ in range(3)] for name, call in calls().items()}
    json.dump({"engine": chosen, "calls": result}, sys.stdout)
