"""How models' functions rotate, which of their calls the kernel supports, and what replaces them.

A `Rule` describes how a function rotates, and computes the same with the kernel. A form is the
replacement: it has the function's signature, and calls the original if the rule can't rotate.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from ..api import check_and_rotate
from ..checks import FLOATS
from ..paths import is_dtensor, log_once
from ..rotation import Call, OutputPairing, Rounding

_DIMENSIONS = ((4, 3), (4, 2), (3, 2))  # the number of dimensions of q, and of a table
HEADS_FIRST, HEADS_LAST = -3, -2  # the dimension of heads in (b, h, s, d) and (b, s, h, d)

Tensors = tuple[Tensor, ...]  # one or two
Original = Callable[..., object]  # a model's function
Form = Callable[..., object]  # what replaces it: see the end of this file
# `Rule.rotate`, which a form calls first, with tensors, cos, sin and `unsqueeze_dim`. If it returns
# None, the form calls the original.
Rotate = Callable[[Tensors, Tensor, Tensor, int], Tensors | None]

# Why the original computes a call.
_NO_TENSOR = "an argument is not a tensor, or is a DTensor"
_OTHER_DTYPE = "the kernel doesn't support these dtypes or devices"
_OTHER_SHAPE = "the kernel doesn't support these shapes"
_TRAINED = "cos or sin requires a gradient"


@dataclass(frozen=True)
class Rule:
    """One way to rotate, in the terms of `rope_qk`, and the functions that rotate this way."""

    digests: str  # of their code, separated by spaces
    form: Form
    name: str = "apply_rotary_pos_emb"  # the functions' name in the models
    _: KW_ONLY
    interleaved: bool = False  # pairs are neighbors, not half-split
    # The columns of a table. "of elements": one per element, so a pair has two. "of pairs": one per
    # pair. "first half": one per pair, followed by as many that are not read.
    columns: Literal["of elements", "first half", "of pairs"] = "of elements"
    rest: Literal["none", "after", "before"] = "none"  # where elements are that don't rotate
    rounding: Rounding = "model"
    casts_back: bool = False  # the result is cast to q's dtype if an fp32 table promotes it
    inverse: bool = False  # the sine is negated
    output_pairing: OutputPairing = "same"

    def rotary_dim(self, cos: Tensor) -> int:
        """The number of rotated elements of a row."""
        if self.columns == "first half":
            return cos.shape[-1] // 2 * 2
        return cos.shape[-1] * (2 if self.columns == "of pairs" else 1)

    def promotes(self, q: Tensor, cos: Tensor) -> bool:
        """Whether the result has another dtype than q, as under autocast with fp32 tables."""
        return not self.casts_back and q.dtype != cos.dtype and q.dtype != torch.float32

    def why_not(self, tensors: Tensors, cos: Tensor, sin: Tensor, unsqueeze_dim: int) -> str | None:
        """Why the original must compute a call; None: the kernel returns the same.

        docs/hugging_face.md lists these calls.
        """
        q = tensors[0]
        for x in (*tensors, cos, sin):  # This runs in every call, and a generator would be slower.
            if not isinstance(x, Tensor) or is_dtensor(x):
                return _NO_TENSOR
            if x.dtype not in FLOATS[:3] or x.device != q.device:
                return _OTHER_DTYPE
        if sin.dtype != cos.dtype:
            return _OTHER_DTYPE
        if sin.shape != cos.shape:
            return _OTHER_SHAPE
        if (cos.requires_grad or sin.requires_grad) and torch.is_grad_enabled():
            return _TRAINED
        if self.promotes(q, cos) and cos.dtype != torch.float32:
            return _OTHER_DTYPE  # PyTorch promotes bf16 and fp16 to fp32, the dtype of neither.
        heads = heads_of(cos, unsqueeze_dim)
        shape, table_shape = q.shape, cos.shape
        dimensions = len(shape), len(table_shape)
        if heads not in (HEADS_FIRST, HEADS_LAST) or dimensions not in _DIMENSIONS:
            return _OTHER_SHAPE
        for x in tensors[1:]:  # The number of heads may differ.
            same = x.shape[:heads] == shape[:heads] and x.shape[heads + 1 :] == shape[heads + 1 :]
            if x.dtype != q.dtype or not same:
                return _OTHER_SHAPE if x.dtype == q.dtype else _OTHER_DTYPE
        positions = HEADS_LAST if heads == HEADS_FIRST else HEADS_FIRST
        fits_batch = len(table_shape) == 2 or table_shape[0] in (1, shape[0])
        if table_shape[-2] != shape[positions] or not fits_batch:
            return _OTHER_SHAPE
        width, d = self.rotary_dim(cos), shape[-1]
        fits = 2 <= width <= d and width % 2 == 0 and (width == d or self.rest != "none")
        return None if fits else _OTHER_SHAPE

    def rotate(
        self,
        tensors: Tensors,
        cos: Tensor,
        sin: Tensor,
        unsqueeze_dim: int,
        function: str | None,
        fused: bool = True,
    ) -> Tensors | None:
        """Rotate one or two tensors in one launch, with the bits and dtype of the function.

        Args:
            tensors: q and k, or one of them, (b, h, s, d), (b, s, h, d) or (s, h, d).
            cos, sin: the function's tables, (b, s, w), (1, s, w) or (s, w).
            unsqueeze_dim: where the function inserts the dimension of heads into a table.
            function: its name for the log. None: nothing is logged.
            fused: False: plain PyTorch computes it.

        Returns:
            One tensor for each; or None if the original must compute the call.
        """
        not_ours = self.why_not(tensors, cos, sin, unsqueeze_dim)
        if not_ours is not None:
            if function is not None:
                log_own(function, not_ours)
            return None
        q, width = tensors[0], self.rotary_dim(cos)
        promotes = self.promotes(q, cos)
        has_batch = q.dim() == 4
        heads = heads_of(cos, unsqueeze_dim)
        if not has_batch:
            tensors = tuple([x[None] for x in tensors])
        if self.columns == "first half":
            cos, sin = cos[..., : width // 2], sin[..., : width // 2]
        call = Call.__new__(
            Call,
            freqs=(cos, sin),
            tensor_format="bhsd" if heads == HEADS_FIRST else "bshd",
            rotary_dim=width,
            rotary_start=q.shape[-1] - width if self.rest == "before" else 0,
            interleaved=self.interleaved,
            output_pairing=self.output_pairing,
            inverse=self.inverse,
            rounding=self.rounding,
            fused=fused,
            promoted_from=q.dtype if promotes else None,
            contiguous_gradients=True,
        )
        outs = check_and_rotate(function, tensors, call)
        return outs if has_batch else tuple([x[0] for x in outs])

    @torch.no_grad()
    def agrees_with(self, function: Original) -> bool:
        """Whether the function returns this rule's bits for a small input, without raising."""
        d, turning = 8, 8 if self.rest == "none" else 4
        width = turning // 2 if self.columns == "of pairs" else turning
        shape, rows = ((3, 2), (3,)) if self.form is vision else ((2, 2, 3), (2, 3))
        x = _some_numbers(*shape, d).bfloat16()
        tensors = (x,) if self.form is one_tensor else (x, x.flip(-1))
        rotate = partial(self.rotate, function=None, fused=False)
        for dtype in (torch.bfloat16, torch.float32):
            table = _some_numbers(2, *rows, width).to(dtype).unbind()
            wanted = self.form(rotate, _raise, *tensors, *table)
            try:
                found = function(*tensors, *table)
                torch.testing.assert_close(found, wanted, rtol=0, atol=0)
            except Exception:  # Any error means that the function isn't what its code suggests.
                return False
        return True


def _some_numbers(*shape: int) -> Tensor:
    """Numbers from -2 to 2, in fp32 on the CPU, whatever PyTorch's defaults are."""
    count = math.prod(shape)
    return torch.linspace(-2, 2, count, dtype=torch.float32, device="cpu").view(shape)


def _raise(*args: object, **kwargs: object) -> object:
    raise AssertionError("the rule doesn't take the call")


def log_own(function: str, reason: str) -> None:
    """Log a call that the model's own function computes."""
    log_once(function, "the model's own function", reason)


def heads_of(cos: Tensor, unsqueeze_dim: int) -> int:
    """The dimension of heads, counted from the end, which `unsqueeze` inserts into a table."""
    return unsqueeze_dim if unsqueeze_dim < 0 else unsqueeze_dim - cos.dim() - 1


# Forms replace functions with the same signature. `patch` binds the first two arguments: `rotate`,
# and the original for calls that `rotate` doesn't support.


def q_and_k(
    rotate: Rotate,
    original: Original,
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    unsqueeze_dim: int = 1,
) -> object:
    """The signature in most models."""
    outs = rotate((q, k), cos, sin, unsqueeze_dim)
    return outs or original(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)


def with_unused_ids(
    rotate: Rotate,
    original: Original,
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    position_ids: object = None,
    unsqueeze_dim: int = 1,
) -> object:
    """DeepSeek V3's interleaved function, GLM-ASR: position ids are an argument, but unused."""
    outs = rotate((q, k), cos, sin, unsqueeze_dim)
    return outs or original(q, k, cos, sin, position_ids=position_ids, unsqueeze_dim=unsqueeze_dim)


def q_alone_or_with_k(
    rotate: Rotate,
    original: Original,
    q: Tensor,
    k: Tensor | None = None,
    # The original has these defaults, and computes calls without tables.
    cos: Tensor = None,  # type: ignore[assignment]  # see above
    sin: Tensor = None,  # type: ignore[assignment]  # see above
    unsqueeze_dim: int = 1,
) -> object:
    """Qwen4-exp: without keys, the result is a tensor."""
    outs = rotate((q,) if k is None else (q, k), cos, sin, unsqueeze_dim)
    if outs is None:
        return original(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    return outs[0] if k is None else outs


def q_with_k_or_none(
    rotate: Rotate,
    original: Original,
    q: Tensor,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    unsqueeze_dim: int = 1,
) -> object:
    """Mistral Large 4: without keys, the result contains None instead."""
    outs = rotate((q,) if k is None else (q, k), cos, sin, unsqueeze_dim)
    if outs is None:
        return original(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    return (outs[0], None) if k is None else outs


def one_tensor(
    rotate: Rotate,
    original: Original,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    unsqueeze_dim: int = 1,
) -> object:
    """Gemma 3n, Gemma 4, DeepSeek V4."""
    outs = rotate((x,), cos, sin, unsqueeze_dim)
    return outs[0] if outs else original(x, cos, sin, unsqueeze_dim)


def vision(
    rotate: Rotate, original: Original, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor
) -> object:
    """The vision towers of Qwen2-VL and others: (s, h, d), or (b, s, h, d)."""
    return rotate((q, k), cos, sin, -2) or original(q, k, cos, sin)
