"""Positions with several axes, as of images and video: which pair turns by which, and grids."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..machine.modes import has_values
from .arguments import short

MOST_AXES = 16
_INTEGERS = torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8
_POSITIONS = *_INTEGERS, torch.float32, torch.float64


def mrope_axes(sections: Sequence[int], interleaved: bool = False) -> list[int]:
    """The axis of each pair by the sections of M-RoPE, for `RotaryPositionEmbedding(..., axes=)`.

    Args:
        sections: number of pairs of each axis, (temporal, height, width) in Qwen's models. They add
            up to d2/2. A configuration has them as `mrope_section`.
        interleaved: False: the first section turns by axis 0, the next by axis 1, and so on, as in
            Qwen2-VL, Qwen2.5-VL and GLM4V. True: axes take turns, 0, 1, 2, 0, 1, 2, ..., and axis 0
            has what the others leave at the end, as in Qwen3-VL.

    Returns:
        d2/2 integers.

    Raises:
        TypeError: `sections` is no list or tuple, or `interleaved` no bool.
        ValueError: an entry is no integer from 0, all are 0, or no axes that take turns have as
            many pairs.

    Example:
        >>> mrope_axes([2, 3, 3]), mrope_axes([3, 2, 2], interleaved=True)
        ([0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2, 0, 1, 2, 0])

    Source: M-RoPE of Qwen2-VL, https://arxiv.org/abs/2409.12191, and Qwen3-VL,
    https://arxiv.org/abs/2511.21631.
    """
    accepted = "a list of integers from 0, the number of pairs of each axis"
    if not isinstance(sections, (list, tuple)):
        raise TypeError(f"sections is of type {type(sections).__name__}; accepted: {accepted}")
    if not isinstance(interleaved, bool):
        raise TypeError(f"interleaved is {interleaved!r}; accepted: False, True")
    if not (
        all(_is_count(n) for n in sections) and 0 < len(sections) <= MOST_AXES and sum(sections)
    ):
        raise ValueError(f"sections is {list(sections)}; accepted: {accepted}")
    if not interleaved:
        return [axis for axis, pairs in enumerate(sections) for _ in range(pairs)]
    axes, step = [0] * sum(sections), len(sections)
    for axis in range(1, step):
        for pair in range(axis, min(step * sections[axis], len(axes)), step):
            axes[pair] = axis
    if [axes.count(axis) for axis in range(step)] != list(sections):
        came = f"sections is {list(sections)} with interleaved=True"
        raise ValueError(f"{came}; accepted: a first section that is no smaller than the others")
    return axes


def grid_positions(
    t: int, h: int, w: int, *, merge_size: int = 1, device: torch.device | str | None = None
) -> Tensor:
    """Time, row and column of each patch of a video, in row-major order.

    Args:
        t: number of frames; 1 for an image.
        h: rows of patches.
        w: columns of patches.
        merge_size: patches come in squares of merge_size x merge_size, as in the vision towers of
            Qwen's models: row-major over squares, then within each. It divides `h` and `w`.
        device: of the result.

    Returns:
        (3, t * h * w), int64. With axes 0 for height and 1 for width, pass rows [1:].

    Raises:
        ValueError: an argument is no integer from 1, or `merge_size` does not divide `h` and `w`.

    Example:
        >>> grid_positions(1, 2, 3)
        tensor([[0, 0, 0, 0, 0, 0],
                [0, 0, 0, 1, 1, 1],
                [0, 1, 2, 0, 1, 2]])
    """
    for name, value in {"t": t, "h": h, "w": w, "merge_size": merge_size}.items():
        if not (_is_count(value) and value):
            raise ValueError(f"{name} is {value!r}; accepted: an integer from 1")
    if h % merge_size or w % merge_size:
        came = f"merge_size is {merge_size} with h = {h} and w = {w}"
        raise ValueError(f"{came}; accepted: a divisor of both")
    sides = (torch.arange(n, device=device) for n in (t, h, w))
    grid = torch.stack(torch.meshgrid(*sides, indexing="ij"))
    squares = grid.unflatten(3, (-1, merge_size)).unflatten(2, (-1, merge_size))
    return squares.transpose(3, 4).flatten(1)


def checked_axes(axes: Sequence[int] | Tensor, pairs: int) -> tuple[int, ...]:
    """The axis of each of so many pairs.

    Raises:
        TypeError: not a sequence or a tensor of integers.
        ValueError: not `pairs` integers from 0 to 15.
    """
    accepted = f"a list or tensor of d2 / 2 = {pairs} integers from 0 to {MOST_AXES - 1}"
    given = axes
    if isinstance(axes, Tensor):
        if axes.shape != (pairs,):
            raise ValueError(f"axes has shape {tuple(axes.shape)}; accepted: {accepted}")
        if not has_values(axes):
            raise ValueError(f"axes is on {axes.device}; accepted: {accepted}")
        given = axes.tolist()
    elif type(axes).__module__ == "numpy" and hasattr(axes, "tolist"):
        given = axes.tolist()
    if isinstance(given, (list, tuple)):  # entries of NumPy become Python's own
        given = [x.item() if type(x).__module__ == "numpy" else x for x in given]
    if not isinstance(given, (list, tuple, range)):
        raise TypeError(f"axes is of type {type(axes).__name__}; accepted: {accepted}")
    if len(given) != pairs:
        raise ValueError(f"axes has {len(given)} entries; accepted: {accepted}")
    for i, axis in enumerate(given):
        if not (_is_count(axis) and axis < MOST_AXES):
            raise ValueError(f"axes[{i}] is {axis!r}; accepted: {accepted}")
    return tuple(given)


def check_position_ids(position_ids: object, inv_freq: Tensor, num_axes: int | None) -> None:
    """Raise unless `RotaryPositionEmbedding.cos_sin_at` can take these positions."""
    accepted = "(s,) or (b, s)" + ("" if num_axes is None else f" or ({num_axes}, b, s)")
    if not isinstance(position_ids, Tensor):
        came = f"position_ids is of type {type(position_ids).__name__}"
        raise TypeError(f"{came}; accepted: torch.Tensor")
    if position_ids.dtype not in _POSITIONS:
        came = f"position_ids has dtype {short(position_ids.dtype)}"
        raise TypeError(f"{came}; accepted: {', '.join(map(short, _POSITIONS))}")
    shape = tuple(position_ids.shape)
    if not (len(shape) in (1, 2) or (len(shape) == 3 and shape[0] == num_axes)):
        raise ValueError(f"position_ids has shape {shape}; accepted: {accepted}")
    if position_ids.device != inv_freq.device:
        needs = f"it must be on inv_freq's device, {inv_freq.device}"
        raise ValueError(f"position_ids is on {position_ids.device}; {needs}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
