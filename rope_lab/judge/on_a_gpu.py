"""What Triton's interpreter runs, and what a GPU does in another way, or refuses: the sentences."""

from collections.abc import Iterator

import numpy as np
from triton.runtime import _allocation

CAT = (
    "tl.cat may reorder elements; write tl.reshape(tl.permute(tl.join(a, b), (1, 0)), (2 * N,)), "
    "or store one block after the other"
)
RESHAPE = "can_reorder=True, which tl.view implies, may reorder elements: leave it out"
NO_ALLOCATOR = (
    "a descriptor that a kernel makes needs memory, and no allocator is set; before the launch, "
    "write triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, "
    'device="cuda"))'
)
ASSUMED = "what tl.assume says is untrue, and the compiler relies on it"


def allocator_is_set() -> bool:
    """Whether kernels can get memory in this process, by `triton.set_allocator`."""
    return not isinstance(_allocation._allocator.get(), _allocation.NullAllocator)


def untrue_hint(attribute: str, given: list[int], numbers: np.ndarray, step: int) -> str:
    """What is untrue in a hint for the compiler; '' if nothing is.

    Args:
        attribute: Triton's name of it, such as 'tt.contiguity'.
        given: a number for each axis.
        numbers: the block, of int64; of pointers, in bytes from the beginning of their memory.
        step: from an element to the next one: 1, or the bytes of what a pointer points to.
    """
    if attribute not in _HINTS:
        return ""
    name, untrue = _HINTS[attribute]
    for axis, number in enumerate(given):
        lanes = np.moveaxis(np.atleast_1d(numbers), axis, -1)
        if number > 1 and (found := next(untrue(lanes, number, step), "")):
            return f"tl.{name} by {number} is untrue, and the compiler relies on it: {found}"
    return ""


def _breaks(lanes: np.ndarray, size: int, step: int) -> np.ndarray:
    """For each lane but the first: is it in the group of the one before, and not a step further?"""
    in_a_group = np.arange(1, lanes.shape[-1]) % size != 0
    return in_a_group & (np.diff(lanes) != step)


def _not_consecutive(lanes: np.ndarray, size: int, step: int) -> Iterator[str]:
    breaks = _breaks(lanes, size, step)
    pairs = zip(lanes[..., :-1][breaks], lanes[..., 1:][breaks], strict=True)
    return (f"{one} is followed by {other}" for one, other in pairs)


def _not_constant(lanes: np.ndarray, size: int, step: int) -> Iterator[str]:
    return _not_consecutive(lanes, size, 0)


def _not_divided(lanes: np.ndarray, number: int, step: int) -> Iterator[str]:
    """About the first number of each group of consecutive ones, as the compiler understands it."""
    size = lanes.shape[-1]
    while _breaks(lanes, size, step).any():
        size //= 2
    firsts = lanes[..., ::size]
    return (f"consecutive numbers begin at {one}" for one in firsts[firsts % number != 0])


_HINTS = {
    "tt.divisibility": ("multiple_of", _not_divided),
    "tt.contiguity": ("max_contiguous", _not_consecutive),
    "tt.constancy": ("max_constancy", _not_constant),
}
