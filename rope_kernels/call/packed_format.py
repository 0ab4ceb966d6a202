"""How a projection packs queries, keys and values into one dimension, and what comes out of it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from .formats import view_as_sbhd, view_from_sbhd

Packing = Literal["qkv", "grouped"]
PACKINGS: tuple[str, ...] = get_args(Packing)
PACKED_FORMATS = "sbhd", "bshd", "thd"  # h and d are one dimension there

Rows = tuple[Tensor, Tensor, Tensor]  # of q, of k, and of v


class PackedFormat(NamedTuple):
    """The order of heads in a projection, and the formats of what goes in and comes out.

    'qkv' has all heads of q, then those of k, then those of v. 'grouped' has for each head of k:
    the heads of q that share it, it, and its head of v.
    """

    num_heads: int
    num_kv_heads: int
    packing: str
    input_format: str
    output_format: str

    @property
    def heads(self) -> int:
        """Of q, k and v."""
        return self.num_heads + 2 * self.num_kv_heads

    @property
    def group(self) -> int:
        """Heads of q between which a head of k and one of v lie; 0: none do."""
        return 0 if self.packing == "qkv" else self.num_heads // self.num_kv_heads

    def slices(self, qkv: Tensor) -> Rows:
        """Views of q, k and v in the projection's format, in which h and d are dimensions again.

        Of 'grouped' that of q has its shape, strides and first elements, but not all of its heads:
        `row_pointers` of the kernels steps over those of k and v.
        """
        h, kv, group = self.num_heads, self.num_kv_heads, self.group
        x = qkv.view(*qkv.shape[:-1], self.heads, qkv.shape[-1] // self.heads)
        if group:
            step = group + 2
            return x[..., :h, :], x[..., group::step, :], x[..., group + 1 :: step, :]
        return x.split_with_sizes((h, kv, kv), -2)

    def views(self, qkv: Tensor) -> Rows:
        """The same as (s, b, h, d)."""
        return tuple([view_as_sbhd(x, self.input_format) for x in self.slices(qkv)])

    def rows(self, qkv: Tensor) -> Rows:
        """q, k and v themselves, (s, b, h, d); of 'grouped' q is a copy."""
        q, k, v = self.views(qkv)
        if self.group:
            x = qkv.unflatten(-1, (self.num_kv_heads, self.group + 2, -1))
            q = view_as_sbhd(x[..., : self.group, :].flatten(-3, -2), self.input_format)
        return q, k, v

    def outputs(self, qkv: Tensor) -> Rows:
        """Empty memory for q, k and v in the output's format."""
        sizes = dict(zip(self.input_format, qkv.shape, strict=False))
        if self.input_format == "thd":
            sizes |= {"s": sizes["t"], "b": 1}
        sizes |= {"h": self.heads, "d": qkv.shape[-1] // self.heads}
        shape, h = [sizes[dim] for dim in self.output_format], self.output_format.index("h")
        outs = []
        for shape[h] in (self.num_heads, self.num_kv_heads, self.num_kv_heads):
            outs.append(torch.empty(shape, dtype=qkv.dtype, device=qkv.device))
        return tuple(outs)

    def gradient(self, grads: Sequence[Tensor]) -> Tensor:
        """Empty memory for that of a projection, from those of q, k and v."""
        s, b, _, d = view_as_sbhd(grads[0], self.output_format).shape
        sizes = {"s": s, "t": s, "b": b}
        shape = *[sizes[dim] for dim in self.input_format[:-2]], self.heads * d
        return torch.empty(shape, dtype=grads[0].dtype, device=grads[0].device)

    def returned(self, rows: Rows) -> Rows:
        """Rows (s, b, h, d) in the output's format, contiguous; v, which nothing turned, is new."""
        q, k, v = [view_from_sbhd(x, self.output_format) for x in rows]
        return q.contiguous(), k.contiguous(), v.clone(memory_format=torch.contiguous_format)

    def seen(self, outs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Outputs, or their gradients, as (s, b, h, d)."""
        return tuple([view_as_sbhd(x, self.output_format) for x in outs])
