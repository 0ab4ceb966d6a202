"""How models' functions rotate, which of their calls a kernel takes, and what replaces them.

A `Rule` says how a function rotates, and rotates in its place. A form takes the function's calls:
it has the same arguments, and calls the function itself where its rule can't rotate.
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
from ..modes import is_dtensor
from ..paths import log_once
from ..rotation import Call, OutputPairing, Rounding

_DIMENSIONS = ((4, 3), (4, 2), (3, 2))  # how many q has, and how many a table has
HEADS_FIRST, HEADS_LAST = -3, -2  # the dimension of heads in (b, h, s, d) and (b, s, h, d)

Tensors = tuple[Tensor, ...]  # one or two
Original = Callable[..., object]  # a function that a model has
Form = Callable[..., object]  # what takes its calls; all are at the end of this file
# What a form calls first, with tensors, cos, sin and `unsqueeze_dim`: `Rule.rotate`. None: the
# function itself has to do it.
Rotate = Callable[[Tensors, Tensor, Tensor, int], Tensors | None]

# Why the function itself takes a call.
_NO_TENSOR = "an argument is not a tensor, or is a DTensor"
_OTHER_DTYPE = "the kernel doesn't support these dtypes or devices"
_OTHER_SHAPE = "the kernel doesn't support these shapes"
_TRAINED = "cos or sin requires a gradient"


@dataclass(frozen=True)
class Rule:
    """One way to rotate, in the words of `rope_qk`, and the functions that do."""

    digests: str  # of their code, with spaces between them
    form: Form
    name: str = "apply_rotary_pos_emb"  # what the models call it
    _: KW_ONLY
    interleaved: bool = False  # neighbors are a pair, not the members of two halves
    # What a column of a table is for. "of elements": for an element, so a pair has two. "of pairs":
    # for a pair. "first half": for a pair, but there are twice as many, and the second half of them
    # is not read.
    columns: Literal["of elements", "first half", "of pairs"] = "of elements"
    rest: Literal["none", "after", "before"] = "none"  # where elements pass through
    rounding: Rounding = "model"
    casts_back: bool = False  # the result has the dtype of q, where a table in fp32 would promote
    # It ends in a concatenation, so the result is contiguous; else that has the strides of q.
    concatenates: bool = False
    inverse: bool = False  # the sine is negated
    output_pairing: OutputPairing = "same"

    def rotary_dim(self, cos: Tensor) -> int:
        """How many elements of a row turn."""
        if self.columns == "first half":
            return cos.shape[-1] // 2 * 2
        return cos.shape[-1] * (2 if self.columns == "of pairs" else 1)

    def promotes(self, q: Tensor, cos: Tensor) -> bool:
        """Whether the result has another dtype than q, as in autocast, where tables are in fp32."""
        return not self.casts_back and q.dtype != cos.dtype and q.dtype != torch.float32

    def why_not(self, tensors: Tensors, cos: Tensor, sin: Tensor, unsqueeze_dim: int) -> str | None:
        """Why the function itself takes a call; None: a kernel gives what it gives.

        docs/hugging_face.md has these calls.
        """
        q = tensors[0]
        for x in (*tensors, cos, sin):  # no generators here: this is in every call
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
            return _OTHER_DTYPE  # bf16 and fp16: PyTorch makes fp32 of the two
        heads = heads_of(cos, unsqueeze_dim)
        shape, table_shape = q.shape, cos.shape
        dimensions = len(shape), len(table_shape)
        if heads not in (HEADS_FIRST, HEADS_LAST) or dimensions not in _DIMENSIONS:
            return _OTHER_SHAPE
        for x in tensors[1:]:  # they may differ in the number of heads
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
        """Rotate one or two tensors in one launch: bits, dtype and strides of the function.

        Args:
            tensors: q and k, or one of them, (b, h, s, d), (b, s, h, d) or (s, h, d).
            cos, sin: the function's tables, (b, s, w), (1, s, w) or (s, w).
            unsqueeze_dim: where the function gives a table the dimension of heads.
            function: its name, as it is logged. None: nothing is logged.
            fused: False: plain PyTorch computes it.

        Returns:
            A tensor for each; None if the call is one for the function itself.
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
            keeps_strides=self.rest == "none" and not self.concatenates,
        )
        outs = check_and_rotate(function, tensors, call)
        return outs if has_batch else tuple([x[0] for x in outs])

    @torch.no_grad()
    def agrees_with(self, function: Original) -> bool:
        """Whether the function has this rule's bits, tried on a few numbers; not if it raises."""
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
            except Exception:  # of whatever kind: the function isn't what its code says
                return False
        return True


def _some_numbers(*shape: int) -> Tensor:
    """From -2 to 2, on the CPU and in fp32 whatever PyTorch's defaults are."""
    count = math.prod(shape)
    return torch.linspace(-2, 2, count, dtype=torch.float32, device="cpu").view(shape)


def _raise(*args: object, **kwargs: object) -> object:
    raise AssertionError("the rule doesn't take the call")


def log_own(function: str, reason: str) -> None:
    """Log a call that the model's own function takes."""
    log_once(function, "the model's own function", reason)


def heads_of(cos: Tensor, unsqueeze_dim: int) -> int:
    """The dimension of heads, from the end: where `unsqueeze` gives a table a new one."""
    return unsqueeze_dim if unsqueeze_dim < 0 else unsqueeze_dim - cos.dim() - 1


# Forms: what takes the place of a function, with the same arguments. `patch` binds the first two:
# what rotates, and the function itself, which takes the calls that the other doesn't.


def q_and_k(
    rotate: Rotate,
    original: Original,
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    unsqueeze_dim: int = 1,
) -> object:
    """Most of the models."""
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
    """DeepSeek V3's interleaved function, GLM-ASR: position ids are there and have no use."""
    outs = rotate((q, k), cos, sin, unsqueeze_dim)
    return outs or original(q, k, cos, sin, position_ids=position_ids, unsqueeze_dim=unsqueeze_dim)


def q_alone_or_with_k(
    rotate: Rotate,
    original: Original,
    q: Tensor,
    k: Tensor | None = None,
    # These defaults are the function's own, which takes a call that leaves the tables out.
    cos: Tensor = None,  # type: ignore[assignment]  # see above
    sin: Tensor = None,  # type: ignore[assignment]  # see above
    unsqueeze_dim: int = 1,
) -> object:
    """Qwen4-exp: without keys the result is a tensor."""
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
    """Mistral Large 4: without keys the result has None in their place."""
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
    """The towers of Qwen2-VL and others: (s, h, d), or (b, s, h, d)."""
    return rotate((q, k), cos, sin, -2) or original(q, k, cos, sin)
