"""Let `tl.reduce` and `tl.associative_scan` call a kernel's own function on whole blocks.

Triton's interpreter calls it for each element, which takes minutes. Here, as on a GPU, elements
keep their order, and how they are grouped is not defined: the function is associative.

Importing this loads Triton.
"""

from functools import cache
from unittest.mock import patch

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import ReduceOps, ScanOps

Arrays = list[np.ndarray]


class _HasBranches(Exception):
    """The function asks a block for its truth value, so it takes single elements."""


@cache
def let_reductions_take_blocks() -> None:
    """Let this process reduce and scan a block by a few calls; harmless if called again."""
    ReduceOps.generic_reduce, ScanOps.generic_scan = _reduced, _scanned


def _reduced(self, inputs) -> list:
    """Neighbors are combined, then neighbors of the results, until one is left."""
    rank = inputs[0].handle.data.ndim
    blocks = [x.handle.data.reshape(-1) if self.axis is None else x.handle.data for x in inputs]
    axis = 0 if self.axis is None else self.axis % rank
    blocks = [np.moveaxis(data, axis, 0) for data in blocks]
    while len(blocks[0]) > 1:
        earlier, later = ([data[first::2] for data in blocks] for first in (0, 1))
        blocks = _combined(self, inputs, earlier, later)
    if not self.keep_dims:
        blocks = [data[0] for data in blocks]
    elif self.axis is None:
        blocks = [data.reshape((1,) * rank) for data in blocks]
    else:
        blocks = [np.moveaxis(data, 0, axis) for data in blocks]
    return [self.to_tensor(data, x.dtype) for data, x in zip(blocks, inputs, strict=True)]


def _scanned(self, inputs) -> list:
    """Each element is combined with the one before it, then with those 2, 4, 8, ... before it."""
    blocks = [x.handle.data for x in inputs]
    axis = self.axis % blocks[0].ndim
    number = np.indices(blocks[0].shape)[axis]  # of each element, along the axis
    step = 1
    while step < blocks[0].shape[axis]:
        before = [np.roll(data, step, axis) for data in blocks]
        combined = _combined(self, inputs, before, blocks)
        blocks = [np.where(number >= step, *pair) for pair in zip(combined, blocks, strict=True)]
        step *= 2
    return [self.to_tensor(data, x.dtype) for data, x in zip(blocks, inputs, strict=True)]


def _combined(self, inputs, earlier: Arrays, later: Arrays) -> Arrays:
    """What the function makes of an earlier and a later block of each input, in their dtypes."""
    try:
        found = _called(self, inputs, earlier + later)
    except Exception as error:  # Triton wraps what a function in the function raises
        if not _has_branches(error):
            raise
        elements = zip(*(data.ravel() for data in earlier + later), strict=True)
        each = zip(*(_called(self, inputs, one) for one in elements), strict=True)
        found = [np.reshape(one, earlier[0].shape) for one in each]
    return [
        np.broadcast_to(data, like.shape).astype(like.dtype)
        for data, like in zip(found, earlier, strict=True)
    ]


def _called(self, inputs, given: Arrays) -> list:
    """One call of the function."""

    def truth(block) -> bool:
        if block.handle.data.size > 1:
            raise _HasBranches
        return bool(block.handle.data)

    blocks = [self.to_tensor(x, like.dtype) for x, like in zip(given, 2 * inputs, strict=True)]
    with patch.object(tl.tensor, "__bool__", truth):
        found = self.combine_fn.fn(*blocks)
    found = found if isinstance(found, tuple) else (found,)
    return [x.handle.data if isinstance(x, tl.tensor) else x for x in found]


def _has_branches(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, _HasBranches):
        error = error.__cause__
    return error is not None
