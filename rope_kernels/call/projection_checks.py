"""What `split_qkv_rope` accepts beyond the rotation, and the errors for the rest."""

from ..embedding.arguments import FLOATS
from .arguments import Call
from .checks import (
    bad,
    check_call,
    check_choice,
    check_integer,
    check_tensor,
)
from .packed_format import PACKED_FORMATS, PACKINGS, PackedFormat


def check_projection(qkv: object, packed: PackedFormat) -> None:
    """Check that a projection can be split as `packed` says.

    Raises:
        TypeError: not a tensor, or a dtype that is not accepted.
        ValueError: sizes that do not fit together, or a format that is not known.
    """
    check_tensor("qkv", qkv, FLOATS)
    check_choice("tensor_format", packed.input_format, PACKED_FORMATS)
    check_choice("packing", packed.packing, PACKINGS)
    outputs = ("sbhd", "bshd", "bhsd", *(["thd"] if packed.input_format == "thd" else []))
    check_choice("output_format", packed.output_format, outputs)
    for name, heads in (("num_heads", packed.num_heads), ("num_kv_heads", packed.num_kv_heads)):
        check_integer(name, heads, 1, 2**31 - 1, "an integer from 1, below 2^31")
    if packed.packing == "grouped" and packed.num_heads % packed.num_kv_heads:
        came = f"num_heads is {packed.num_heads}, and num_kv_heads {packed.num_kv_heads}"
        raise bad(came, "with packing='grouped' as many heads of q for each head of k")
    dims = *packed.input_format[:-2], "heads of q, k and v together * d"
    if qkv.dim() != len(dims):
        accepted = f"({', '.join(dims)}) with tensor_format {packed.input_format!r}"
        raise bad(f"qkv has shape {tuple(qkv.shape)}", accepted)
    if qkv.shape[-1] % packed.heads:
        accepted = f"a last dimension of {packed.heads} heads, {packed.num_heads} of q and "
        accepted += f"{packed.num_kv_heads} each of k and v"
        raise bad(f"qkv has shape {tuple(qkv.shape)}", accepted)


def check_projection_call(call: Call) -> int | None:
    """Check all else about a call that splits a projection but the values of its tensors.

    Returns and raises as `check_call`.
    """
    return check_call(call)
