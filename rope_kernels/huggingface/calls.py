"""A call of a model's rotation function: whether `rope_qk` takes it, and with what options."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..api import rotate_call
from ..call.arguments import Call, OutputPairing, Rounding
from ..call.formats import TensorFormat

_NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: "float32"}

# By the dimensions of q and of the table, and by where `unsqueeze` puts a table's new dimension:
# the format of q, with a batch of one if q has three dimensions.
_FORMATS: dict[tuple[int, int, int], TensorFormat] = {
    (4, 3, 1): "bhsd",
    (4, 3, 2): "bshd",
    (4, 2, 0): "bhsd",
    (4, 2, 1): "bshd",
    (3, 2, 0): "bhsd",
    (3, 2, 1): "bshd",
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How a function rotates: what its code says, in the words of `rope_qk`."""

    interleaved: bool = False  # neighbors are a pair, not the members of two halves
    # Which columns of a table belong to a pair: those of its two elements, that of its number in
    # the first half of the table, or in all of it.
    columns: Literal["of elements", "first half", "of pairs"] = "of elements"
    rest: Literal["none", "after", "before"] = "none"  # where elements pass through
    rounding: Rounding = "model"
    promoted: Rounding | None = None  # the same if q meets a table in fp32; None: no difference
    casts_back: bool = False  # the result has the dtype of q, where a table in fp32 would promote
    concatenates: bool = False  # so the result is contiguous; else it has the strides of q
    inverse: bool = False  # the sine is negated
    output_pairing: OutputPairing = "same"

    def rotary_dim(self, cos: Tensor) -> int:
        """How many elements of a row turn."""
        columns = cos.shape[-1]
        if self.columns == "first half":
            return columns // 2 * 2
        return 2 * columns if self.columns == "of pairs" else columns

    def promotes(self, q: Tensor, cos: Tensor) -> bool:
        """Whether the result has another dtype than q, as in autocast, where tables are in fp32."""
        return not self.casts_back and q.dtype != cos.dtype and q.dtype != torch.float32

    def why_not(
        self, tensors: tuple[Tensor, ...], cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> str | None:
        """Why a call is one for the function itself, or None: `rotate` takes it."""
        q = tensors[0]
        if not all([isinstance(x, Tensor) for x in (*tensors, cos, sin)]):
            return "an argument is no tensor"
        if any([x.dtype not in _NAMES for x in (q, cos)]) or cos.dtype != sin.dtype:
            return "dtypes other than bf16, fp16 and fp32"
        if self.promotes(q, cos) and cos.dtype != torch.float32:
            return "a table in bf16 beside fp16, or in fp16 beside bf16, for a result in fp32"
        if torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad):
            return "a table that requires a gradient"
        if any([x.device != q.device for x in (*tensors, cos, sin)]):
            return "tensors on different devices"
        tensor_format = _format_of(q, cos, unsqueeze_dim)
        if tensor_format is None:
            return "dimensions that are not heads, positions and elements"
        return None if self._fit(tensors, cos, sin, tensor_format) else "sizes that PyTorch repeats"

    def _fit(
        self, tensors: tuple[Tensor, ...], cos: Tensor, sin: Tensor, tensor_format: TensorFormat
    ) -> bool:
        """Whether there is one row of the table for each position, and nothing is broadcast."""
        q = tensors[0]
        heads = q.dim() - (3 if tensor_format == "bhsd" else 2)
        positions = q.shape[-2 if tensor_format == "bhsd" else -3]
        for x in tensors[1:]:
            if x.dtype != q.dtype or x.dim() != q.dim():
                return False
            if (*x.shape[:heads], *x.shape[heads + 1 :]) != (
                *q.shape[:heads],
                *q.shape[heads + 1 :],
            ):
                return False
        if cos.shape != sin.shape or cos.shape[-2] != positions:
            return False
        if cos.dim() == 3 and cos.shape[0] != 1 and cos.shape[0] != q.shape[0]:
            return False
        width, d = self.rotary_dim(cos), q.shape[-1]
        if width < 2 or width % 2:
            return False
        return width == d if self.rest == "none" else width <= d

    def rotate(
        self, tensors: tuple[Tensor, ...], cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> tuple[Tensor, ...]:
        """Rotate one or two tensors in one launch: bits, dtype and strides of the function."""
        q, rotary_dim = tensors[0], self.rotary_dim(cos)
        tensor_format = _format_of(q, cos, unsqueeze_dim)
        if self.columns == "first half":
            cos, sin = cos[..., : rotary_dim // 2], sin[..., : rotary_dim // 2]
        has_batch, promotes = q.dim() == 4, self.promotes(q, cos)
        call = Call(
            tensors=tensors if has_batch else tuple([x[None] for x in tensors]),
            freqs=(cos, sin),
            tensor_format=tensor_format,
            fused=True,
            cu_seqlens=None,
            start_positions=None,
            position_ids=None,
            interleaved=self.interleaved,
            inplace=False,
            cp_size=1,
            cp_rank=0,
            rotary_dim=rotary_dim,
            rotary_start=q.shape[-1] - rotary_dim if self.rest == "before" else 0,
            inverse=self.inverse,
            output_pairing=self.output_pairing,
            rounding=self.promoted if promotes and self.promoted else self.rounding,
            promoted_from=_NAMES[q.dtype] if promotes else "",
            keeps_strides=self.rest == "none" and not self.concatenates,
        )
        outs = rotate_call(call)
        return outs if has_batch else tuple([x[0] for x in outs])


def _format_of(q: Tensor, cos: Tensor, unsqueeze_dim: int) -> TensorFormat | None:
    if unsqueeze_dim < 0:
        unsqueeze_dim += cos.dim() + 1
    return _FORMATS.get((q.dim(), cos.dim(), unsqueeze_dim))
