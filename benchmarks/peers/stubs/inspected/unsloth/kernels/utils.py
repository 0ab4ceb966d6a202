"""Stands in for Unsloth's module of this name: what its kernels' launchers use, on one GPU."""

import contextlib

import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

triton_tanh = libdevice.tanh
triton_cast = tl.cast


def calculate_settings(n: int) -> tuple[int, int]:
    """The block and the warps that the original takes."""
    block = triton.next_power_of_2(n)
    return block, 32 if block >= 32768 else 16 if block >= 8192 else 8 if block >= 2048 else 4


def torch_gpu_device(device: object) -> contextlib.nullcontext:
    return contextlib.nullcontext()


def long_indexing(*tensors: Tensor, block: int = 0) -> bool:
    return any(t.numel() + block >= 2**31 for t in tensors)
