"""A call of a model's rotation function: whether `rope_qk` takes it, and with what options."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from .. import api
from ..modes import is_dtensor
from ..norm import Norm, Weights, normalize_by
from ..rotation import OutputPairing, Rotation, Rounding, TensorFormat

_NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: "float32"}


@dataclass(frozen=True)
class _Layout:
    """Which dimension of q is which."""

    tensor_format: TensorFormat
    positions: int
    alike: tuple[int, ...]  # all dimensions but the heads

    def fits(self, tensors: tuple[Tensor, ...]) -> bool:
        """Whether the others differ from q in the number of heads alone."""
        q = tensors[0]
        shape = q.shape
        for x in tensors[1:]:
            if x.dtype != q.dtype or x.device != q.device or x.dim() != q.dim():
                return False
            other = x.shape
            for dim in self.alike:
                if other[dim] != shape[dim]:
                    return False
        return True

    def fits_table(self, q: Tensor, cos: Tensor) -> bool:
        """Whether there is a row for each position, for all batch entries or for each."""
        shape, table = q.shape, cos.shape
        if table[-2] != shape[self.positions] or cos.device != q.device:
            return False
        return len(table) == 2 or table[0] == 1 or table[0] == shape[0]


# By the dimensions of q and of the table, and by where `unsqueeze` puts a table's new dimension.
# The format is that of q, with a batch of one if q has three dimensions.
_LAYOUTS = {
    (4, 3, 1): _Layout("bhsd", 2, (0, 2, 3)),
    (4, 3, 2): _Layout("bshd", 1, (0, 1, 3)),
    (4, 2, 0): _Layout("bhsd", 2, (0, 2, 3)),
    (4, 2, 1): _Layout("bshd", 1, (0, 1, 3)),
    (3, 2, 0): _Layout("bhsd", 1, (1, 2)),
    (3, 2, 1): _Layout("bshd", 0, (0, 2)),
}


_HEADS_FIRST, _HEADS_LAST = _LAYOUTS[4, 3, 1], _LAYOUTS[4, 3, 2]


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
        if torch.jit.is_tracing():  # sizes are tensors, and checks of values are not recorded
            return "torch.jit.trace, which records operators"
        for x in (*tensors, cos, sin):  # no generators from here on: this is in every call
            if not isinstance(x, Tensor):
                return "an argument is no tensor"
            if is_dtensor(x):
                return "a DTensor, which PyTorch's operators take"
        q = tensors[0]
        dtype, in_table = q.dtype, cos.dtype
        if dtype not in _NAMES or in_table not in _NAMES or sin.dtype != in_table:
            return "dtypes other than bf16, fp16 and fp32"
        if dtype != in_table and self.promotes(q, cos) and in_table != torch.float32:
            return "a table in bf16 beside fp16, or in fp16 beside bf16, for a result in fp32"
        if (cos.requires_grad or sin.requires_grad) and torch.is_grad_enabled():
            return "a table that requires a gradient"
        layout = _layout_of(q, cos, unsqueeze_dim)
        if layout is None:
            return "dimensions that are not heads, positions and elements"
        if not layout.fits(tensors):
            return "keys of another dtype or device, or not shaped as q but for the heads"
        if not (layout.fits_table(q, cos) and cos.shape == sin.shape):
            return "a table that has not one row for each position of q, or on another device"
        width, d = self.rotary_dim(cos), q.shape[-1]
        if width < 2 or width % 2 or width > d or (width < d and self.rest == "none"):
            return "a table of another width"
        return None

    def rotate(
        self, tensors: tuple[Tensor, ...], cos: Tensor, sin: Tensor, unsqueeze_dim: int
    ) -> tuple[Tensor, ...]:
        """Rotate one or two tensors in one launch: bits, dtype and strides of the function."""
        promotes = self.promotes(tensors[0], cos)
        return self._rotate(
            tensors,
            cos,
            sin,
            _layout_of(tensors[0], cos, unsqueeze_dim),
            rounding=self.promoted if promotes and self.promoted else self.rounding,
            promoted_from=_NAMES[tensors[0].dtype] if promotes else "",
            keeps_strides=self.keeps_strides,
        )

    def normalize_and_rotate(
        self,
        tensors: tuple[Tensor, ...],
        cos: Tensor,
        sin: Tensor,
        unsqueeze_dim: int,
        weights: Weights,
        norm: Norm,
    ) -> tuple[Tensor, ...]:
        """Normalize, too: the dtype of q, and the strides that a model's operators give."""
        layout = _layout_of(tensors[0], cos, unsqueeze_dim)
        if not (self.keeps_strides and layout == _HEADS_FIRST):
            return self._rotate(tensors, cos, sin, layout, (weights, norm))
        # what comes out is contiguous in the format that is named: in that of a projection's rows
        rows = tuple([x.transpose(1, 2) for x in tensors])
        outs = self._rotate(rows, cos, sin, _HEADS_LAST, (weights, norm))
        return tuple([x.transpose(1, 2) for x in outs])

    @property
    def keeps_strides(self) -> bool:
        """Whether the result has the strides of q; else it is contiguous."""
        return self.rest == "none" and not self.concatenates

    def _rotate(
        self,
        tensors: tuple[Tensor, ...],
        cos: Tensor,
        sin: Tensor,
        layout: _Layout | None,
        normalized: tuple[Weights, Norm] | None = None,
        **options: Any,
    ) -> tuple[Tensor, ...]:
        if layout is None:
            raise ValueError("why_not has a reason against this call")
        q, rotary_dim = tensors[0], self.rotary_dim(cos)
        if self.columns == "first half":
            cos, sin = cos[..., : rotary_dim // 2], sin[..., : rotary_dim // 2]
        has_batch = q.dim() == 4
        options |= {
            "interleaved": self.interleaved,
            "rotary_dim": rotary_dim,
            "rotary_start": q.shape[-1] - rotary_dim if self.rest == "before" else 0,
            "inverse": self.inverse,
            "output_pairing": self.output_pairing,
        }
        rotation = Rotation(cos, sin, tensor_format=layout.tensor_format, **options)
        given = tensors if has_batch else tuple([x[None] for x in tensors])
        if normalized is None:
            outs = api.rotate(given, (cos, sin), rotation)
        else:
            weights, norm = normalized
            outs = normalize_by(norm, given, weights, (cos, sin), rotation)
        return outs if has_batch else tuple([x[0] for x in outs])


def _layout_of(q: Tensor, cos: Tensor, unsqueeze_dim: int) -> _Layout | None:
    if unsqueeze_dim < 0:
        unsqueeze_dim += cos.dim() + 1
    return _LAYOUTS.get((q.dim(), cos.dim(), unsqueeze_dim))
