"""How a checked call is computed, and what autograd and torch.compile do with it.

A rotation is a linear map y = A t, where A depends on the angles only. So the gradient is A^T grad,
the gradient's gradient is A again, and nothing of `t` is saved: one kernel, with a flag.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields

import torch
from torch import Tensor

from . import launch, reference
from .check_call import check_values
from .launch import Known, known_of
from .modes import apply_without_functorch, is_watched, wants_grad
from .overwritten import check_inplace
from .rotation import NAMES, TENSORS, Rotation, seq_len_of
from .ways import Way, way_of


def rotate(
    tensors: tuple[Tensor, ...],
    rotation: Rotation,
    fused: bool = True,
    inplace: bool = False,
    known: Known | None = None,
    ways: Counter[Way] | None = None,
) -> tuple[Tensor, ...]:
    """Rotate the tensors of a checked call, in the way that `way_of` finds."""
    path, recorded = way_of(fused, tensors, rotation, known, ways=ways).path, wants_grad(tensors)
    if path == "kernel":
        if recorded:
            outs = _record(*launch.pair(tensors), rotation, inplace, known)
            return tensors if inplace else outs
        outs = launch.rotate(tensors, rotation, inplace, known)
        if inplace:
            count_as_written(outs)
        return outs
    # PyTorch counts what an operator of ours overwrites before a mode sees it, which then takes the
    # tensor for another one than the one that was saved. So modes see a copy of PyTorch's.
    if path == "operator" and inplace and not recorded and not is_watched():
        _rotate_inplace_op(list(tensors), *values_of(rotation))
        return tensors
    if path == "operator":
        outs = tuple(_rotate_op(list(tensors), *values_of(rotation)))
    else:
        outs = reference.rotate(tensors, rotation)
    if not inplace:
        return outs
    where = -1, rotation.rotary_start, rotation.rotary_dim
    for t, out in zip(tensors, outs, strict=True):  # no operator in place has a backward
        if is_watched():
            t.copy_(out)  # a mode may know what was saved by the address of its first element
        else:
            t.narrow(*where).copy_(out.narrow(*where))
    return tensors


def count_as_written(tensors: Sequence[Tensor]) -> None:
    """Tell autograd what a kernel has overwritten, so that it refuses a backward that needs it."""
    torch.autograd.graph.increment_version([t for t in tensors if not t.is_inference()])


class RotationFunction(torch.autograd.Function):
    """For eager calls. Its backward is a call of its own: it may be traced, or differentiated."""

    @staticmethod
    def forward(ctx, q, k, rotation, inplace, known):
        tensors = (q,) if k is None else (q, k)
        if inplace:
            ctx.mark_dirty(*tensors)
        outs = launch.rotate(tensors, rotation, inplace, known)
        keep_rotation(ctx, tensors, outs, rotation)
        return outs

    @staticmethod
    def backward(ctx, *grads):
        found = _gradients(ctx, grads, ctx.needs_input_grad)
        return *(*found, None)[:2], None, None, None


_record = apply_without_functorch(RotationFunction)


def keep(ctx, rotation: Rotation, beside: Sequence = (), frozen: Sequence[Tensor] = ()) -> None:
    """Save a rotation and what a backward reads beside it. `frozen` outputs have no gradient."""
    ctx.save_for_backward(*rotation.tensors, *beside)
    ctx.options, ctx.first_position = rotation.options, rotation.first_position
    ctx.set_materialize_grads(False)
    if frozen:
        ctx.mark_non_differentiable(*frozen)


def kept(ctx) -> tuple[Rotation, Sequence[Tensor | None]]:
    """What `keep` has saved. A checkpoint lets `ctx.saved_tensors` be read once."""
    saved = ctx.saved_tensors
    return Rotation(*saved[:TENSORS], *ctx.options, ctx.first_position), saved[TENSORS:]


def keep_rotation(ctx, tensors: Sequence, outs: Sequence, rotation: Rotation) -> None:
    """Keep nothing of the rotated tensors."""
    pairs = zip(tensors, outs, strict=True)
    keep(ctx, rotation, (), [out for t, out in pairs if not t.requires_grad])


def _gradients(ctx, grads: Sequence[Tensor | None], wanted: Sequence[bool]) -> list[Tensor | None]:
    """The gradients of what was rotated, as far as they are wanted."""
    rotation = kept(ctx)[0]  # a new one
    rotation.transpose = not rotation.transpose
    asked = [i for i, grad in enumerate(grads) if grad is not None and wanted[i]]
    found: list[Tensor | None] = [None] * len(grads)
    if asked:
        given = tuple([grads[i] for i in asked])
        rotated = rotate(given, rotation, known=known_of(given, rotation))
        for i, gradient in zip(asked, rotated, strict=True):
            found[i] = gradient
    return found


def gradients_by_pytorch(
    function: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """The gradients as PyTorch computes them: differentiable once more, and in batches.

    Args:
        function: of the inputs.
        inputs: None comes back for those that require no gradient.
        grads: of its outputs; None of those that are None, and of what nobody used.
    """
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # one may be computed from another: a view of its own ends each path
        given = [None if x is None else x.view_as(x) for x in inputs]
        outs = function(*given)
    asked = [x is not None and x.requires_grad for x in given]
    wanted = [x for x, is_asked in zip(given, asked, strict=True) if is_asked]
    pairs = zip(outs, grads, strict=True)
    pairs = [(out, grad) for out, grad in pairs if grad is not None and out.requires_grad]
    outs, grads = ([pair[i] for pair in pairs] for i in (0, 1))
    options = {"create_graph": create_graph, "allow_unused": True}
    found = iter(torch.autograd.grad(outs, wanted, grads, **options))
    return [next(found) if is_asked else None for is_asked in asked]


# For torch.compile, which does not look into an operator. A functional one carries its own
# backward. An `autograd.Function` will not do under a trace: Dynamo traces through it, and then
# saves no versions, so that a tensor which is overwritten between forward and backward gives wrong
# gradients silently (seen with torch 2.11 and 2.13).

_TYPES = {Tensor: "Tensor", str: "str", bool: "bool", float: "float", int: "SymInt"}
_TYPES |= {Tensor | None: "Tensor?", int | None: "SymInt?", str | None: "str?"}
ROTATION = ", ".join([f"{_TYPES[field.type]} {field.name}" for field in fields(Rotation)])
NAMESPACE = __name__.partition(".")[0]  # a copy of the package has operators of its own


def operator(name: str, arguments: str, mutates: Sequence[str] = ()) -> Callable:
    """Declare a function as an operator. One that overwrites what is given returns nothing."""
    schema = f"({arguments}) -> {'()' if mutates else 'Tensor[]'}"
    return torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=mutates, schema=schema)


def values_of(rotation: Rotation) -> list:
    """The fields of a rotation, as arguments of an operator."""
    return [getattr(rotation, name) for name in NAMES]  # Dynamo can't trace an attrgetter


def _run(tensors: Sequence[Tensor], rotation: Rotation, inplace: bool) -> list[Tensor]:
    """What was not known when PyTorch traced the call is checked now, and then it is launched."""
    tensors = tuple(tensors)
    if inplace:
        check_inplace(tensors, rotation)
    check_values(rotation, seq_len_of(tensors[0], rotation.tensor_format))
    return list(launch.rotate(tensors, rotation, inplace, known_of(tensors, rotation, inplace)))


@operator("rotate", f"Tensor[] tensors, {ROTATION}")
def _rotate_op(tensors, *values):
    return _run(tensors, Rotation(*values), inplace=False)


@operator("rotate_inplace", f"Tensor(a!)[] tensors, {ROTATION}", ["tensors"])
def _rotate_inplace_op(tensors, *values):
    _run(tensors, Rotation(*values), inplace=True)


@_rotate_op.register_fake
def _(tensors, *values):
    return list(Rotation(*values).memory_for(tensors))


def _keep_inputs(ctx, inputs, output):
    tensors, *values = inputs
    keep_rotation(ctx, tensors, output, Rotation(*values))


def _backward(ctx, grads):
    found = _gradients(ctx, grads, ctx.needs_input_grad[0])
    return found, *[None] * len(NAMES)


_rotate_op.register_autograd(_backward, setup_context=_keep_inputs)
