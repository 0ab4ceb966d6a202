"""Random tensors in every memory layout that a caller may hand over."""

from contextlib import contextmanager

import torch

SHAPES = {  # (s, b, h, d) in each format: nothing here is divided by a block
    "sbhd": lambda s, b, h, d: (s, b, h, d),
    "bshd": lambda s, b, h, d: (b, s, h, d),
    "bhsd": lambda s, b, h, d: (b, h, s, d),
    "thd": lambda s, b, h, d: (s * b, h, d),
}

FORMATS = tuple(SHAPES)


def shape_of(tensor_format, s, b, h, d):
    return SHAPES[tensor_format](s, b, h, d)


def sequence_starts(tensor_format, s, b, device, dtype=torch.int32):
    """cu_seqlens of unequal, partly empty sequences with padding behind them; None if dense."""
    if tensor_format != "thd":
        return None
    tokens = s * b
    starts = [
        0,
        tokens // 3,
        tokens // 3,
        min(tokens, tokens // 3 + 1),
        tokens - min(2, tokens // 2),
    ]
    return torch.tensor(starts, dtype=dtype, device=device)


def angles(positions, rotary_dim, device, dtype=torch.float32):
    """Angles whose two halves differ, so that a kernel which reads one half only is found out."""
    return 10 * torch.randn(positions, 1, 1, rotary_dim, device=device, dtype=dtype)


def contiguous(shape, dtype, device):
    return torch.randn(shape, dtype=dtype, device=device)


def transposed(shape, dtype, device):
    """The first two dimensions swapped in memory."""
    return contiguous((shape[1], shape[0], *shape[2:]), dtype, device).transpose(0, 1)


def head_dim_strided(shape, dtype, device):
    """The last two dimensions swapped in memory: neighbors in d lie far apart."""
    return contiguous((*shape[:-2], shape[-1], shape[-2]), dtype, device).transpose(-1, -2)


def sliced_with_offset(shape, dtype, device):
    """A slice out of something larger in every dimension, not starting at its first element."""
    larger = contiguous([n + 3 for n in shape], dtype, device)
    return larger[tuple(slice(1, n + 1) for n in shape)]


def packed_qkv(shape, dtype, device):
    """The middle third of a projection that holds q, k and v side by side."""
    qkv = contiguous((*shape[:-1], 3 * shape[-1]), dtype, device)
    return qkv.chunk(3, dim=-1)[1]


def expanded_scalar(shape, dtype, device):
    """All strides 0, as the gradient of `.sum()` arrives."""
    return contiguous((), dtype, device).expand(shape)


def expanded_heads(shape, dtype, device):
    """One head repeated with stride 0 (the head dimension is the last but one)."""
    return contiguous((*shape[:-2], 1, shape[-1]), dtype, device).expand(shape)


def negative_view(shape, dtype, device):
    """An imaginary part of a conjugate: its minus sign is noted, not stored. (No bf16, no fp16.)"""
    if dtype not in (torch.float32, torch.float64):
        return contiguous(shape, dtype, device)
    return torch.view_as_complex(contiguous((*shape, 2), dtype, device)).conj().imag


LAYOUTS = {
    layout.__name__: layout
    for layout in (
        contiguous,
        transposed,
        head_dim_strided,
        sliced_with_offset,
        packed_qkv,
        expanded_scalar,
        expanded_heads,
        negative_view,
    )
}


def zeros_of_forward_mode(x):
    return torch._efficientzerotensor(x.shape, dtype=x.dtype, device=x.device)


def functional(x):
    return torch._to_functional_tensor(torch.zeros_like(x))


ADDRESSLESS = (zeros_of_forward_mode, functional)  # of PyTorch's own class, and with elements

# What new tensors are where a program doesn't say it: dtype, device
OTHER_DEFAULTS = ((torch.float64, "cpu"), (torch.bfloat16, "cpu"), (torch.float32, "meta"))


@contextmanager
def other_defaults(dtype, device):
    """As within `torch.set_default_dtype` and `torch.set_default_device`."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(before)
