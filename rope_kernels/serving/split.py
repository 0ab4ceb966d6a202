"""Split a packed projection into q, k and v, and rotate q and k; with the backward."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from .. import reference
from ..api import rotation_of
from ..arguments import Tensors
from ..autograd import (
    ROTATION,
    Context,
    Value,
    gradients_by_pytorch,
    keep,
    kept,
    operator,
    rotation_of_values,
    values_of,
)
from ..check_call import check_values
from ..checks import (
    FLOATS,
    as_integer,
    bad,
    check_choice,
    check_format,
    check_integer,
    check_tensor,
)
from ..launch import Known, as_sbhd, known_of_rotation, launch_rotation
from ..paths import (
    apply_without_functorch,
    have_memory,
    is_traced,
    is_transformed,
    is_watched,
    log_path,
    path_of,
    wants_grad,
)
from ..rotation import (
    FORMATS,
    Call,
    CpOrder,
    Freqs,
    OutputPairing,
    Rotation,
    Rounding,
    TensorFormat,
    seq_len_of,
    view_as_sbhd,
    view_from_sbhd,
)

QKV = tuple[Tensor, Tensor, Tensor]  # q, k and v
Packing = Literal["qkv", "grouped"]
PACKINGS = get_args(Packing)


class Packed(NamedTuple):
    """How a projection packs its heads, and the output format of q, k and v."""

    num_heads: int
    num_kv_heads: int
    packing: str
    output_format: str

    @property
    def heads(self) -> int:
        """The number of heads of q, k and v together."""
        return self.num_heads + 2 * self.num_kv_heads

    @property
    def group(self) -> int:
        """The heads of q before each head of k and of v; 0: all heads of q are together."""
        return 0 if self.packing == "qkv" else self.num_heads // self.num_kv_heads

    def slices(self, qkv: Tensor) -> QKV:
        """Views of q, k and v, in which h and d are separate dimensions.

        With 'grouped', the view of q is only valid for a kernel. Its start, shape and strides are
        right, but strides can't skip the heads of k and v between those of q. The kernel does:
        `kernel.packed_heads`.
        """
        h, kv, group = self.num_heads, self.num_kv_heads, self.group
        x = qkv.view(*qkv.shape[:-1], self.heads, qkv.shape[-1] // self.heads)
        if group:
            step = group + 2
            return x[..., :h, :], x[..., group::step, :], x[..., group + 1 :: step, :]
        q, k, v = x.split_with_sizes((h, kv, kv), -2)
        return q, k, v

    def memory_for(self, slices: QKV, tensor_format: str) -> QKV:
        """Empty output tensors for these views of q, k and v."""
        q, k, v = slices
        sizes = {"s": q.shape[0], "b": 1} | dict(zip(tensor_format, q.shape, strict=True))

        of_q = [sizes[dim] for dim in self.output_format]
        of_kv = of_q.copy()
        of_kv[self.output_format.index("h")] = k.shape[-2]
        return q.new_empty(of_q), k.new_empty(of_kv), v.new_empty(of_kv)

    def gradient_for(self, grads: Sequence[Tensor], tensor_format: str) -> Tensor:
        """An empty tensor for the gradient of the projection."""
        s, b, _, d = as_sbhd(grads[0].shape, grads[0].shape, self.output_format).sizes
        sizes = {"s": s, "t": s, "b": b}
        shape = *[sizes[dim] for dim in tensor_format[:-2]], self.heads * d
        return torch.empty(shape, dtype=grads[0].dtype, device=grads[0].device)


def split_qkv_rope(
    qkv: Tensor,
    freqs: Freqs,
    num_heads: int,
    num_kv_heads: int,
    *,
    packing: Packing = "qkv",
    tensor_format: TensorFormat | None = None,
    output_format: TensorFormat | None = None,
    rounding: Rounding | None = None,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool | None = None,
    cp_size: int = 1,
    cp_rank: int | None = None,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
) -> QKV:
    """Split a packed projection into q, k and v, and rotate q and k, in one launch.

    v is copied. The results are differentiable in `qkv` and `freqs` any number of times. The
    backward writes the gradient of `qkv` directly, as one tensor; nothing is concatenated.
    `apply_rotary_pos_emb` explains the keywords that are not listed here.

    Args:
        qkv: the output of one linear layer, in fp32, fp16, bf16 or fp64, with any strides. It is
            (s, b, n * d), (b, s, n * d), or (t, n * d) for packed sequences, according to
            `tensor_format`, with n = num_heads + 2 * num_kv_heads.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin).
        num_heads: the number of heads of q.
        num_kv_heads: the number of heads of k, and of v.
        tensor_format: 'sbhd', 'bshd' or 'thd'. In `qkv`, h and d are one dimension, the last one.
        packing: the order of heads in `qkv`. 'qkv': all heads of q, then those of k, then those of
            v, as in Phi 3 and vLLM. 'grouped': for each head of k, first the heads of q that share
            it, then this head, then its head of v, as in Megatron-LM and GPT-NeoX (one head of q
            per group). Megatron-LM's tensor is (s, b, groups, heads of a group * d): pass its
            `flatten(2)`.
        output_format: the format of q, k and v: 'sbhd', 'bshd', or 'bhsd', as in PyTorch's
            attention. Packed sequences may also stay 'thd'; in the other formats, they are one
            batch entry. None: `tensor_format`.

    Returns:
        (q, k, v), new and contiguous. The values are bit-identical to those of `rope_qk`.

    Raises:
        TypeError, ValueError: as `apply_rotary_pos_emb`.

    Example:
        >>> layer = torch.nn.Linear(256, (8 + 2 + 2) * 32)
        >>> qkv, rope = layer(torch.randn(1, 5, 256)), RotaryPositionEmbedding(32)
        >>> q, k, v = split_qkv_rope(
        ...     qkv, rope, 8, 2, tensor_format="bshd", output_format="bhsd"
        ... )
        >>> q.shape, k.shape, v.shape
        (torch.Size([1, 8, 5, 32]), torch.Size([1, 2, 5, 32]), torch.Size([1, 2, 5, 32]))

    Source: TransformerEngine's `apply_fused_qkv_rotary_pos_emb`.
    """
    call = Call.__new__(
        Call,
        freqs=freqs,
        tensor_format=tensor_format,
        cu_seqlens=cu_seqlens,
        start_positions=start_positions,
        position_ids=position_ids,
        rotary_dim=rotary_dim,
        rotary_start=rotary_start,
        interleaved=interleaved,
        output_pairing=output_pairing,
        cp_size=cp_size,
        cp_rank=cp_rank,
        cp_order=cp_order,
        inverse=inverse,
        rounding=rounding,
        fused=fused,
    )
    read_format = check_format(tensor_format, ("sbhd", "bshd", "thd"))
    packed = Packed(
        num_heads=as_integer(num_heads),
        num_kv_heads=as_integer(num_kv_heads),
        packing=packing,
        output_format=read_format if output_format is None else output_format,
    )
    _check_projection(qkv, packed, read_format)
    # Resolve a negative bit in the whole projection. The view of q may not contain all of its
    # heads, so a copy of it would lose some.
    slices = packed.slices(qkv.resolve_neg())
    q, k, v = slices
    rotation, known = rotation_of(call, (q, k), v, "split", *packed)
    path = path_of((qkv,), rotation, fused=fused, known=known)
    if path.by != "kernel":
        log_path("split_qkv_rope", path)
    if path.by == "pytorch":
        return _split_by_pytorch(qkv, packed, rotation)
    if path.by == "operator":
        q, k, v = _split_op(qkv, *packed, *values_of(rotation))
        return q, k, v
    if wants_grad((qkv,)):
        q, k, v = _record_split(qkv, slices, packed, rotation, known)
        return q, k, v
    return _split(slices, packed, rotation, known)


def _check_projection(qkv: object, packed: Packed, tensor_format: str) -> None:
    """Check that a projection can be split."""
    qkv = check_tensor("qkv", qkv, FLOATS)
    check_choice("packing", packed.packing, PACKINGS)
    outputs = FORMATS if tensor_format == "thd" else ("sbhd", "bshd", "bhsd")
    check_choice("output_format", packed.output_format, outputs)
    for name, heads in (("num_heads", packed.num_heads), ("num_kv_heads", packed.num_kv_heads)):
        accepted = "an integer from 1, below 2^31"
        check_integer(name, heads, least=1, most=2**31 - 1, accepted=accepted)
    if packed.packing == "grouped" and packed.num_heads % packed.num_kv_heads:
        came = f"num_heads is {packed.num_heads}, and num_kv_heads is {packed.num_kv_heads}"
        raise bad(came, "a multiple of num_kv_heads with packing='grouped'")
    dims = *tensor_format[:-2], "heads of q, k and v together * d"
    if qkv.dim() != len(dims):
        accepted = f"({', '.join(dims)}) with tensor_format {tensor_format!r}"
        raise bad(f"qkv has shape {tuple(qkv.shape)}", accepted)
    if qkv.shape[-1] % packed.heads:
        accepted = f"a last dimension of {packed.heads} heads: {packed.num_heads} of q, "
        accepted += f"{packed.num_kv_heads} of k and {packed.num_kv_heads} of v"
        raise bad(f"qkv has shape {tuple(qkv.shape)}", accepted)


def _split_by_pytorch(qkv: Tensor, packed: Packed, rotation: Rotation) -> QKV:
    """The kernel's definition, in plain PyTorch; differentiable."""
    q, k, v = packed.slices(qkv)
    if packed.group:
        heads_of_a_group = packed.group + 2  # those of q, one of k, and one of v
        d = qkv.shape[-1] // packed.heads
        x = qkv.view(*qkv.shape[:-1], packed.num_kv_heads, heads_of_a_group, d)
        q = x[..., : packed.group, :].flatten(-3, -2)
    rotated = reference.rotate((q, k), rotation)
    views = [view_as_sbhd(x, rotation.options.tensor_format) for x in (*rotated, v)]
    q, k, v = [view_from_sbhd(x, packed.output_format) for x in views]
    return q.contiguous(), k.contiguous(), v.clone(memory_format=torch.contiguous_format)


def _split(slices: QKV, packed: Packed, rotation: Rotation, known: Known | None) -> QKV:
    """Rotate q and k, and copy v, from the `slices` of a projection."""
    outs = packed.memory_for(slices, rotation.options.tensor_format)
    (q, k, v), (q_out, k_out, v_out) = slices, outs
    launch_rotation(
        Tensors(q, k, v, q_out, k_out, v_out, *rotation.tensors),
        rotation,
        known,
        groups=(packed.group, 0),
        out_format=packed.output_format,
    )
    return outs


def _join(grads: Sequence[Tensor], packed: Packed, rotation: Rotation) -> Tensor:
    """The transposed map of `_split`: the projection's gradient from those of q, k and v."""
    q, k, v = grads
    back = rotation.transposed
    out = packed.gradient_for(grads, rotation.options.tensor_format)
    known = known_of_rotation(grads, back, "join", packed)
    q_out, k_out, v_out = packed.slices(out)
    launch_rotation(
        Tensors(q, k, v, q_out, k_out, v_out, *back.tensors),
        back,
        known,
        groups=(0, packed.group),
        out_format=packed.output_format,
    )
    return out


class SplitFunction(torch.autograd.Function):
    """A split in an eager call. The map is linear, so it saves only the projection's shape."""

    @staticmethod
    def forward(
        ctx: Context,
        qkv: Tensor,
        slices: QKV,
        packed: Packed,
        rotation: Rotation,
        known: Known | None,
    ) -> QKV:
        keep(ctx, rotation, extra=(packed, qkv.shape))
        return _split(slices, packed, rotation, known)

    @staticmethod
    def backward(ctx: Context, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return _gradient_of_split(ctx, grads), None, None, None, None


_record_split = apply_without_functorch(SplitFunction)


def _gradient_of_split(ctx: Context, grads: Sequence[Tensor | None]) -> Tensor | None:
    """The gradient of the projection.

    PyTorch computes it if one of q, k and v was not used, in a transform, and if it will be
    differentiated again.
    """
    rotation, _ = kept(ctx)
    assert isinstance(ctx.extra, tuple), "the forward has kept both"
    packed, shape = ctx.extra
    came = [grad for grad in grads if grad is not None]
    if not came:
        return None
    if not torch.is_grad_enabled() and len(came) == len(grads):
        if is_traced():
            return _join_op(came, *packed, *values_of(rotation))[0]
        if not is_transformed() and have_memory(came):
            if is_watched():
                return _join_op(came, *packed, *values_of(rotation))[0]
            return _join(came, packed, rotation)
    # A linear map has the same derivative everywhere, so differentiate at zeros. They are created
    # from a shape, because `zeros_like` of a batch of gradients would be a batch, too.
    qkv = torch.zeros(shape, dtype=came[0].dtype, device=came[0].device, requires_grad=True)
    return gradients_by_pytorch(lambda x: _split_by_pytorch(x, packed, rotation), (qkv,), grads)[0]


# A `Packed` as arguments of an operator, in the order of its fields.
_PACKED = "SymInt num_heads, SymInt num_kv_heads, str packing, str output_format"


@operator("split_qkv_rope", f"Tensor qkv, {_PACKED}, {ROTATION}")
def _split_op(qkv: Tensor, *values: Value) -> list[Tensor]:
    packed, rotation = _of_values(values)
    slices = packed.slices(qkv.resolve_neg())
    check_values(rotation, seq_len_of(slices[0], rotation.options.tensor_format))
    known = known_of_rotation(slices, rotation, "split", packed)
    return list(_split(slices, packed, rotation, known))


@operator("split_qkv_rope_backward", f"Tensor[] grads, {_PACKED}, {ROTATION}")
def _join_op(grads: Sequence[Tensor], *values: Value) -> list[Tensor]:
    packed, rotation = _of_values(values)
    return [_join(grads, packed, rotation)]


def _of_values(values: Sequence[Value]) -> tuple[Packed, Rotation]:
    count = len(Packed._fields)
    return Packed._make(values[:count]), rotation_of_values(values[count:])


@_split_op.register_fake
def _(qkv: Tensor, *values: Value) -> list[Tensor]:
    packed, rotation = _of_values(values)
    return list(packed.memory_for(packed.slices(qkv), rotation.options.tensor_format))


@_join_op.register_fake
def _(grads: Sequence[Tensor], *values: Value) -> list[Tensor]:
    packed, rotation = _of_values(values)
    return [packed.gradient_for(grads, rotation.options.tensor_format)]


def _keep_inputs(
    ctx: Context, inputs: tuple[Tensor, *tuple[Value, ...]], output: Sequence[Tensor]
) -> None:
    qkv, *values = inputs
    packed, rotation = _of_values(values)
    keep(ctx, rotation, extra=(packed, qkv.shape))


def _backward(ctx: Context, grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    return _gradient_of_split(ctx, grads), *[None] * (len(ctx.needs_input_grad) - 1)


_split_op.register_autograd(_backward, setup_context=_keep_inputs)
