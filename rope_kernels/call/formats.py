"""The tensor formats, and the one order of dimensions that all code in the package works in.

Letters: s = position in the sequence, b = batch, h = head, d = head dimension, t = token of a
packed batch. TransformerEngine's names; the order of the letters is the order of the dimensions.
A new format is one more string here; `tiles.order_of_programs` finds its order of memory.
"""

from typing import Literal, get_args

from torch import Tensor

TensorFormat = Literal["sbhd", "bshd", "bhsd", "thd"]
FORMATS: tuple[str, ...] = get_args(TensorFormat)
BATCHED_FORMATS = tuple([name for name in FORMATS if "b" in name])


def view_as_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """View `t` as (s, b, h, d), without a copy; a packed (t, h, d) becomes (t, 1, h, d)."""
    if tensor_format == "thd":
        return t.unsqueeze(1)
    return t.permute([tensor_format.index(letter) for letter in "sbhd"])


def view_from_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """Undo `view_as_sbhd`, without a copy."""
    if tensor_format == "thd":
        return t.squeeze(1)
    return t.permute(["sbhd".index(letter) for letter in tensor_format])
