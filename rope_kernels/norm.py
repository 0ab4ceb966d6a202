"""Normalize and rotate in one kernel: public functions, checks, launches and gradients."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from numbers import Real
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from . import reference
from .api import prepare, tables_of
from .autograd import count_as_written, gradients_by_pytorch, keep, kept
from .checks import Beside, Named, bad, check_call, check_flag, names_of
from .launch import Known, as_read, has_elements, known_of, pair, plan, resolved, run
from .modes import have_memory, is_traced, is_transformed, is_watched, wants_grad
from .rotation import CpOrder, Freqs, OutputPairing, Rotation, TensorFormat, compute_dtype
from .tiles import choose_norm_backward_tile, choose_norm_tile, next_power_of_2
from .ways import Way, way_of

NormRounding = Literal["once", "model", "model_cast_last"]
NORM_ROUNDINGS = (None, *get_args(NormRounding))
Tensors = tuple[Tensor, ...]
Weights = tuple[Tensor | None, ...]  # as many

HEADS_APART_REGISTERS = 112  # of a forward
SMS_ELSEWHERE = 4  # where there is no GPU
TILE_BYTES = 2048  # of a backward; fewer programs have a tile each
PARTIALS_AT_ONCE, PARTIALS, SUM_WARPS = 512, 2048, 8  # rows and elements that are added at a time


class Norm(NamedTuple):
    """How rows are normalized: the arguments of the public functions."""

    eps: float
    weight_offset: float
    norm_after: bool
    rounding: str | None

    @property
    def like_model(self) -> bool:
        """Whether values are rounded where a model's operators do it."""
        return self.rounding not in (None, "once")

    @property
    def casts_last(self) -> bool:
        """Whether a model rounds the product with the weight alone, as all with an offset do."""
        with_offset = self.rounding == "model" and self.weight_offset != 0
        return with_offset or self.rounding == "model_cast_last"


def norm_of(eps: object, weight_offset: object, norm_after: bool, rounding: str | None) -> Norm:
    """The arguments as they came, but real numbers of any kind, NumPy's too, as floats."""
    if type(eps) is not float or type(weight_offset) is not float:
        eps, weight_offset = _as_float(eps), _as_float(weight_offset)
    return Norm(eps, weight_offset, norm_after, rounding)


def _as_float(number: object) -> object:
    """What is no real number, or too large for a float, comes back as it is, for the checks."""
    if not isinstance(number, Real) or isinstance(number, bool):
        return number
    try:
        return float(number)
    except OverflowError:
        return number


def norm_rope(
    t: Tensor,
    weight: Tensor | None,
    freqs: Freqs,
    tensor_format: TensorFormat | None = None,
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    norm_after: bool = False,
    rounding: NormRounding | None = None,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool | None = None,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int = 0,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
) -> Tensor:
    """Normalize each row by its root mean square, multiply it by a weight, and rotate it.

    y = rope(x / sqrt(mean(x^2) + eps) * (weight_offset + weight)), in one kernel: x is read once,
    y is written once. The mean is over the whole head dimension, elements that do not turn too.
    Differentiable in `t`, `weight` and `freqs`, as often as you like: from the second derivative on
    in plain PyTorch. Gradients of weights are summed in fp32 in a fixed order: the bits are the
    same in every run on the same GPU. Under a trace, as of `torch.compile`, it is plain PyTorch.
    All keywords that are not named here are those of `apply_rotary_pos_emb`, which explains them.

    Args:
        t: (s, b, h, d), (b, s, h, d), (b, h, s, d) or (t, h, d), as `tensor_format` says.
        weight: (d,), the dtype of `t`, or fp32. None: no product.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin). With a table that
            requires a gradient all is computed in plain PyTorch.
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd'. It has to be said.
        eps: is added to the mean of squares.
        weight_offset: is added to the weight: 1 for Gemma 3, Qwen 3.5 and Qwen 3 Next.
        norm_after: rotate first, then normalize and multiply, as HunYuan, Llama 4 and NanoChat do.
        rounding: 'once', or None: fp32 math (fp64 for fp64 `t`), one rounding. The others round to
            the dtype of `t` where PyTorch's operators do in a model; docs/kernels.md names the
            models. 'model': the normalized row and its product with the weight, then as in
            `apply_rotary_pos_emb`. 'model_cast_last', and 'model' with a `weight_offset`: the
            product alone. As in PyTorch, a weight in fp32 (with 'model') and (cos, sin) of another
            dtype than `t` promote what they meet to fp32, which is rounded at the end. Squares are
            added in another order than PyTorch's: of 10 000 elements 1 may differ in bf16, 3 in
            fp16, by one unit. Gradients are computed in fp32 with the same cos and sin, and rounded
            once. `fused=False` has the model's bits; its gradients go back through all roundings.
            Compiled by Inductor, on any device, no model's bits are promised: docs/compile.md.
        fused: False: plain PyTorch.
        inplace: overwrite `t`, all of it, and return it. Without gradients.

    Returns:
        A contiguous tensor of the shape and dtype of `t`, or `t` itself with `inplace`. Tokens past
        `cu_seqlens[-1]` come out normalized, but unrotated. They count in the weight's gradient, so
        a NaN in one of them reaches it.

    Raises:
        TypeError, ValueError: as `apply_rotary_pos_emb`.

    Example:
        >>> t, weight = 100 * torch.randn(2, 1, 1, 8), torch.ones(8)
        >>> y = norm_rope(t, weight, RotaryPositionEmbedding(8), "sbhd")
        >>> torch.allclose(y.square().mean(-1), torch.ones(2, 1, 1))
        True

    Source: RMSNorm, https://arxiv.org/abs/1910.07467; on queries and keys, Qwen 3,
    https://arxiv.org/abs/2505.09388.
    """
    where = cu_seqlens, start_positions, position_ids
    pairs = rotary_dim, rotary_start, interleaved, output_pairing
    rank = cp_size, cp_rank, cp_order
    rotation = Rotation(*tables_of(freqs), *where, tensor_format, *pairs, *rank, inverse)
    norm = norm_of(eps, weight_offset, norm_after, rounding)
    return normalize_by(norm, (t,), (weight,), freqs, rotation, fused, inplace)[0]


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    freqs: Freqs,
    tensor_format: TensorFormat | None = None,
    *,
    eps: float = 1e-6,
    weight_offset: float = 0.0,
    norm_after: bool = False,
    rounding: NormRounding | None = None,
    fused: bool = True,
    cu_seqlens: Tensor | None = None,
    start_positions: int | Tensor | None = None,
    position_ids: Tensor | None = None,
    interleaved: bool | None = None,
    inplace: bool = False,
    cp_size: int = 1,
    cp_rank: int = 0,
    cp_order: CpOrder = "zigzag",
    rotary_dim: int | None = None,
    rotary_start: int = 0,
    inverse: bool = False,
    output_pairing: OutputPairing = "same",
) -> tuple[Tensor, Tensor]:
    """Normalize and rotate queries and keys: one launch forward, two backward.

    Backward q and k take launches of their own where autograd wants other gradients of q than of k.
    `norm_rope` explains `eps`, `weight_offset`, `norm_after`, `rounding` and `inplace`;
    `apply_rotary_pos_emb` explains all other keywords.

    Args:
        q: queries, as `t` in `norm_rope`.
        k: keys, like `q` but for the number of heads and the strides.
        q_weight, k_weight: as `weight` there. If they differ in dtype, or one is None, q and k take
            a launch each.
        freqs: a `RotaryPositionEmbedding`, or a table: angles, or (cos, sin).
        tensor_format: 'sbhd', 'bshd', 'bhsd' or 'thd'. It has to be said.

    Returns:
        (q, k), each as `norm_rope` returns it, but for the order in which squares are added: a tile
        depends on the number of heads. So the last bits of a row may differ.

    Raises:
        TypeError, ValueError: as `norm_rope`.

    Example:
        >>> q, k, weight = torch.randn(3, 1, 8, 64), torch.randn(3, 1, 2, 64), torch.ones(64)
        >>> q1, k1 = qk_norm_rope(q, k, weight, weight, RotaryPositionEmbedding(64), "sbhd")
        >>> q1.shape, k1.shape
        (torch.Size([3, 1, 8, 64]), torch.Size([3, 1, 2, 64]))
    """
    where = cu_seqlens, start_positions, position_ids
    pairs = rotary_dim, rotary_start, interleaved, output_pairing
    rank = cp_size, cp_rank, cp_order
    rotation = Rotation(*tables_of(freqs), *where, tensor_format, *pairs, *rank, inverse)
    norm, weights = norm_of(eps, weight_offset, norm_after, rounding), (q_weight, k_weight)
    q, k = normalize_by(norm, (q, k), weights, freqs, rotation, fused, inplace)
    return q, k


def normalize_by(
    norm: Norm,
    tensors: Tensors,
    weights: Weights,
    freqs: Freqs,
    rotation: Rotation,
    fused: bool = True,
    inplace: bool = False,
    ways: Counter[Way] | None = None,
) -> Tensors:
    """Check a call as `api.prepare` does, and take the kernels, or plain PyTorch.

    `ways` counts which of both.
    """

    def check() -> None:
        check_call(tensors, freqs, rotation, fused, inplace, NORM_ROUNDINGS)
        _check_norm(tensors, named, norm, rotation.tensor_format)

    rows, names = (*tensors, *weights), ("q_weight", "k_weight")
    named = tuple(zip(names if len(weights) == 2 else ("weight",), weights, strict=True))
    if inplace is True and wants_grad(rows):
        came = "inplace is True, and a tensor requires a gradient"
        raise bad(came, "inplace=False; or a call within torch.no_grad()")
    rotation.rounding = norm.rounding
    key = "norm", *norm
    known = prepare(tensors, freqs, rotation, fused, inplace, weights, key, check, named)
    if not norm.like_model:
        rotation.rounding = "once"
    elif rotation.rounding != "promoted":
        rotation.rounding = "model"
    # a norm has no operator, for compilers fuse PyTorch's
    path = way_of(fused, rows, rotation, known, has_operator=False, ways=ways).path
    if path == "kernel" and not (inplace and is_watched()):
        return _by_kernels(tensors, weights, rotation, norm, inplace, known)
    if path == "kernel":  # a mode that watches operators has to see what is overwritten
        outs = _by_kernels(tensors, weights, rotation, norm, inplace=False, known=None)
    else:
        outs = normalize_and_rotate(tensors, weights, rotation, norm)
    if not inplace:
        return outs
    for t, out in zip(tensors, outs, strict=True):
        t.copy_(out)
    return tensors


def _by_kernels(
    tensors: Tensors,
    weights: Weights,
    rotation: Rotation,
    norm: Norm,
    inplace: bool,
    known: Known | None,
) -> Tensors:
    """One launch for q and k; a launch each where their weights differ in dtype."""
    if len({None if w is None else w.dtype for w in weights}) == 1:
        return _by_kernel(tensors, weights, rotation, norm, inplace, known)
    outs = ()
    for t, w in zip(tensors, weights, strict=True):
        known = known_of((t, w), rotation, *norm, inplace)
        outs += _by_kernel((t,), (w,), rotation, norm, inplace, known)
    return outs


def _check_norm(tensors: Tensors, named: Named, norm: Norm, tensor_format: str) -> None:
    """Check what a norm adds to a rotation."""
    check_flag("norm_after", norm.norm_after)
    for name, number in (("eps", norm.eps), ("weight_offset", norm.weight_offset)):
        accepted = "a finite number of fp32" + (" from 0" if name == "eps" else "")
        if isinstance(number, bool) or not isinstance(number, Real):
            raise bad(f"{name} is {number!r}", accepted, TypeError)
        if not abs(number) <= torch.finfo(torch.float32).max or (name == "eps" and number < 0):
            raise bad(f"{name} is {number!r}", accepted)
    t_names = names_of(tensors, transpose=False)
    for (name, x), t_name, t in zip(named, t_names, tensors, strict=True):
        if x is not None:
            dtypes = tuple(dict.fromkeys((t.dtype, torch.float32, compute_dtype(t))))
            Beside(t_name, t, tensor_format).check(name, x, dtypes, [(t.shape[-1],)])


# In plain PyTorch


def normalize_and_rotate(
    tensors: Tensors, weights: Weights, rotation: Rotation, norm: Norm
) -> Tensors:
    """The kernels' definition; differentiable in every tensor, as often as you like.

    With `norm.like_model` these are the operators of models in transformers, and PyTorch promotes:
    what meets a weight or cosines in fp32 stays in fp32. Else all is computed in fp32 (fp64 for
    fp64), and rounded once, at the end.
    """
    stored, rows = tensors[0].dtype, tuple(tensors)
    if not norm.like_model:
        rows = tuple([t.to(compute_dtype(t)) for t in tensors])
    if norm.norm_after:
        rows = reference.rotate(rows, rotation, stays_promoted=rotation.rounding == "promoted")
    rows = tuple([_normalize(x, w, norm) for x, w in zip(rows, weights, strict=True)])
    if not norm.norm_after:
        rows = [reference.rotate((x,), rotation)[0] for x in rows]  # a weight may promote one alone
    return tuple([x.to(stored).contiguous() for x in rows])


def _normalize(x: Tensor, weight: Tensor | None, norm: Norm) -> Tensor:
    """x / rms(x) * (weight_offset + weight), in the dtype of `x`; sums in fp32 at least.

    Like a model that does not cast last, it is cast before a product that the weight may promote.
    """
    exact = x.to(compute_dtype(x))
    normal = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + norm.eps)
    if weight is None:
        return normal.to(x.dtype)
    if norm.like_model and not norm.casts_last:
        return weight * normal.to(x.dtype)
    return ((weight.to(exact.dtype) + norm.weight_offset) * normal).to(x.dtype)


# With gradients


def _by_kernel(
    tensors: Tensors,
    weights: Weights,
    rotation: Rotation,
    norm: Norm,
    inplace: bool,
    known: Known | None,
) -> Tensors:
    if wants_grad((*tensors, *weights)):
        return NormFunction.apply(*pair(tensors), *pair(weights), rotation, norm, known)
    outs = _forward(tensors, weights, rotation, norm, inplace, known)
    if inplace:
        count_as_written(outs)
    return outs


class NormFunction(torch.autograd.Function):
    """Keeps nothing but what the forward was given."""

    @staticmethod
    def forward(ctx, q, k, q_weight, k_weight, rotation, norm, known):
        n = 1 if k is None else 2
        tensors, weights = (q, k)[:n], (q_weight, k_weight)[:n]
        outs = _forward(tensors, weights, rotation, norm, False, known)
        needs = ctx.needs_input_grad
        frozen = [out for i, out in enumerate(outs) if not (needs[i] or needs[2 + i])]
        keep(ctx, rotation, (*tensors, *weights), frozen)
        ctx.norm = norm
        return outs

    @staticmethod
    def backward(ctx, *grads):
        rotation, saved = kept(ctx)
        n, needs = len(grads), ctx.needs_input_grad
        wanted = [(needs[i], needs[2 + i]) for i in range(n)]
        found = _gradients(grads, saved[:n], saved[n:], wanted, rotation, ctx.norm)
        return *pair(tuple(found[:n])), *pair(tuple(found[n:])), None, None, None


class KernelGradients(torch.autograd.Function):
    """Gradients by the kernel as they are, whose derivatives PyTorch computes."""

    @staticmethod
    def forward(ctx, found, differentiate, *given):
        ctx.save_for_backward(*given)
        ctx.set_materialize_grads(False)
        ctx.differentiate = differentiate
        return found

    @staticmethod
    def backward(ctx, *grads):
        return None, None, *gradients_by_pytorch(ctx.differentiate, ctx.saved_tensors, grads)


def _gradients(
    grads: Sequence[Tensor | None],
    tensors: Tensors,
    weights: Weights,
    wanted: Sequence[tuple[bool, bool]],
    rotation: Rotation,
    norm: Norm,
) -> list[Tensor | None]:
    """Gradients of the tensors and of the weights, as far as they are `wanted` of each.

    In a trace or a transform, and of many `grads` at once, in a batch, PyTorch computes them.
    """
    n = len(tensors)
    found: list[Tensor | None] = [None] * (2 * n)
    asked: dict[tuple[bool, bool], list[int]] = {}  # of one launch if they want the same
    for i, what in enumerate(wanted):
        if grads[i] is not None and any(what):
            asked.setdefault(what, []).append(i)
    if not asked:
        return found
    rows = *tensors, *weights
    if is_traced() or is_transformed() or not have_memory(grads):
        return _gradients_by_pytorch(rotation, norm, *rows, *grads)
    for (inputs, of_weights), which in asked.items():
        chosen = [tuple([row[i] for i in which]) for row in (tensors, grads, weights)]
        outs, shares = _backward(*chosen, rotation, norm, inputs, of_weights)
        for place, i in enumerate(which):
            found[i], found[n + i] = outs[place], shares[place]
    if torch.is_grad_enabled():
        again = partial(_gradients_by_pytorch, rotation, norm)
        found = list(KernelGradients.apply(tuple(found), again, *rows, *grads))
    return found


def _gradients_by_pytorch(
    rotation: Rotation, norm: Norm, *given: Tensor | None
) -> list[Tensor | None]:
    """The same of tensors, weights and their `grads`, as many of each; differentiable."""
    n = len(given) // 3

    def normalized(*rows: Tensor) -> Tensors:
        return normalize_and_rotate(rows[:n], rows[n:], rotation, norm)

    return gradients_by_pytorch(normalized, given[: 2 * n], given[2 * n :])


# By the kernels


def _forward(
    tensors: Tensors,
    weights: Weights,
    rotation: Rotation,
    norm: Norm,
    inplace: bool,
    known: Known | None,
) -> Tensors:
    outs = tensors if inplace else rotation.memory_for(tensors)

    def prepare_launch():
        if not has_elements(tensors):
            return None
        # in place, minus x comes out as minus what x does
        read = pair(tensors) if inplace else [resolved(x) for x in pair(tensors)]
        own = [None if x is None else x.resolve_neg().contiguous() for x in pair(weights)]
        named = dict(zip(("q", "k", "q_out", "k_out"), (*read, *pair(outs)), strict=True))
        programs, arguments, options = plan(named, rotation, choose=choose_norm_tile)
        arguments |= _numbers_of(norm) | _roundings(tensors[0], weights[0], rotation, norm)
        # Heads apart, rows of 256 bytes: Triton 3.6 loses 18 points without the limit.
        apart = arguments["ROWS_OUTER"] and arguments["COLUMNS"] == 64 and not arguments["TAIL"]
        arguments["WEIGHTS_LAST"] = apart or rotation.cu_seqlens is not None
        arguments["FUSED"] = options["enable_fp_fusion"]
        if apart and arguments["FAST_SINE"] and tensors[0].element_size() == 2:
            options["maxnreg"] = HEADS_APART_REGISTERS
        given = *read, *pair(outs), *own, *as_read(rotation)
        return "norm_rope_kernel", given, programs, arguments, options

    given = *pair(tensors), *pair(outs), *pair(weights), *rotation.tensors
    run(known, given, prepare_launch, numbers=(rotation.first_position,))
    return outs


def _backward(
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

    def prepare_launch():
        if not has_elements(tensors):
            return None
        rows = [resolved(x) for x in (*pair(tensors), *pair(grads), *pair(outs))]
        own = [None if x is None else x.resolve_neg().contiguous() for x in pair(weights)]
        names = "q", "k", "q_grad", "k_grad", "q_out", "k_out"
        named = dict(zip(names, rows, strict=True))
        _, tile_bytes, registers = _share_of_an_sm(tensors, rotation)
        tile = partial(choose_norm_backward_tile, tile_bytes=tile_bytes)
        _, arguments, options = plan(named, rotation, choose=tile)
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
        return "norm_rope_backward_kernel", given, programs, arguments, options

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

    def prepare_launch():
        rows = min(PARTIALS_AT_ONCE, next_power_of_2(max(1, programs)))
        blocks = len(of_weights) * -(-d // (PARTIALS // rows))
        arguments = {"q_programs": q_programs, "programs": programs, "D": d}
        arguments |= {"BLOCK_N": rows, "BLOCK_D": PARTIALS // rows}
        options = {"num_warps": SUM_WARPS, "enable_fp_fusion": True}
        return "sum_partials_kernel", (partials, *pair(of_weights)), blocks, arguments, options

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
