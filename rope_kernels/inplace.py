"""Checks of memory that a call overwrites, before anything is written.

A kernel would silently overwrite elements that other tensors of the call share. So tensors that may
share memory are refused, and tensors whose overwriting autograd forbids.
"""

from functools import lru_cache
from itertools import chain, combinations

import torch
from torch import Tensor

from .checks import Named, bad, names_of
from .paths import (
    ORDINARY,
    base_of,
    creation_of,
    has_values,
    is_in_torch_func,
    is_traced,
    wants_grad,
)
from .rotation import Rotation

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # A tensor's sizes and strides.


def check_inplace(tensors: tuple[Tensor, ...], rotation: Rotation, others: Named = ()) -> None:
    """Raise `ValueError` if the tensors can't be overwritten.

    `others` are further tensors that the call reads, besides those of the rotation.
    """
    if wants_grad((rotation.table, rotation.sin)):
        raise bad("freqs requires a gradient with inplace=True", "tables after detach()")
    if is_traced():  # PyTorch checks gradients, and the operator calls this again when it runs.
        return
    names = names_of(tensors, rotation.transpose)
    recorded = wants_grad(tensors)
    transformed = is_in_torch_func()  # Then PyTorch's `copy_` overwrites, not the kernel.
    for name, t in zip(names, tensors, strict=True):
        if recorded:
            _check_autograd(name, t, alone=len(tensors) == 1, transformed=transformed)
        if not transformed:
            check_overwritten(name, t)
    if transformed:
        return
    try:
        accepted = "with inplace=True separate memory, such as {other}.clone()"
        check_apart(zip(names, tensors, strict=True), named_tensors(rotation, others), accepted)
    except RuntimeError:  # Batches of vmap, and subclasses without memory, have no address.
        return


def _check_autograd(name: str, t: Tensor, alone: bool, transformed: bool) -> None:
    base = base_of(t)
    owner = t if base is None else base
    if (t.is_leaf and t.requires_grad) or (owner.is_leaf and owner.requires_grad):
        came = f"{name} is a leaf that requires a gradient, or a view of one"
        raise bad(came, _cloned(name))
    if base is None or transformed:
        return
    if not alone or creation_of(t) != ORDINARY:
        accepted = f"{_cloned(name)}, or one slice per call, not made by chunk or split"
        raise bad(f"{name} is a view that autograd cannot overwrite", accepted)


def _cloned(name: str) -> str:
    return f"with inplace=True another tensor, such as {name}.clone()"


def named_tensors(rotation: Rotation, others: Named = ()) -> Named:
    """The tensors of a rotation, with the names of their arguments, followed by `others`."""
    table = "freqs" if rotation.sin is None else "freqs[0]"
    names = table, "freqs[1]", "cu_seqlens", "start_positions", "position_ids"
    return chain(zip(names, rotation.tensors, strict=True), others)


def check_overwritten(name: str, x: Tensor, accepted: str = "") -> None:
    """Raise `ValueError` if `x` itself can't be overwritten, whatever the other tensors are."""
    if x.is_inference() and not torch.is_inference_mode_enabled():
        came = f"{name} is an inference tensor outside inference mode"
    elif x.is_contiguous() or not layout_of(x.shape, x.stride())[0]:
        return
    else:
        came = f"{name} is a view whose elements may overlap, with strides {x.stride()}"
    raise bad(came, accepted or _cloned(name))


def check_apart(
    written: Named, read: Named, accepted: str = "separate memory, or slices of one tensor"
) -> None:
    """Raise `ValueError` if a written tensor shares an element with another tensor of the call."""
    places = [(name, x, *_memory_of(x)) for name, x in written if x is not None]
    for name, x, start, _ in places:
        if not start:
            _check_memory(name, x)
    for other, y in read:
        if y is None:
            continue
        low = y.data_ptr()
        if not low:
            _check_memory(other, y)
        for name, x, start, end in places:
            # This runs in every call in place. Most tensors are elsewhere, so test that first.
            if start and 0 < low < end and start < _memory_of(y)[1] and not _are_neighbors(x, y):
                raise bad(f"{other} shares memory with {name}", accepted.format(other=other))
    for (other, y, low, high), (name, x, start, end) in combinations(places, 2):
        if 0 < start < high and 0 < low < end and not _are_neighbors(x, y):
            raise bad(f"{name} shares memory with {other}", accepted.format(other=name))


def _check_memory(name: str, x: Tensor) -> None:
    """Raise `ValueError` for a tensor that has elements but no address.

    PyTorch's own error would come too late, after other tensors have been written.
    """
    if x.numel() and has_values(x):
        accepted = f"a tensor with memory, such as {name}.clone()"
        raise bad(f"{name} has elements but no memory", accepted)


def _memory_of(x: Tensor) -> tuple[int, int]:
    """The address of a tensor's first element, or 0 without memory, and the end of its last one."""
    start = x.data_ptr()
    if x.is_contiguous():
        return start, start + x.nbytes
    return start, start + layout_of(x.shape, x.stride())[1] * x.element_size()


@lru_cache(4096)
def layout_of(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[bool, int]:
    """Whether elements may overlap, and the span from the first to the last, in elements.

    Elements can't overlap if each stride is larger than the span of all smaller ones. A few tensors
    fail this test although their elements don't overlap; they count as overlapping, too.
    """
    if 0 in sizes:
        return False, 0
    overlaps, reach = False, 1
    for stride, n in sorted(zip(strides, sizes, strict=True)):
        overlaps = overlaps or (n > 1 and stride < reach)
        reach += stride * (n - 1)
    return overlaps, reach


def _are_neighbors(x: Tensor, y: Tensor) -> bool:
    """Whether these are slices of one packed tensor, such as qkv, without a common element."""
    if x.dim() != y.dim() or x.dtype != y.dtype:
        return False
    first, second = (x, y) if x.data_ptr() <= y.data_ptr() else (y, x)
    distance, rest = divmod(second.data_ptr() - first.data_ptr(), x.element_size())
    of_first, of_second = (first.shape, first.stride()), (second.shape, second.stride())
    return rest == 0 and _are_apart(of_first, of_second, distance)


@lru_cache(4096)
def _are_apart(first: Layout, second: Layout, distance: int) -> bool:
    """Whether two slices follow each other along one dimension, `distance` elements apart.

    Then they share no element, if the slice that contains both doesn't overlap itself.
    """
    first_sizes, first_strides = first
    second_sizes, second_strides = second
    dims = list(zip(first_sizes, first_strides, second_sizes, second_strides, strict=True))
    if any(n > 1 and m > 1 and stride != other for n, stride, m, other in dims):
        return False
    # The stride of a dimension of size 1 has no meaning, so take the other tensor's.
    common = [stride if n > 1 else other for n, stride, _, other in dims]
    for dim, stride in enumerate(common):
        if stride and distance % stride == 0 and distance // stride >= first_sizes[dim]:
            both = [max(n, m) for n, _, m, _ in dims]
            both[dim] = distance // stride + second_sizes[dim]
            if not layout_of(tuple(both), tuple(common))[0]:
                return True
    return False
