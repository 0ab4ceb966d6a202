"""What `norm_rope` should give: fp64, written apart from the package, by the definition."""

from functools import partial

import torch

from yardstick import rotate_fp64


def norm_rope_fp64(
    t,
    weight,
    freqs,
    tensor_format,
    *,
    eps=1e-6,
    weight_offset=0.0,
    norm_after=False,
    **options,
):
    """RMS norm and RoPE by their definitions, in fp64, differentiable in every tensor."""
    rotate = partial(rotate_fp64, freqs=freqs, tensor_format=tensor_format, **options)
    x = t.double()
    x = rotate(x) if norm_after else x
    x = x * rstd_fp64(x, eps)
    if weight is not None:
        x = x * (weight_offset + weight.double())
    return x if norm_after else rotate(x)


def rstd_fp64(x, eps=1e-6):
    """1 / rms of each row, (..., 1)."""
    return (x.double().square().mean(-1, keepdim=True) + eps) ** -0.5


def most_of_row(x):
    return x.detach().double().abs().amax(-1, keepdim=True)


def assert_as_in_new_memory(out, want):
    """The same bits; on a GPU, where memory may decide in which order squares are added, nearly.

    Rows apart from each other, or at odd addresses, are loaded in other pieces than those of a new
    tensor, and so are rows in another tile.
    """
    if out.is_cuda:
        assert_added_otherwise(out, want)
    else:
        assert torch.equal(out, want)


def assert_added_otherwise(out, want):
    """The same but for the order of sums: 1 / rms differs by a bit or two, and so does its row."""
    of_dtype = torch.finfo(out.dtype)
    allowed = 4 * of_dtype.eps * (most_of_row(want.nan_to_num()) + of_dtype.smallest_normal)
    same = (out == want) | (out.isnan() & want.isnan()) | ((out - want).abs() <= allowed)
    assert same.all(), f"{(~same).sum()} of {same.numel()} elements differ"
