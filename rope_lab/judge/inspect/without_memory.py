"""Inputs of a size that no memory here holds: large tensors without memory, small ones as they are.

Values of small tensors count: which slot a token has, where a sequence begins.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

MOST_FLOATS, MOST_INTEGERS = 2**20, 2**28  # bytes of a tensor that has its values


class LargeOnMeta(TorchDispatchMode):
    """While this is entered, PyTorch makes large tensors on the meta device, whatever is asked."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        if any(x.is_meta for x in tensors) or _makes_too_much(func, tensors, args, kwargs):
            return _without_memory(func, args, kwargs)
        return func(*args, **kwargs)


def _makes_too_much(func: Callable, tensors: list[Tensor], args: tuple, kwargs: dict) -> bool:
    if any(result.alias_info for result in func._schema.returns):
        return False  # a view, or an input that is written over
    try:
        made = tree_leaves(_without_memory(func, args, kwargs))
    except (NotImplementedError, RuntimeError):
        if not tensors:
            raise
        return False  # how much it is depends on values, and these are here
    return any(
        x.nbytes > (MOST_FLOATS if x.is_floating_point() else MOST_INTEGERS)
        for x in made
        if isinstance(x, Tensor)
    )


def _without_memory(func: Callable, args: tuple, kwargs: dict) -> object:
    def on_meta(x: object) -> object:
        if isinstance(x, Tensor):
            return x.to("meta")
        return torch.device("meta") if isinstance(x, torch.device) else x

    kwargs = kwargs | dict.fromkeys({"generator", "pin_memory"} & kwargs.keys())
    return func(*tree_map(on_meta, args), **tree_map(on_meta, kwargs))
