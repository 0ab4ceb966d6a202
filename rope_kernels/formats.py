"""The tensor formats, and the one view of them that all code in the package works on.

Letters: s = position in the sequence, b = batch, h = head, d = head dimension, t = token of a
packed batch. TransformerEngine's names; the order of the letters is the order of the dimensions.
"""

from torch import Tensor

# format -> the order in which its dimensions form (s, b, h, d)
_DENSE_TO_SBHD = {"sbhd": (0, 1, 2, 3), "bshd": (1, 0, 2, 3), "bhsd": (2, 0, 1, 3)}

FORMATS = (*_DENSE_TO_SBHD, "thd")


def view_as_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """View `t` as (s, b, h, d), without a copy; a packed (t, h, d) becomes (t, 1, h, d)."""
    if tensor_format == "thd":
        return t.unsqueeze(1)
    return t.permute(_DENSE_TO_SBHD[tensor_format])


def view_from_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """Undo `view_as_sbhd`, without a copy."""
    if tensor_format == "thd":
        return t.squeeze(1)
    order = _DENSE_TO_SBHD[tensor_format]
    return t.permute([order.index(dim) for dim in range(4)])


def rank_of(tensor_format: str) -> int:
    """Number of dimensions of a tensor in this format."""
    return len(tensor_format)
