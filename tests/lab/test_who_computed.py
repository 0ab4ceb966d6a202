"""A right result is not enough: the kernel has to compute it, so what PyTorch does is told."""

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton")

import triton
import triton.language as tl

import rope_lab as lab
from rope_lab.judge import definitions
from rope_lab.judge.spec import STRIDED, spec

pytestmark = pytest.mark.usefixtures("kept_here")


@spec(leave_out=(*STRIDED, "bfloat16"), kernel=True)  # whose atomics aren't interpreted
def waves(x: "(n,)", w: "(n,)"):  # noqa: F821
    return w * torch.sin(x)


@spec(kernel=True, overwrites=("x",))
def doubled(x: "(n,)"):  # noqa: F821
    return 2 * x


@triton.jit
def wave_kernel(x_ptr, w_ptr, place_ptr, out_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """Right, with a table of where the elements are; if it adds, where the output holds zeros."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = i
    if HOW == "picks":
        place = tl.load(place_ptr + i, i < n, other=0)
    x = tl.load(x_ptr + place, i < n).to(tl.float32)
    w = tl.load(w_ptr + place, i < n)
    if HOW == "multiplies":  # by sines that others took
        tl.store(out_ptr + i, w * x, i < n)
    elif HOW == "adds":
        tl.atomic_add(out_ptr + i, (w * tl.sin(x)).to(out_ptr.dtype.element_ty), i < n)
    else:
        tl.store(out_ptr + i, w * tl.sin(x), i < n)


@triton.jit
def copying_kernel(x_ptr, w_ptr, place_ptr, out_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n), i < n)


@triton.jit
def doubling_kernel(x_ptr, stride, n, NEIGHBOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i * stride, 2 * tl.load(x_ptr + i * stride, i < n), i < n)
    if NEIGHBOR:
        tl.store(x_ptr - 1, 0.0)


def right(x, w, place=None, out=None, how="", kernel=wave_kernel, n=None):
    """`out`, or a tensor like x, of which each program fills a block."""
    out = torch.empty_like(x) if out is None else out
    place = x if place is None else place
    grid = (triton.cdiv(out.numel() if n is None else n, 1024),)
    kernel[grid](x, w, place, out, out.numel(), HOW=how, BLOCK=1024)
    return out


def product(sine, w):
    return right(sine, w, how="multiplies")


def waved(x, w):
    """All of it, by PyTorch."""
    return (w.float() * x.float().sin()).to(x.dtype)


def put_into_a_buffer(x, w):
    sine = torch.zeros_like(x)
    sine[:] = torch.sin(x)
    return product(sine, w)


def reversed_by_pytorch(x, w):
    places = torch.arange(len(x) - 1, -1, -1, device=x.device)
    return right(x.flip(0), w.flip(0), places, torch.empty_like(x), how="picks")


def converted(x, w):
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    return right(x, w, out=out).to(x.dtype)


def in_place_by_pytorch(x):
    x.copy_(2 * x)
    right(x, x, out=x, kernel=copying_kernel)


def in_place_with_its_neighbor(x):
    others = {"NEIGHBOR": x.storage_offset() > 0, "BLOCK": 4096}
    doubling_kernel[(1,)](x, x.stride(0), len(x), **others)


PART = "a part of the work is done outside the kernel: PyTorch runs "
NOT_BY_THE_KERNEL = "PyTorch wrote the result: your kernel ran, and stored nothing in it"
AROUND = "an input is overwritten: x, between its elements or around them"
WRONG = {  # the candidate, words of its verdict, and the first case that is wrong
    "sines before": (lambda x, w: product(x.sin(), w), f"{PART}sin; let the kernel do it"),
    "all of it before": (lambda x, w: right(waved(x, w), w, kernel=copying_kernel), f"{PART}sin"),
    "in a buffer": (put_into_a_buffer, f"{PART}sin"),
    "between two launches": (
        lambda x, w: product(2 * right(x, w), torch.full_like(w, 0.5)),
        f"{PART}mul",
    ),
    "afterwards": (lambda x, w: right(x, 0.5 * w).mul_(2), f"{PART}mul"),
    "a copy afterwards": (lambda x, w: torch.empty_like(x).copy_(right(x, w)), NOT_BY_THE_KERNEL),
    "a conversion": (converted, NOT_BY_THE_KERNEL, "half precision"),
    "in a later case": (
        lambda x, w: right(x, w) if len(x) <= 64 else product(x.sin(), w),
        f"{PART}sin",
        "sizes that no block divides",
    ),
    "a copy before": (lambda x, w: right(x.clone(), w), f"{PART}clone or contiguous"),
    "another order": (reversed_by_pytorch, f"{PART}flip"),
    "wider elements": (
        lambda x, w: right(x.to(torch.float32), w, out=torch.empty_like(x)),
        f"{PART}to or float",
        "half precision",
    ),
    "in place": (in_place_by_pytorch, f"{PART}mul"),
    "a neighbor": (in_place_with_its_neighbor, AROUND, "a slice of wider rows"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_pytorch_does_is_wrong_and_named(what):
    candidate, told, *case = WRONG[what]
    wanted = doubled if what in ("in place", "a neighbor") else waves
    verdict = lab.check_exercise(candidate, wanted)
    assert verdict.state == "wrong" and told in verdict.reason, verdict
    assert verdict.cases.wrong == (case or ["small and plain"])[0], verdict


def of_views(x, w):
    out = x.new_zeros(x.shape)[None].transpose(0, 1).squeeze(1)
    return right(x[None].detach().flatten(), w.unsqueeze(0).view(-1), out=out)


def with_an_assertion(x, w):
    assert torch.isfinite(x).all() and x.abs().max() < 1e4 and (w * w).sum() >= 0
    return right(x, w)


def with_a_computed_grid(x, w):
    places = torch.arange(len(x), device=x.device)
    return right(x, w, n=int((places[1:] - places[:-1]).sum()) + 1)


def by_atomics(x, w):
    return right(x, w, out=torch.zeros_like(x), how="adds")


FREE = (right, of_views, by_atomics, with_an_assertion, with_a_computed_grid)


@pytest.mark.parametrize("candidate", FREE, ids=lambda candidate: candidate.__name__)
def test_views_allocations_and_constants_need_no_word(candidate):
    verdict = lab.check_exercise(candidate, waves)
    assert verdict and not verdict.remark, verdict


def test_no_time_is_credited_to_pytorchs_work():
    def all_in_pytorch(t, freqs, out=None):
        return right(definitions.rope.function(t, freqs), t, out=out, kernel=copying_kernel)

    verdict = lab.check_rung(1, all_in_pytorch)
    assert verdict.state == "wrong" and not verdict.climb.speed and PART in repr(verdict), verdict
