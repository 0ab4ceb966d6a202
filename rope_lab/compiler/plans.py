"""What a call of the package would launch on a GPU that need not be present.

The call itself runs, with tensors that claim to be on that GPU. Its launches are caught where they
reach Triton, whatever the package's own names are. No kernel runs, so results are never written,
and large sizes cost nothing.
"""

import os
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from unittest.mock import PropertyMock, patch

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import rope_kernels
from rope_kernels import paths

from .launches import Launch, launched_by


def plan_of(function: Callable, *arguments, gpu: str = "sm_90", **options) -> Launch:
    """Plan a call's launch for a GPU, without launching it.

    Args:
        function: a function of the package that rotates, such as `rope_fw`, or one that calls it.
        arguments: its arguments. Tensors may be on any device, including meta.
        gpu: as in `compile_for`, by default an H200.
        options: its keyword arguments.

    Raises:
        TypeError, ValueError: the function refuses its arguments.
        ValueError: the call makes no launch, or several.
    """
    with plans(gpu) as found:
        function(*arguments, **options)
    if not found:
        reason = "fused is False, its tensors have no elements, freqs requires a gradient, or it "
        raise ValueError(f"the call launches no kernel: {reason}does not rotate")
    if len(found) > 1:
        raise ValueError(f"the call makes {len(found)} launches; plan each tensor alone")
    return found[0]


def plans_of(function: Callable, *arguments, gpu: str = "sm_90", **options) -> list[Launch]:
    """Plan every launch of a call, and of its backward if a tensor requires a gradient."""
    with plans(gpu) as found:
        outs = [out for out in tree_leaves(function(*arguments, **options)) if out.requires_grad]
        leaves = [x for x in tree_leaves(arguments) if getattr(x, "requires_grad", False)]
        if outs:
            torch.autograd.grad(outs, leaves, [torch.empty_like(out) for out in outs])
    return found


_data_ptr = Tensor.data_ptr


def _address(x: Tensor) -> int:
    """An address, also for a tensor without memory; far from any other storage's."""
    of_its_storage = x.untyped_storage()._cdata << 40
    return _data_ptr(x) or of_its_storage + x.storage_offset() * x.element_size()


@contextmanager
def plans(gpu: str = "sm_90") -> Iterator[list[Launch]]:
    """Plan every launch of calls whose tensors claim to be on this GPU, without launching."""
    found: list[Launch] = []
    _kernel_modules()
    yes, no = PropertyMock(return_value=True), PropertyMock(return_value=False)
    with (
        patch.dict(os.environ, {"TRITON_INTERPRET": "0"}),
        patch.multiple(Tensor, is_cuda=yes, is_cpu=no, is_meta=no, data_ptr=_address),
        patch.object(paths, "_HAS_COMPILER", True),  # it isn't called
        patch.object(torch.version, "hip", "7.2" if gpu.startswith("gfx") else None),
        patch.object(torch.cuda, "current_device", lambda: -1),  # the index of tensors on the CPU
        launched_by(found.append, gpu),
    ):
        yield found


def kernel_names() -> set[str]:
    """The names of the package's kernels, as in a profile.

    The functions that kernels call are compiled into them; their names don't end in `_kernel`.
    """
    import triton

    functions = [x for module in _kernel_modules() for x in vars(module).values()]
    names = [x.__name__ for x in functions if isinstance(x, triton.KernelInterface)]
    return {name for name in names if name.endswith("_kernel")}


@cache
def _kernel_modules() -> list[ModuleType]:
    """All modules with kernels, imported, whether these are compiled or interpreted here."""
    modules = pkgutil.walk_packages(rope_kernels.__path__, "rope_kernels.")
    names = [module.name for module in modules]
    return [import_module(x) for x in names if "kernel" in x.removeprefix("rope_kernels.")]
