"""The tensor formats, and the one order of dimensions that all code in the package works in.

Letters: s = position in the sequence, b = batch, h = head, d = head dimension, t = token of a
packed batch. TransformerEngine's names; the order of the letters is the order of the dimensions.
"""

from torch import Tensor

# dense format -> which of its dimensions are s, b, h and d
_SBHD = {"sbhd": (0, 1, 2, 3), "bshd": (1, 0, 2, 3), "bhsd": (2, 0, 1, 3)}

FORMATS = (*_SBHD, "thd")


def sizes_in_sbhd(t: Tensor, tensor_format: str) -> tuple[int, ...]:
    """Sizes of s, b, h and d; packed tokens are one batch entry."""
    return _in_sbhd(t.shape, tensor_format, batch=1)


def strides_in_sbhd(t: Tensor, tensor_format: str) -> tuple[int, ...]:
    """Strides of s, b, h and d, in elements; 0 where there is one index only.

    (There a stride says nothing, but 1 would make the compiler expect unaligned rows.)
    """
    strides = tuple(0 if n == 1 else step for n, step in zip(t.shape, t.stride(), strict=True))
    return _in_sbhd(strides, tensor_format, batch=0)


def _in_sbhd(dims: tuple[int, ...], tensor_format: str, batch: int) -> tuple[int, ...]:
    if tensor_format == "thd":
        return dims[0], batch, dims[1], dims[2]
    s, b, h, d = _SBHD[tensor_format]
    return dims[s], dims[b], dims[h], dims[d]


def view_as_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """View `t` as (s, b, h, d), without a copy; a packed (t, h, d) becomes (t, 1, h, d)."""
    return t.unsqueeze(1) if tensor_format == "thd" else t.permute(_SBHD[tensor_format])


def view_from_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """Undo `view_as_sbhd`, without a copy."""
    if tensor_format == "thd":
        return t.squeeze(1)
    return t.permute([_SBHD[tensor_format].index(dim) for dim in range(4)])
