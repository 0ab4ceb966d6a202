"""Projections of every packing, format and layout, and their heads taken out one by one."""

import torch

from inputs import contiguous
from yardstick import TO_BSHD

HEADS, KV_HEADS, D, S, B = 6, 3, 20, 7, 2
SHAPES = {"sbhd": (S, B), "bshd": (B, S), "thd": (S * B,)}
PACKINGS = "qkv", "grouped"


def projection(tensor_format, dtype, device, layout=contiguous, d=D):
    return layout((*SHAPES[tensor_format], (HEADS + 2 * KV_HEADS) * d), dtype, device)


def heads_of(qkv, packing, d=D):
    """q, k and v in the projection's format, head by head as the definition has them."""
    heads = list(qkv.split(d, dim=-1))
    if packing == "qkv":
        q, k, v = heads[:HEADS], heads[HEADS : HEADS + KV_HEADS], heads[HEADS + KV_HEADS :]
    else:
        q, k, v = [], [], []
        while heads:
            for _ in range(HEADS // KV_HEADS):
                q.append(heads.pop(0))
            k.append(heads.pop(0))
            v.append(heads.pop(0))
    return tuple(torch.stack(x, dim=-2) for x in (q, k, v))


def in_format(x, tensor_format, output_format):
    """The same rows in another format; packed tokens are a batch of one."""
    if tensor_format == output_format:
        return x
    x = x[None] if tensor_format == "thd" else x.permute(TO_BSHD[tensor_format])
    return x.permute([TO_BSHD[output_format].index(dim) for dim in range(4)])


def formats(inputs=tuple(SHAPES)):
    """Every legal pair of an input's and an output's format."""
    dense = "sbhd", "bshd", "bhsd"
    return [(x, y) for x in inputs for y in (*dense, *(["thd"] if x == "thd" else []))]
