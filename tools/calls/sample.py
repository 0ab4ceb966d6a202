"""Calls to compile: a sample with every kernel and each feature that changes them, and any others.

The sample is that of the compile matrix. Sizes are small where they only set the number of
programs. Elements are bf16 where a call does not say otherwise. Tensors have addresses and strides
and no values that matter.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

import rope_kernels
from rope_kernels import RotaryPositionEmbedding, norm_rope, qk_norm_rope, rope_bw, rope_fw, rope_qk
from rope_kernels.launch.plan import Plan, RopeTensors
from rope_kernels.machine.engine import Engine
from rope_lab.compiler.norm_plans import (
    BACKWARD,
    FORWARD,
    NORMALIZED,
    SUM,
    NormTensors,
    plans_of_norm,
)
from rope_lab.compiler.plans import plan_for

from .call import Call
from .make import QuickMaker, arguments_of

S, B, H, D = 64, 2, 8, 128  # positions, batch entries, heads, head dimension


@dataclass(frozen=True)
class SampleCall:
    """A call of the package, not made yet."""

    function: Callable
    arguments: tuple
    options: dict = field(default_factory=dict)
    launch: str = FORWARD  # of a call with a norm, also the others in `plans_of_norm`

    def plans(self, engine: Engine) -> dict[str, tuple[Plan, RopeTensors | NormTensors]]:
        """Every launch of the call, and of the backward of one that normalizes."""
        if self.function in NORMALIZED:
            return plans_of_norm(engine, self.function, *self.arguments, **self.options)
        return {FORWARD: plan_for(engine, self.function, *self.arguments, **self.options)}


def to_compile(call: Call) -> SampleCall:
    """A call of `draw.py` or `timed.py`, on memory that is never touched."""
    made = arguments_of(call, rope_kernels, QuickMaker(0, 0, "cpu"))
    if call.norm and not call.inplace:
        for x in [*made.tensors, *made.weights]:
            if x is not None and x.is_leaf:
                x.requires_grad_()
    arguments, options = made.given(rope_kernels, made.tensors)
    return SampleCall(getattr(rope_kernels, call.function), tuple(arguments), options)


def sample_calls() -> dict[str, SampleCall]:
    """The sample by name. Formats are sbhd unless the call gives another one."""
    rotated = _one_tensor() | _pairings_and_positions() | _q_and_k() | _parts_of_rows()
    return rotated | _with_norm() | _rounded()


def _elements(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.empty(shape, dtype=dtype)


def _trained(*shape: int) -> Tensor:
    return _elements(*shape).requires_grad_()


def _one_tensor() -> dict[str, SampleCall]:
    """Each kind of frequencies, each width of elements."""
    rope, t = RotaryPositionEmbedding(D), _elements(S, B, H, D)
    single, double = (_elements(S, B, H, D, dtype=x) for x in (torch.float32, torch.float64))
    whole = {"rotary_dim": D}
    odd = _elements(S * B * H * D + 1)[1:].view(S, B, H, D)
    return {
        "table of angles": SampleCall(rope_fw, (t, rope(S))),
        "table of angles, backward": SampleCall(rope_bw, (t, rope(S))),
        "table of angles, fp32": SampleCall(rope_fw, (single, rope(S))),
        "table of angles, fp64": SampleCall(rope_fw, (double, rope(S))),
        "one angle per pair": SampleCall(rope_fw, (t, rope.angles_per_pair(S)), whole),
        "cosines and sines": SampleCall(rope_fw, (t, rope.cos_sin_per_pair(S)), whole),
        "on the fly": SampleCall(rope_fw, (t, rope)),
        "on the fly, input at an odd address": SampleCall(rope_fw, (odd, rope)),
    }


def _pairings_and_positions() -> dict[str, SampleCall]:
    """Neighbors as pairs, orders of memory, and positions that are looked up or computed."""
    rope, pairs = RotaryPositionEmbedding(D), RotaryPositionEmbedding(D, interleaved=True)
    t, half = _elements(S, B, H, D), _elements(S, B, H, D, dtype=torch.float16)
    to_half = {"interleaved": True, "output_pairing": "half"}
    heads_first, wider = _elements(B, H, S, D), _elements(S, B, 2 * H, D)
    cu_seqlens, starts = torch.tensor([0, 10, S]), torch.zeros(B, dtype=torch.int64)
    return {
        "interleaved": SampleCall(rope_fw, (t, pairs), {"interleaved": True}),
        "interleaved to half-split, fp16": SampleCall(rope_fw, (half, pairs(S)), to_half),
        "bhsd": SampleCall(rope_fw, (heads_first, rope(S), "bhsd")),
        "half of the heads": SampleCall(rope_fw, (wider[:, :, :H], rope)),
        "start positions": SampleCall(rope_fw, (t, rope), {"start_positions": starts}),
        "packed sequences": SampleCall(
            *(rope_fw, (_elements(S, H, D), rope, "thd"), {"cu_seqlens": cu_seqlens})
        ),
        "context parallel": SampleCall(rope_fw, (t, rope), {"cp_size": 2, "cp_rank": 1}),
    }


def _q_and_k() -> dict[str, SampleCall]:
    """Two tensors in one launch."""
    rope, qkv = RotaryPositionEmbedding(D), _elements(B, S, 3 * H, D).transpose(1, 2)
    ids = torch.zeros(B, S, dtype=torch.int64)
    q, k = _elements(B, S, H, D), _elements(B, S, 1, D)
    return {
        "q and k of a packed qkv, in place": SampleCall(
            *(rope_qk, (*qkv.split(H, dim=1)[:2], rope, "bhsd"), {"inplace": True})
        ),
        "q and k, position ids": SampleCall(
            *(rope_qk, (q, k, rope(S), "bshd"), {"position_ids": ids})
        ),
    }


def _parts_of_rows() -> dict[str, SampleCall]:
    """Rows of which a part turns, and rows whose halves are badly aligned."""
    half_rotary, latent = RotaryPositionEmbedding(D, 0.5), RotaryPositionEmbedding(64)
    at_the_end = {"rotary_start": 128, "rotary_dim": 64, "inverse": True}
    part72 = RotaryPositionEmbedding(72, 0.5)
    d72, d80, d100, d160 = (RotaryPositionEmbedding(n) for n in (72, 80, 100, 160))
    packed = {"cu_seqlens": torch.tensor([0, 10, S])}
    q, k = _elements(S, B, 3, 72), _elements(S, B, 1, 72)
    return {
        "half rotary": SampleCall(rope_fw, (_elements(S, B, H, D), half_rotary)),
        "rotary_start 128 of 192, inverse": SampleCall(
            *(rope_fw, (_elements(S, B, H, 192), latent.angles_per_pair(S)), at_the_end)
        ),
        "head dimension 72, q and k": SampleCall(rope_qk, (q, k, d72(S))),
        "head dimension 72, half rotary": SampleCall(rope_fw, (_elements(S, B, H, 72), part72)),
        "head dimension 80, in place": SampleCall(
            *(rope_fw, (_elements(S, B, 40, 80), d80), {"inplace": True})
        ),
        "head dimension 100, backward": SampleCall(
            *(rope_bw, (_elements(S, B, H, 100), d100.cos_sin_per_pair(S)), {"rotary_dim": 100})
        ),
        "head dimension 80, packed": SampleCall(
            rope_fw, (_elements(S, 40, 80), d80, "thd"), packed
        ),
        "head dimension 160": SampleCall(rope_fw, (_elements(S, B, H, 160), d160)),
    }


def _with_norm() -> dict[str, SampleCall]:
    """Norm and rotation: the forward, the backward, and the sum of the weights' gradients."""
    rope, weight = RotaryPositionEmbedding(D), _elements(D)
    q_and_k = _elements(S, B, H, D), _elements(S, B, 1, D), weight, weight, rope
    of_q, of_k = _trained(D), _trained(D)
    trained = _trained(S, B, H, D), _trained(S, B, 1, D), of_q, of_k, rope
    d72 = _trained(S, B, 3, 72), _trained(S, B, 1, 72), _trained(72), _trained(72)
    rounded = tuple([_elements(S, D // 2) for _ in ("cos", "sin")])
    by_head = _elements(B, H, S, D), _elements(H, D), rounded, "bhsd"
    as_in_a_model = {"rounding": "model", "rotary_dim": D}
    packed = _trained(S, H, D), of_q, rope, "thd"
    after = {"norm_after": True, "cu_seqlens": torch.tensor([0, 10, S])}
    all_heads = {"sumsq": _elements(S, B, 1).float(), "norm_dim": H * D}
    limited = _elements(B, H, S, D), weight, rope, "bhsd"  # of registers, on NVIDIA
    limited_too = _elements(S, H, D), weight, rope.cos_sin_per_pair(S), "thd"
    in_order = {"cu_seqlens": torch.tensor([0, 10, S]), "rotary_dim": D}
    return {
        "norm of q and k": SampleCall(qk_norm_rope, q_and_k),
        "norm, bhsd": SampleCall(norm_rope, limited),
        "norm, cosines and sines, packed": SampleCall(norm_rope, limited_too, in_order),
        "norm, rounded as in a model, bhsd": SampleCall(norm_rope, by_head, as_in_a_model),
        "norm after, packed": SampleCall(norm_rope, packed, after),
        "norm of q and k, backward": SampleCall(qk_norm_rope, trained, launch=BACKWARD),
        "norm after, packed, backward": SampleCall(norm_rope, packed, after, BACKWARD),
        "norm of head dimension 72, backward": SampleCall(
            qk_norm_rope, (*d72, RotaryPositionEmbedding(72)), launch=BACKWARD
        ),
        "norm over all heads, backward": SampleCall(
            norm_rope, (_trained(S, B, H, D), _trained(H, D), rope), all_heads, BACKWARD
        ),
        "norm of q and k, sum of shares": SampleCall(qk_norm_rope, trained, launch=SUM),
    }


def _rounded() -> dict[str, SampleCall]:
    """As PyTorch's operators round in a model: no multiply-add is fused."""
    t, rope, model = _elements(S, B, H, D), RotaryPositionEmbedding(D), {"rounding": "model"}
    return {"on the fly, rounded as in a model": SampleCall(rope_fw, (t, rope), model)}
