"""Functions whose result is right and that leave work to PyTorch.

All compute `w * sin(x)`, element by element. `test_who_computed.py` has them judged.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def wave_kernel(x_ptr, w_ptr, out_ptr, n, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    """Right; if it ADDS, where the output holds zeros."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(w_ptr + i, i < n) * tl.sin(tl.load(x_ptr + i, i < n).to(tl.float32))
    if ADDS:
        tl.atomic_add(out_ptr + i, y.to(out_ptr.dtype.element_ty), i < n)
    else:
        tl.store(out_ptr + i, y, i < n)


@triton.jit
def product_kernel(sine_ptr, w_ptr, out_ptr, n, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    """Of sines that others took."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(w_ptr + i, i < n) * tl.load(sine_ptr + i, i < n), i < n)


@triton.jit
def picking_kernel(x_ptr, w_ptr, place_ptr, out_ptr, n, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    """Right, with a table of where the elements are."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(place_ptr + i, i < n, other=0)
    x = tl.load(x_ptr + place, i < n).to(tl.float32)
    tl.store(out_ptr + i, tl.load(w_ptr + place, i < n) * tl.sin(x), i < n)


@triton.jit
def copying_kernel(x_ptr, out_ptr, n, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n), i < n)


@triton.jit
def doubling_kernel(x_ptr, stride, n, NEIGHBOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i * stride, 2 * tl.load(x_ptr + i * stride, i < n), i < n)
    if NEIGHBOR:
        tl.store(x_ptr - 1, 0.0)


def by(kernel, *tensors, out=None, adds=False):
    """`out`, or a tensor like the first, of which each program of a kernel fills a block."""
    out = torch.empty_like(tensors[0]) if out is None else out
    n = out.numel()
    kernel[(triton.cdiv(n, 1024),)](*tensors, out, n, ADDS=adds, BLOCK=1024)
    return out


def waved(x, w):
    """All of it, by PyTorch."""
    return (w.float() * x.float().sin()).to(x.dtype)


# before the launch


def sines_in_pytorch(x, w):
    return by(product_kernel, x.sin(), w)


def all_in_pytorch(x, w):
    return by(copying_kernel, waved(x, w))


def sines_of_many_in_pytorch(x, w):
    return right(x, w) if len(x) <= 64 else sines_in_pytorch(x, w)


def put_into_a_buffer(x, w):
    sine = torch.zeros_like(x)
    sine[:] = torch.sin(x)
    return by(product_kernel, sine, w)


# after the launch


def doubled_afterwards(x, w):
    return right(x, 0.5 * w).mul_(2)


def doubled_between(x, w):
    return by(product_kernel, 2 * by(wave_kernel, x, w), torch.full_like(w, 0.5))


def in_place_by_pytorch(x):
    x.copy_(2 * x)
    by(copying_kernel, x, out=x)


def in_place_with_its_neighbor(x):
    others = {"NEIGHBOR": x.storage_offset() > 0, "BLOCK": 4096}
    doubling_kernel[(1,)](x, x.stride(0), len(x), **others)


def converted(x, w):
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    return by(wave_kernel, x, w, out=out).to(x.dtype)


def put_elsewhere(x, w):
    return torch.empty_like(x).copy_(right(x, w))


# copies


def of_a_copy(x, w):
    return right(x.clone(), w)


def reversed_by_pytorch(x, w):
    places = torch.arange(len(x) - 1, -1, -1, device=x.device)
    return by(picking_kernel, x.flip(0), w.flip(0), places, out=torch.empty_like(x))


def of_wide_elements(x, w):
    return by(wave_kernel, x.to(torch.float32), w, out=torch.empty_like(x))


# nothing is to be said about these


def right(x, w):
    return by(wave_kernel, x, w)


def of_views(x, w):
    out = x.new_zeros(x.shape)[None].transpose(0, 1).squeeze(1)
    return by(wave_kernel, x[None].detach().flatten(), w.unsqueeze(0).view(-1), out=out)


def by_atomics(x, w):
    return by(wave_kernel, x, w, out=torch.zeros_like(x), adds=True)


def with_an_assertion(x, w):
    assert torch.isfinite(x).all() and x.abs().max() < 1e4 and (w * w).sum() >= 0
    return right(x, w)


def with_a_computed_grid(x, w):
    places = torch.arange(len(x), device=x.device)
    out, n = torch.empty_like(x), int((places[1:] - places[:-1]).sum()) + 1
    wave_kernel[(triton.cdiv(n, 1024),)](x, w, out, len(x), ADDS=False, BLOCK=1024)
    return out
