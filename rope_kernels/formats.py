"""The tensor formats, and the one order of dimensions that all code in the package works in.

Letters: s = position in the sequence, b = batch, h = head, d = head dimension, t = token of a
packed batch. TransformerEngine's names; the order of the letters is the order of the dimensions.
"""

from torch import Tensor

# dense format -> which of its dimensions are s, b, h and d, and how to permute them back
_SBHD = {"sbhd": (0, 1, 2, 3), "bshd": (1, 0, 2, 3), "bhsd": (2, 0, 1, 3)}
_BACK = {"sbhd": (0, 1, 2, 3), "bshd": (1, 0, 2, 3), "bhsd": (1, 2, 0, 3)}
FORMATS = (*_SBHD, "thd")


def view_as_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """View `t` as (s, b, h, d), without a copy; a packed (t, h, d) becomes (t, 1, h, d)."""
    return t.unsqueeze(1) if tensor_format == "thd" else t.permute(_SBHD[tensor_format])


def view_from_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """Undo `view_as_sbhd`, without a copy."""
    return t.squeeze(1) if tensor_format == "thd" else t.permute(_BACK[tensor_format])
