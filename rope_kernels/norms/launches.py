"""Launches of the norms' kernels: memory, roundings, FMA, and the number of programs."""

from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..launch import (
    Known,
    Launch,
    has_elements,
    known_by,
    known_of_rotation,
    memory_for,
    plan,
    q_and_k,
    run,
)
from ..rotation import Rotation, compute_dtype
from ..tiles import cdiv, next_power_of_2
from .arguments import (
    NormBackwardConstants,
    NormBackwardTensors,
    NormForwardConstants,
    NormTensors,
    SumTensors,
)
from .definition import Gradients, Norm, Tensors, Weights
from .tiles import choose_norm_backward_tile, choose_norm_tile

SMS_ELSEWHERE = 4  # assumed number of streaming multiprocessors without a GPU
TILE_BYTES = 2048  # of a backward's tile; a small call has a program for each tile
# What a program of `sum_partials_kernel` loads at a time: shares, and elements in total.
PARTIALS_AT_ONCE, PARTIALS = 512, 2048
SUM_WARPS = 8  # of such a program


def launch_forward(
    tensors: Tensors,
    weights: Weights,
    rotation: Rotation,
    norm: Norm,
    inplace: bool,
    known: Known | None,
) -> Tensors:
    """Normalize and rotate one or two tensors of a checked call, in one launch.

    Returns new tensors, or with `inplace` the same ones. `known` is the call's cache entry.
    """
    outs = tensors if inplace else memory_for(tensors, rotation)
    q, k = q_and_k(tensors)
    q_out, k_out = q_and_k(outs)
    q_weight, k_weight = q_and_k(weights)

    given = NormTensors(q, k, q_out, k_out, q_weight, k_weight, *rotation.tensors)

    def make_launch() -> Launch | None:
        if not has_elements(tensors):
            return None
        planned = plan(
            given,
            rotation,
            choose=choose_norm_tile,
            inplace=inplace,
            whole_rows=True,
        )
        rounds = _roundings(tensors[0], weights[0], rotation, norm)
        constants = NormForwardConstants(
            **vars(planned.constants) | {"rounding": rounds.rotation},
            eps=norm.eps,
            offset=norm.weight_offset,
            norm_after=norm.norm_after,
            fused=rotation.options.rounding == "once",
            rounds_normal=rounds.normal,
            rounds_product=rounds.product,
            weights_last=_weights_come_last(rotation, norm),
        )
        return Launch(
            kernel="norms.kernel.norm_rope_kernel",
            tensors=planned.tensors,
            programs=planned.programs,
            arguments=planned.arguments | {"C": constants},
            compiler=planned.compiler,
        )

    run(known, given, make_launch, (rotation.first_position,))
    return outs


def _weights_come_last(rotation: Rotation, norm: Norm) -> bool:
    """Whether a forward loads weights after the elements, which changes its number of registers.

    8192 tokens, 32 + 8 heads, H200: with a model's roundings this gains 2 to 9 points, for packed
    rows of 256 it gains 4. Elsewhere it loses up to 10 points (packed rows of 128 with a table).
    """
    long_and_packed = rotation.cu_seqlens is not None and rotation.options.rotary_dim > 128
    return norm.like_model or long_and_packed


def launch_backward(
    tensors: Tensors,
    grads: Tensors,
    weights: Weights,
    rotation: Rotation,
    norm: Norm,
    wants_inputs: bool,
    wants_weights: bool,
) -> tuple[Gradients, Gradients]:
    """Gradients of the tensors and of the weights; None for those that are not wanted.

    Args:
        tensors, weights, rotation, norm: as in the forward.
        grads: gradients of the forward's results.
        wants_inputs: whether gradients of the tensors are wanted.
        wants_weights: whether gradients of the weights are wanted. Then no weight is None.
    """
    outs: Gradients = (None,) * len(tensors)
    of_weights: Gradients = (None,) * len(weights)
    partials = None
    q_programs, programs = _share_programs(tensors, rotation)
    if wants_inputs:
        outs = tuple([torch.empty_like(t) for t in tensors])
    if wants_weights:
        contiguous = partial(torch.empty_like, memory_format=torch.contiguous_format)
        of_weights = tuple([None if weight is None else contiguous(weight) for weight in weights])
        if not programs:
            return outs, tuple([x if x is None else x.zero_() for x in of_weights])
        shape = programs, tensors[0].shape[-1]
        partials = tensors[0].new_empty(shape, dtype=compute_dtype(tensors[0]))
    q, k = q_and_k(tensors)
    q_grad, k_grad = q_and_k(grads)
    q_out, k_out = q_and_k(outs)
    q_weight, k_weight = q_and_k(weights)
    inputs = *tensors, *grads, *weights
    known = known_of_rotation(inputs, rotation, "norm backward", norm, wants_inputs, wants_weights)

    given = NormBackwardTensors(
        q, k, q_grad, k_grad, q_out, k_out, q_weight, k_weight, partials, *rotation.tensors
    )

    def make_launch() -> Launch | None:
        if not has_elements(tensors):
            return None
        share = _share_of_an_sm(tensors, rotation)
        choose = partial(choose_norm_backward_tile, tile_bytes=share.tile_bytes)
        planned = plan(given, rotation, choose=choose)
        rounding = _roundings(tensors[0], weights[0], rotation, norm).rotation
        turn_rounds = rounding == "model"
        # With FMA in the rotation before a norm, rows would differ from those that a model's
        # forward squared: 5 to 9 % of gradients had other bits.
        may_fuse = not (norm.norm_after and turn_rounds)
        constants = NormBackwardConstants(
            **vars(planned.constants) | {"rounding": rounding},
            eps=norm.eps,
            offset=norm.weight_offset,
            norm_after=norm.norm_after,
            fused=may_fuse,
            rounds_cos_sin=rotation.sin is None and turn_rounds,
            next_first=share.next_first,
        )
        compiler = planned.compiler | {"enable_fp_fusion": may_fuse}
        if constants.fast_sine and share.registers is not None:  # on NVIDIA's GPUs
            compiler["maxnreg"] = share.registers
        arguments = {"q_programs": q_programs, "C": constants}
        return Launch(
            kernel="norms.kernel.norm_rope_backward_kernel",
            tensors=planned.tensors,
            programs=programs,
            arguments=planned.arguments | arguments,
            compiler=compiler,
        )

    run(known, given, make_launch, (rotation.first_position,))
    if partials is not None:
        _add_up(partials, of_weights, q_programs, is_eager=known is not None)
    return outs, of_weights


def _add_up(partials: Tensor, of_weights: Gradients, q_programs: int, is_eager: bool) -> None:
    """Write the gradients of the weights: the sums of the programs' shares.

    All memory is newly allocated and therefore aligned, so the signature needs no addresses.
    """
    programs, d = partials.shape
    known = None
    if is_eager:
        dtypes = partials.dtype, *[None if x is None else x.dtype for x in of_weights]
        known = known_by("sum", partials.device, *dtypes, d, programs, q_programs)
    q_weight_grad, k_weight_grad = q_and_k(of_weights)
    given = SumTensors(partials, q_weight_grad, k_weight_grad)

    def make_launch() -> Launch:
        block_n = min(PARTIALS_AT_ONCE, next_power_of_2(max(1, programs)))
        block_d = PARTIALS // block_n
        blocks = len(of_weights) * cdiv(d, block_d)
        arguments: dict[str, object] = {
            "q_programs": q_programs,
            "programs": programs,
            "D": d,
            "BLOCK_N": block_n,
            "BLOCK_D": block_d,
        }
        compiler: dict[str, object] = {"num_warps": SUM_WARPS, "enable_fp_fusion": True}
        return Launch(
            kernel="norms.kernel.sum_partials_kernel",
            tensors=given,
            programs=blocks,
            arguments=arguments,
            compiler=compiler,
        )

    run(known, given, make_launch)


class Roundings(NamedTuple):
    """What a forward rounds, besides its result."""

    normal: bool  # the normalized row, before the product with the weight
    product: bool  # its product with the weight
    rotation: str  # the `rounding` of the rotation


def _roundings(t: Tensor, weight: Tensor | None, rotation: Rotation, norm: Norm) -> Roundings:
    """What a forward rounds.

    In a model, PyTorch promotes the product with an fp32 weight to fp32, so it isn't rounded.
    """
    if not norm.like_model:
        return Roundings(normal=False, product=False, rotation="once")
    promotes = weight is not None and torch.promote_types(weight.dtype, t.dtype) != t.dtype
    turns_fp32 = promotes and not norm.casts_last and not norm.norm_after
    promoted = rotation.options.rounding == "promoted"
    return Roundings(
        normal=not norm.casts_last and not (norm.norm_after and promoted),
        product=not turns_fp32,
        rotation="upcast" if turns_fp32 else rotation.options.rounding,
    )


def _share_programs(tensors: Tensors, rotation: Rotation) -> tuple[int, int]:
    """The number of a backward's programs for q, which are the first ones, and of all programs.

    There are as many as the GPU runs at the same time, because each writes a share of the weights'
    gradients.
    """
    sizes = [t.numel() for t in tensors]
    most = count_sms(tensors[0].device) * _share_of_an_sm(tensors, rotation).programs
    if 0 in (sizes[0], sizes[-1]):
        return most if sizes[0] else 0, most if any(sizes) else 0
    programs = min(most, sum(sizes) * tensors[0].element_size() // TILE_BYTES + 2)
    if len(sizes) == 1:
        return programs, programs
    return max(1, min(programs - 1, round(programs * sizes[0] / sum(sizes)))), programs


class Share(NamedTuple):
    """How a backward's programs, of one warp each, share a streaming multiprocessor (SM)."""

    programs: int  # that run at the same time
    tile_bytes: int  # per program
    registers: int | None  # per thread, at most; None: the compiler decides
    next_first: bool  # whether the next tile's rows are loaded before this tile's angles


def _share_of_an_sm(tensors: Tensors, rotation: Rotation) -> Share:
    """The fastest configuration on an H200; benchmarks/NOTES.md has the alternatives.

    If there are enough registers, the next tile's rows are loaded before this tile's angles. On the
    fly, this gains 3 points. With a table, cosines are in registers at the same time, and threads
    would spill. Packed tokens gain 3 points if the search for their sequence comes first.
    """
    t = tensors[0]
    packed = rotation.cu_seqlens is not None
    has_wide_table = _has_wide_table(rotation)
    next_first = not packed and (rotation.options.on_the_fly or has_wide_table)
    if rotation.options.rotary_dim < t.shape[-1] or t.dtype == torch.float64:
        # Threads take up to 255 registers, and a limit would make them spill. Not measured
        # separately.
        return Share(programs=8, tile_bytes=TILE_BYTES, registers=None, next_first=next_first)
    if rotation.options.on_the_fly and not packed and _tiles_have_one_row(tensors, rotation):
        # With 168 registers threads would spill, because they hold angles of several positions. In
        # bshd and sbhd, 4, 8 and 18 heads of 64, 128 and 256 with one of k gain 3 to 14 points. 16
        # + 2 heads, with two rows per tile, would lose 4.
        return Share(programs=8, tile_bytes=TILE_BYTES, registers=None, next_first=next_first)
    if has_wide_table and not packed:
        # Cosines of a row take 32 registers, which leaves too few for two tiles of 2 KiB. Two of
        # 1 KiB fit, and bhsd gains 2 points. Shorter rows would lose 3 to 10.
        return Share(programs=16, tile_bytes=TILE_BYTES // 2, registers=128, next_first=next_first)
    return Share(programs=12, tile_bytes=TILE_BYTES, registers=168, next_first=next_first)


def _tiles_have_one_row(tensors: Tensors, rotation: Rotation) -> bool:
    """Whether a position has one row of k and few of q, so that a tile has one row of a position.

    In sbhd, heads of all batch entries are rows of a position. From 20 rows of q on, a tile has two
    if their number is even (`choose_norm_backward_tile`). Larger odd numbers are rare, and are
    treated like all others.
    """
    if len(tensors) == 1:
        return False
    q, k = tensors
    tensor_format = rotation.options.tensor_format
    heads = tensor_format.index("h")
    entries = k.shape[1] if tensor_format == "sbhd" else 1
    return entries == k.shape[heads] == 1 and q.shape[heads] < 20


def _has_wide_table(rotation: Rotation) -> bool:
    """Whether a table in fp32 has a column for each element, and 128 or more of them."""
    of_elements = not (rotation.options.on_the_fly or rotation.one_per_pair)
    is_fp32 = of_elements and rotation.table.dtype == torch.float32
    return is_fp32 and rotation.options.rotary_dim >= 128


@lru_cache
def count_sms(device: torch.device) -> int:
    """The number of streaming multiprocessors (SMs) of a GPU; for a CPU, a small number."""
    if device.type != "cuda":
        return SMS_ELSEWHERE
    return torch.cuda.get_device_properties(device).multi_processor_count
