"""Compute a checked call, with its derivatives for autograd and its operators for torch.compile.

A rotation is a linear map y = A t, where A depends only on the angles. So the gradient is A^T grad,
and its derivative is A again. One kernel with a flag computes both, and `t` isn't saved.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, get_type_hints

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from . import reference
from .check_call import check_values
from .inplace import check_inplace
from .launch import Known, known_of_rotation, memory_for, q_and_k, rotate_by_kernel
from .paths import (
    apply_without_functorch,
    is_watched,
    log_path,
    path_of,
    wants_grad,
    without_dynamo,
)
from .rotation import Options, Rotation, seq_len_of


def rotate_by_path(
    tensors: tuple[Tensor, ...],
    rotation: Rotation,
    fused: bool = True,
    inplace: bool = False,
    known: Known | None = None,
    function: str | None = None,
) -> tuple[Tensor, ...]:
    """Rotate the tensors of a checked call, on the path that `path_of` chooses.

    Returns new tensors, or with `inplace` the same ones.

    Args:
        tensors, rotation, fused, known: as in `path_of`.
        inplace: overwrite the tensors.
        function: the name to log if the call doesn't use the kernel. None, as in a backward:
            nothing is logged.
    """
    recorded = wants_grad(tensors)
    path = path_of(tensors, rotation, fused=fused, known=known)
    if path.by == "kernel":
        if recorded:
            q, k = q_and_k(tensors)
            outs = _record(q, k, rotation, inplace, known)
            return tensors if inplace else outs
        outs = rotate_by_kernel(tensors, rotation, inplace, known)
        if inplace:
            count_as_written(outs)
        return outs
    if function is not None:
        log_path(function, path)
    # PyTorch increments a tensor's version before a mode sees our in-place operator. The mode would
    # not recognize the tensor that it has saved. So under a mode, PyTorch's `copy_` writes instead.
    if path.by == "operator" and inplace and not recorded and not is_watched():
        _rotate_inplace_op(list(tensors), *values_of(rotation))
        return tensors
    if path.by == "operator":
        outs = tuple(_rotate_op(list(tensors), *values_of(rotation)))
    else:
        outs = reference.rotate(tensors, rotation)
    if not inplace:
        return outs
    # The in-place operator has no backward, and plain PyTorch returns new tensors: copy results.
    start, width = rotation.options.rotary_start, rotation.options.rotary_dim
    for t, out in zip(tensors, outs, strict=True):
        if is_watched():
            t.copy_(out)  # A mode may recognize a saved tensor by the address of element 0.
        else:
            t.narrow(-1, start, width).copy_(out.narrow(-1, start, width))
    return tensors


def count_as_written(tensors: Sequence[Tensor]) -> None:
    """Increment the versions of overwritten tensors, so that a backward that needs them raises.

    Inference tensors have no version.
    """
    torch.autograd.graph.increment_version([t for t in tensors if not t.is_inference()])


class Context(FunctionCtx):
    """Declares the attributes of the context that PyTorch passes from a forward to its backward."""

    options: Options
    first_position: int | None
    transpose: bool
    extra: object  # what a subpackage saves besides tensors
    saved_tensors: tuple[Tensor | None, ...]
    needs_input_grad: tuple[bool, ...]


class RotationFunction(torch.autograd.Function):
    """A rotation in an eager call that autograd records. Traces record an operator: see below.

    The backward is a separate call, which may be traced, or differentiated again.
    """

    @staticmethod
    def forward(
        ctx: Context,
        q: Tensor,
        k: Tensor | None,
        rotation: Rotation,
        inplace: bool,
        known: Known | None,
    ) -> tuple[Tensor, ...]:
        tensors = (q,) if k is None else (q, k)
        if inplace:
            ctx.mark_dirty(*tensors)
        outs = rotate_by_kernel(tensors, rotation, inplace, known)
        keep_rotation(ctx, tensors, outs, rotation)
        return outs

    @staticmethod
    def backward(ctx: Context, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        of_q, of_k = q_and_k(_gradients(ctx, grads, ctx.needs_input_grad))
        return of_q, of_k, None, None, None


_record = apply_without_functorch(RotationFunction)


def keep(
    ctx: Context,
    rotation: Rotation,
    others: Sequence[Tensor | None] = (),
    frozen: Sequence[Tensor] = (),
    extra: object = None,
) -> None:
    """Save a rotation, and what else the backward needs: other tensors, and `extra` values.

    `frozen` are the results that don't need a gradient.
    """
    table = rotation.table
    if rotation.options.on_the_fly:  # DistributedDataParallel writes to buffers in each forward.
        table = table.clone()
    ctx.save_for_backward(table, *rotation.tensors[1:], *others)  # type: ignore[arg-type]  # None
    ctx.options, ctx.first_position = rotation.options, rotation.first_position
    ctx.transpose = rotation.transpose
    ctx.extra = extra
    ctx.set_materialize_grads(False)
    if frozen:
        ctx.mark_non_differentiable(*frozen)


def kept(ctx: Context) -> tuple[Rotation, tuple[Tensor | None, ...]]:
    """What `keep` has saved. Call it once: a checkpoint allows one read of `ctx.saved_tensors`."""
    table, sin, cu_seqlens, starts, ids, *others = ctx.saved_tensors
    assert table is not None, "each rotation has a table"
    rotation = Rotation(
        table, sin, cu_seqlens, starts, ids, ctx.first_position, ctx.transpose, ctx.options
    )  # fmt: skip
    return rotation, tuple(others)


def keep_rotation(
    ctx: Context, tensors: Sequence[Tensor], outs: Sequence[Tensor], rotation: Rotation
) -> None:
    """Save only the rotation. The map is linear, so a backward doesn't need the tensors."""
    of_each = zip(tensors, outs, strict=True)
    keep(ctx, rotation, frozen=[out for t, out in of_each if not t.requires_grad])


def _gradients(
    ctx: Context, grads: Sequence[Tensor | None], wanted: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """The gradients of the rotated tensors; None for those that are not `wanted`."""
    rotation, _ = kept(ctx)
    # `wanted` has an item for each argument of the forward. The rotated tensors come first.
    asked = [grad if want else None for grad, want in zip(grads, wanted, strict=False)]
    given = tuple([grad for grad in asked if grad is not None])
    if not given:
        return (None,) * len(grads)
    back = rotation.transposed
    found = iter(rotate_by_path(given, back, known=known_of_rotation(given, back)))
    return tuple([None if grad is None else next(found) for grad in asked])


@without_dynamo  # Under compiled autograd, Dynamo would cut the graph between views and outputs.
def gradients_by_pytorch(
    function: Callable[..., Sequence[Tensor | None]],
    inputs: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Gradients computed by PyTorch, which can be differentiated again, and batched by vmap.

    Args:
        function: computes the outputs from the inputs, in plain PyTorch.
        inputs: for those that don't require a gradient, None is returned.
        grads: gradients of the outputs; None for an output that is None or was not used.

    Raises:
        RuntimeError: no input is connected to the outputs that were used.
    """
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # One input may have been computed from another. Differentiating with respect to views keeps
        # a gradient from flowing on from one input to the other.
        given = [None if x is None else x.view_as(x) for x in inputs]
        outs = function(*given)
    wanted = [x for x in given if x is not None and x.requires_grad]
    used = []
    for out, grad in zip(outs, grads, strict=True):
        if out is not None and grad is not None and out.requires_grad:
            used.append((out, grad))
    gradients = torch.autograd.grad(
        [out for out, _ in used],
        wanted,
        [grad for _, grad in used],
        create_graph=create_graph,
        allow_unused=True,
    )
    if used and all([x is None for x in gradients]):
        # Returning None for all would silently train nothing.
        cause = "a tracer may have cut the graph between them and the outputs"
        raise RuntimeError(f"no input that requires a gradient got one: {cause}")
    found = iter(gradients)
    return [next(found) if x is not None and x.requires_grad else None for x in given]


# Operators for torch.compile and other tracers, which don't trace into an operator. One that
# overwrites nothing has a backward of its own. An `autograd.Function` can't replace it: Dynamo
# traces through that, and saves no versions, so a tensor that is overwritten between forward and
# backward silently gives wrong gradients (seen with torch 2.11 and 2.13).

# An argument of an operator. For a type checker, `float` includes bool and int.
Value = Tensor | torch.dtype | str | float | None


class Operator(Protocol):
    """The result of `torch.library.custom_op`."""

    def __call__(self, *arguments: object) -> list[Tensor]: ...

    def register_fake(self, function: Callable[..., object], /) -> object: ...

    def register_autograd(
        self, backward: Callable[..., object], /, *, setup_context: Callable[..., None]
    ) -> None: ...


_TYPES: dict[object, str] = {
    Tensor: "Tensor",
    Tensor | None: "Tensor?",
    str: "str",
    bool: "bool",
    float: "float",
    int: "SymInt",
    int | None: "SymInt?",
    torch.dtype | None: "ScalarType?",
}
# A schema can't express tuples of mixed types, so options are passed one by one, at the end.
_OF_ROTATION, _OF_OPTIONS = get_type_hints(Rotation), get_type_hints(Options)
del _OF_ROTATION["options"]
_FIELDS = _OF_ROTATION | _OF_OPTIONS
ROTATION = ", ".join([f"{_TYPES[of_type]} {name}" for name, of_type in _FIELDS.items()])
NAMESPACE = __name__.partition(".")[0]  # A copy of the package needs a namespace of its own.


def operator(
    name: str, arguments: str, mutates: Sequence[str] = ()
) -> Callable[[Callable[..., object]], Operator]:
    """Register a function as an operator, which returns tensors, or None if it `mutates` some."""
    schema = f"({arguments}) -> {'()' if mutates else 'Tensor[]'}"
    return torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=mutates, schema=schema)


def values_of(rotation: Rotation) -> tuple[Value, ...]:
    """A rotation as the arguments of an operator, in the order of `ROTATION`."""
    return *rotation.tensors, rotation.first_position, rotation.transpose, *rotation.options


def rotation_of_values(values: Sequence[Value]) -> Rotation:
    """Undo `values_of`."""
    named = dict(zip(_FIELDS, values, strict=True))
    options = Options._make([named[name] for name in _OF_OPTIONS])
    return Rotation._make([*[named[name] for name in _OF_ROTATION], options])


def _run(tensors: Sequence[Tensor], rotation: Rotation, inplace: bool) -> list[Tensor]:
    """Check memory and values, which didn't exist while PyTorch traced the call, and launch."""
    given = tuple(tensors)
    if inplace:
        check_inplace(given, rotation)
    check_values(rotation, seq_len_of(given[0], rotation.options.tensor_format))
    known = known_of_rotation(given, rotation, inplace)
    return list(rotate_by_kernel(given, rotation, inplace, known))


@operator("rotate", f"Tensor[] tensors, {ROTATION}")
def _rotate_op(tensors: Sequence[Tensor], *values: Value) -> list[Tensor]:
    return _run(tensors, rotation_of_values(values), inplace=False)


@operator("rotate_inplace", f"Tensor(a!)[] tensors, {ROTATION}", ["tensors"])
def _rotate_inplace_op(tensors: Sequence[Tensor], *values: Value) -> None:
    _run(tensors, rotation_of_values(values), inplace=True)


@_rotate_op.register_fake
def _(tensors: Sequence[Tensor], *values: Value) -> list[Tensor]:
    return list(memory_for(tensors, rotation_of_values(values)))


def _keep_inputs(
    ctx: Context, inputs: tuple[Sequence[Tensor], *tuple[Value, ...]], output: Sequence[Tensor]
) -> None:
    tensors, *values = inputs
    keep_rotation(ctx, tensors, output, rotation_of_values(values))


def _backward(ctx: Context, grads: Sequence[Tensor | None]) -> tuple[object, ...]:
    # The operator takes the tensors as a list, so the item for them is a list, too.
    of_tensors: Sequence[bool]
    of_tensors, *_ = ctx.needs_input_grad  # type: ignore[assignment]  # see above
    return list(_gradients(ctx, grads, of_tensors)), *[None] * len(_FIELDS)


_rotate_op.register_autograd(_backward, setup_context=_keep_inputs)
