"""Launches of the kernels: what they allocate, round and fuse, and how many programs they have."""

import math
from functools import lru_cache, partial

import torch
from torch import Tensor

from ..launch import Known, Launch, as_read, has_elements, known_of, pair, plan, resolved, run
from ..rotation import Rotation, compute_dtype
from ..tiles import next_power_of_2
from .definition import Norm, Tensors, Weights
from .tiles import choose_norm_backward_tile, choose_norm_tile

HEADS_APART_REGISTERS = 112  # of a forward
SMS_ELSEWHERE = 4  # where there is no GPU
TILE_BYTES = 2048  # of a backward; fewer programs have a tile each
PARTIALS_AT_ONCE, PARTIALS, SUM_WARPS = 512, 2048, 8  # rows and elements that are added at a time


def launch_forward(
    tensors: Tensors,
    weights: Weights,
    rotation: Rotation,
    norm: Norm,
    inplace: bool,
    known: Known | None,
) -> Tensors:
    outs = tensors if inplace else rotation.memory_for(tensors)

    def prepare_launch() -> Launch | None:
        if not has_elements(tensors):
            return None
        # in place, minus x comes out as minus what x does
        read = pair(tensors) if inplace else [resolved(x) for x in pair(tensors)]
        own = [None if x is None else x.resolve_neg().contiguous() for x in pair(weights)]
        named = dict(zip(("q", "k", "q_out", "k_out"), (*read, *pair(outs)), strict=True))
        planned = plan(named, rotation, choose=choose_norm_tile)
        arguments, options = planned.arguments, planned.options
        arguments["strides"] = planned.strides_of("q", "k", "q_out", "k_out")
        arguments |= _numbers_of(norm) | _roundings(tensors[0], weights[0], rotation, norm)
        # Heads apart, rows of 256 bytes: Triton 3.6 loses 18 points without the limit.
        full_rows = next_power_of_2(arguments["HALF"]) == 64 and not arguments["TAIL"]
        apart = arguments["ROWS_OUTER"] and full_rows
        arguments["WEIGHTS_LAST"] = apart or rotation.cu_seqlens is not None
        arguments["FUSED"] = options["enable_fp_fusion"]
        if apart and arguments["FAST_SINE"] and tensors[0].element_size() == 2:
            options["maxnreg"] = HEADS_APART_REGISTERS
        given = *read, *pair(outs), *own, *as_read(rotation)
        kernel = "norms.kernel.norm_rope_kernel"
        return Launch(kernel, given, planned.programs, arguments, options)

    given = *pair(tensors), *pair(outs), *pair(weights), *rotation.tensors
    run(known, given, prepare_launch, numbers=(rotation.first_position,))
    return outs


def launch_backward(
    tensors: Tensors,
    grads: Tensors,
    weights: Weights,
    rotation: Rotation,
    norm: Norm,
    wants_inputs: bool,
    wants_weights: bool,
) -> tuple[Weights, Weights]:
    """Gradients of the tensors and of the weights, None for those that are not wanted."""
    like = {"memory_format": torch.contiguous_format}
    outs, of_weights, partials = (None,) * len(tensors), (None,) * len(weights), None
    q_programs, programs = _share_programs(tensors, rotation)
    if wants_inputs:
        outs = tuple([torch.empty_like(t, **like) for t in tensors])
    if wants_weights:
        of_weights = tuple([torch.empty_like(w, **like) for w in weights])
        if not programs:
            return outs, tuple([w.zero_() for w in of_weights])
        shape = programs, tensors[0].shape[-1]
        partials = tensors[0].new_empty(shape, dtype=compute_dtype(tensors[0]))
    looks = (*tensors, *grads, *weights)
    known = known_of(looks, rotation, "norm backward", *norm, wants_inputs, wants_weights)

    def prepare_launch() -> Launch | None:
        if not has_elements(tensors):
            return None
        rows = [resolved(x) for x in (*pair(tensors), *pair(grads), *pair(outs))]
        own = [None if x is None else x.resolve_neg().contiguous() for x in pair(weights)]
        names = "q", "k", "q_grad", "k_grad", "q_out", "k_out"
        named = dict(zip(names, rows, strict=True))
        _, tile_bytes, registers = _share_of_an_sm(tensors, rotation)
        tile = partial(choose_norm_backward_tile, tile_bytes=tile_bytes)
        planned = plan(named, rotation, choose=tile)
        arguments, options = planned.arguments, planned.options
        arguments["strides"] = planned.strides_of(*names)
        arguments |= _numbers_of(norm)
        arguments["q_programs"] = q_programs
        of_forward = _roundings(tensors[0], weights[0], rotation, norm)
        arguments["ROUNDING"] = of_forward["ROUNDING"]
        turn_rounds = arguments["ROUNDING"] == "model"
        arguments["ROUNDS_COS_SIN"] = rotation.sin is None and turn_rounds
        # fused, the rows squared here are not the forward's: 5 to 9 % of gradients had other bits
        options["enable_fp_fusion"] = arguments["FUSED"] = not (norm.norm_after and turn_rounds)
        if arguments["FAST_SINE"] and registers is not None:  # on NVIDIA's GPUs
            options["maxnreg"] = registers
        given = *rows, *own, partials, *as_read(rotation)
        kernel = "norms.kernel.norm_rope_backward_kernel"
        return Launch(kernel, given, programs, arguments, options)

    given = *pair(tensors), *pair(grads), *pair(outs), *pair(weights), partials
    tensors_read = *given, *rotation.tensors
    run(known, tensors_read, prepare_launch, numbers=(rotation.first_position,))
    if partials is not None:
        _add_up(partials, of_weights, q_programs, known)
    return outs, of_weights


def _add_up(partials: Tensor, of_weights: Tensors, q_programs: int, known: Known | None) -> None:
    """Write the gradients of the weights. All about this launch is known from the one before."""
    programs, d = partials.shape
    if known is not None:
        known.then = known = known.then or Known()

    def prepare_launch() -> Launch | None:
        rows = min(PARTIALS_AT_ONCE, next_power_of_2(max(1, programs)))
        blocks = len(of_weights) * -(-d // (PARTIALS // rows))
        arguments = {"q_programs": q_programs, "programs": programs, "D": d}
        arguments |= {"BLOCK_N": rows, "BLOCK_D": PARTIALS // rows}
        options = {"num_warps": SUM_WARPS, "enable_fp_fusion": True}
        kernel = "norms.kernel.sum_partials_kernel"
        return Launch(kernel, (partials, *pair(of_weights)), blocks, arguments, options)

    run(known, (partials, *pair(of_weights)), prepare_launch)


def _numbers_of(norm: Norm) -> dict[str, object]:
    """Arguments of both kernels."""
    return {"EPS": norm.eps, "OFFSET": norm.weight_offset, "NORM_AFTER": norm.norm_after}


def _roundings(
    t: Tensor, weight: Tensor | None, rotation: Rotation, norm: Norm
) -> dict[str, object]:
    """What a forward rounds besides its result, as arguments; PyTorch's operators promote."""
    if not norm.like_model:
        return {"ROUNDS_NORMAL": False, "ROUNDS_PRODUCT": False, "ROUNDING": "once"}
    promotes = weight is not None and torch.promote_types(weight.dtype, t.dtype) != t.dtype
    turns_fp32 = promotes and not norm.casts_last and not norm.norm_after
    promoted = rotation.rounding == "promoted"
    return {
        "ROUNDS_NORMAL": not norm.casts_last and not (norm.norm_after and promoted),
        "ROUNDS_PRODUCT": not turns_fp32,
        "ROUNDING": "upcast" if turns_fp32 else rotation.rounding,
    }


def _share_programs(tensors: Tensors, rotation: Rotation) -> tuple[int, int]:
    """How many programs a backward has, those for q first, and those of both."""
    sizes = [t.numel() for t in tensors]
    most = count_sms(tensors[0].device) * _share_of_an_sm(tensors, rotation)[0]
    if 0 in (sizes[0], sizes[-1]):
        return most if sizes[0] else 0, most if any(sizes) else 0
    programs = min(most, sum(sizes) * tensors[0].element_size() // TILE_BYTES + 2)
    if len(sizes) == 1:
        return programs, programs
    return max(1, min(programs - 1, round(programs * sizes[0] / sum(sizes)))), programs


def _share_of_an_sm(tensors: Tensors, rotation: Rotation) -> tuple[int, int, int | None]:
    """A backward's programs on an SM, one warp each, bytes of a tile, and registers of a thread."""
    t = tensors[0]
    if rotation.rotary_dim < t.shape[-1] or t.dtype == torch.float64:
        return 8, TILE_BYTES, None  # they take up to 255, and a limit would make them spill
    if rotation.cu_seqlens is not None and rotation.on_the_fly:
        # two tokens share a search, where the heads of one fill a tile: 2 points on an H200
        fill_it = math.gcd(*[x.shape[1] for x in tensors]) * t.shape[-1] * t.element_size()
        if fill_it >= TILE_BYTES:
            return 8, 2 * TILE_BYTES, None
    return 12, TILE_BYTES, 168  # 16 with 128 registers lose with a table, and on an H100


@lru_cache
def count_sms(device: torch.device) -> int:
    """Number of streaming multiprocessors (SMs); on a CPU some number."""
    if device.type != "cuda":
        return SMS_ELSEWHERE
    return torch.cuda.get_device_properties(device).multi_processor_count
