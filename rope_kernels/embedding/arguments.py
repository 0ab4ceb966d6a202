"""Numbers, dtypes and lengths that the module takes, and the errors for all others."""

import math
from numbers import Integral, Real

import torch
from torch import Tensor

EXACT = (torch.float32, torch.float64)
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_POSITIONS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8, *EXACT)


def is_number(value: object) -> bool:
    """Whether this is a finite number that a tensor can hold, and no bool."""
    if isinstance(value, Integral):
        return not isinstance(value, bool) and abs(int(value)) < 2**63
    return isinstance(value, Real) and math.isfinite(value)


def as_number(value: Real) -> int | float:
    """The same without NumPy's type, which PyTorch would round by."""
    return int(value) if isinstance(value, Integral) else float(value)


def check_positive(name: str, value: object) -> None:
    """Raise unless this is a finite number above 0."""
    if not (is_number(value) and value > 0):
        raise ValueError(f"{name} is {value!r}; accepted: a positive number below infinity")


def check_length(name: str, value: object) -> None:
    """Raise unless this is a number of tokens."""
    if not (isinstance(value, Integral) and is_number(value) and value > 0):
        raise ValueError(f"{name} is {value!r}; accepted: None, or a positive integer")


def check_rotary_dim(dim: object, rotary_percent: object) -> int:
    """d2, of a head dimension and the share of it that turns."""
    if isinstance(dim, bool) or not (isinstance(dim, Integral) or _is_whole_float(dim)):
        raise ValueError(f"dim is {dim!r}; accepted: a positive integer")
    if not (isinstance(rotary_percent, Real) and 0.0 < rotary_percent <= 1.0):
        came = f"rotary_percent is {rotary_percent!r}"
        raise ValueError(f"{came}; accepted: a number above 0, up to 1")
    rotary_dim = int(dim * rotary_percent)
    if rotary_dim < 2 or rotary_dim % 2:
        came = f"dim = {dim} and rotary_percent = {rotary_percent} give {rotary_dim}"
        raise ValueError(f"{came} rotary dimensions; accepted: an even number, at least 2")
    return rotary_dim


def check_span(max_seq_len: object, offset: object) -> None:
    """Raise unless these are a number of positions, and the first of them."""
    if isinstance(max_seq_len, Tensor) and max_seq_len.dim():
        came = f"max_seq_len is a tensor of shape {tuple(max_seq_len.shape)}"
        how = "To rotate a tensor: apply_rotary_pos_emb(t, freqs, tensor_format)"
        raise TypeError(f"{came}; accepted: a number of positions. {how}")
    if not _is_integer(max_seq_len):
        raise TypeError(f"max_seq_len is {max_seq_len!r}; accepted: an integer from 0")
    if not _is_integer(offset):
        raise TypeError(f"offset is {offset!r}; accepted: an integer")
    if max_seq_len < 0:
        raise ValueError(f"max_seq_len is {max_seq_len}; accepted: 0 or a positive number")


def check_positions(positions: object, device: torch.device) -> None:
    """Raise unless `RotaryPositionEmbedding.cos_sin` can take these."""
    accepted = "a tensor of positions, or a number of them"
    if not isinstance(positions, Tensor):
        if not _is_integer(positions):
            came = f"positions is of type {type(positions).__name__}"
            raise TypeError(f"{came}; accepted: {accepted}")
        if positions < 0:
            raise ValueError(f"positions is {positions}; accepted: {accepted}, from 0")
    elif positions.dtype not in _POSITIONS:
        came = f"positions has dtype {short(positions.dtype)}"
        raise TypeError(f"{came}; accepted: {', '.join(map(short, _POSITIONS))}")
    elif positions.device != device:
        needs = f"it must be on inv_freq's device, {device}"
        raise ValueError(f"positions is on {positions.device}; {needs}")


def check_dtype(dtype: object) -> None:
    """Raise unless cosines can have this dtype."""
    if dtype not in FLOATS:
        accepted = ", ".join(map(short, FLOATS))
        raise TypeError(f"dtype is {dtype!r}; accepted: {accepted}")


def short(dtype: torch.dtype) -> str:
    """Without the module it is in."""
    return str(dtype).removeprefix("torch.")


def _is_integer(value: object) -> bool:
    """Also in a tensor, and in a trace."""
    if isinstance(value, Tensor):
        return value.dim() == 0 and not (value.is_floating_point() or value.is_complex())
    if isinstance(value, int | torch.SymInt):
        return not isinstance(value, bool)
    return isinstance(value, Integral)  # of NumPy


def _is_whole_float(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()
