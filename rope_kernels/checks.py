"""What the public functions accept, and the errors for everything else.

Every message names the argument, what came and what is accepted. All checks run before a kernel is
launched. Values that lie on the GPU are not read back (that would stall the GPU and forbid CUDA
graphs): there only shapes, dtypes and devices are checked.
"""

import torch
from torch import Tensor

from .formats import FORMATS, rank_of, view_as_sbhd

_T_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_CU_SEQLENS_DTYPES = (torch.int32, torch.int64)


def check_arguments(
    t: Tensor, freqs: Tensor, tensor_format: str, cu_seqlens: Tensor | None, name: str = "t"
) -> None:
    """Raise `TypeError` or `ValueError` unless the four arguments fit together.

    `name` is what the caller calls the tensor to rotate (`t`, or `grad` in the backward).
    """
    _check_format(tensor_format)
    _check_t(t, tensor_format, name)
    _check_freqs(t, freqs, tensor_format, name)
    _check_cu_seqlens(t, freqs, tensor_format, cu_seqlens, name)


def check_last_dim_is_even(x: Tensor) -> None:
    """`rotate_half` needs a tensor whose last dimension has two equal halves."""
    _require_tensor(x, "x")
    if x.dim() == 0 or x.shape[-1] % 2:
        raise ValueError(
            f"x has shape {tuple(x.shape)}; its last dimension must be even, to have two halves"
        )


def _check_format(tensor_format: str) -> None:
    if tensor_format not in FORMATS:
        raise ValueError(f"tensor_format is {tensor_format!r}; accepted: {', '.join(FORMATS)}")


def _check_t(t: Tensor, tensor_format: str, name: str) -> None:
    _require_tensor(t, name)
    _require_dtype(t, name, _T_DTYPES)
    if t.dim() != rank_of(tensor_format):
        raise ValueError(
            f"{name} has shape {tuple(t.shape)}, {t.dim()} dimensions; "
            f"tensor_format {tensor_format!r} needs {rank_of(tensor_format)}"
        )


def _check_freqs(t: Tensor, freqs: Tensor, tensor_format: str, name: str) -> None:
    _require_tensor(freqs, "freqs")
    accepted = (torch.float32, torch.float64) if t.dtype == torch.float64 else (torch.float32,)
    # fp16 or bf16 angles cannot tell position 2048 from 2049: refused, never rounded up in silence
    _require_dtype(freqs, "freqs", accepted, why=f" with {name} of {_short(t.dtype)}")
    if freqs.dim() != 4 or freqs.shape[1] != 1 or freqs.shape[2] != 1:
        raise ValueError(f"freqs has shape {tuple(freqs.shape)}; accepted: (s2, 1, 1, d2)")
    rotary_dim, head_dim = freqs.shape[-1], t.shape[-1]
    if rotary_dim % 2 or not 2 <= rotary_dim <= head_dim:
        raise ValueError(
            f"freqs has last dimension d2 = {rotary_dim}; accepted: an even number from 2 to "
            f"{name}'s head dimension d = {head_dim}"
        )
    _require_device(freqs, "freqs", t, name)
    if tensor_format != "thd":
        seq_len = view_as_sbhd(t, tensor_format).shape[0]
        if freqs.shape[0] < seq_len:
            raise ValueError(
                f"freqs has angles for s2 = {freqs.shape[0]} positions; {name} of shape "
                f"{tuple(t.shape)} in format {tensor_format!r} needs at least s = {seq_len}"
            )


def _check_cu_seqlens(
    t: Tensor, freqs: Tensor, tensor_format: str, cu_seqlens: Tensor | None, name: str
) -> None:
    if tensor_format != "thd":
        if cu_seqlens is not None:
            raise ValueError(
                f"cu_seqlens came with tensor_format {tensor_format!r}; accepted only with 'thd'"
            )
        return
    if cu_seqlens is None:
        raise ValueError(
            "cu_seqlens is None; tensor_format 'thd' needs the cumulative sequence lengths, "
            "int32 or int64 of shape (b + 1,)"
        )
    _require_tensor(cu_seqlens, "cu_seqlens")
    _require_dtype(cu_seqlens, "cu_seqlens", _CU_SEQLENS_DTYPES)
    if cu_seqlens.dim() != 1 or cu_seqlens.numel() == 0:
        raise ValueError(f"cu_seqlens has shape {tuple(cu_seqlens.shape)}; accepted: (b + 1,)")
    _require_device(cu_seqlens, "cu_seqlens", t, name)
    # vmap over cu_seqlens: its values cannot be read here
    if cu_seqlens.device.type == "cpu" and not torch._C._functorch.is_batchedtensor(cu_seqlens):
        _check_cu_seqlens_values(t, freqs, cu_seqlens, name)


def _check_cu_seqlens_values(t: Tensor, freqs: Tensor, cu_seqlens: Tensor, name: str) -> None:
    lengths = cu_seqlens.diff()
    if cu_seqlens[0] != 0 or (lengths < 0).any():
        raise ValueError(
            f"cu_seqlens is {_head(cu_seqlens)}; accepted: values that start at 0 and never fall"
        )
    if cu_seqlens[-1] > t.shape[0]:
        raise ValueError(
            f"cu_seqlens ends at {cu_seqlens[-1].item()}; {name} of shape {tuple(t.shape)} has "
            f"only {t.shape[0]} tokens"
        )
    longest = int(lengths.max()) if lengths.numel() else 0
    if longest > freqs.shape[0]:
        raise ValueError(
            f"freqs has angles for s2 = {freqs.shape[0]} positions; the longest sequence in "
            f"cu_seqlens needs {longest}"
        )


def _require_tensor(value: object, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is of type {type(value).__name__}; accepted: torch.Tensor")
    if value.layout != torch.strided:
        raise ValueError(f"{name} has layout {value.layout}; accepted: torch.strided")


def _require_dtype(t: Tensor, name: str, accepted: tuple, why: str = "") -> None:
    if t.dtype not in accepted:
        names = ", ".join(_short(dtype) for dtype in accepted)
        raise TypeError(f"{name} has dtype {_short(t.dtype)}; accepted{why}: {names}")


def _require_device(value: Tensor, name: str, t: Tensor, t_name: str) -> None:
    if value.device != t.device:
        raise ValueError(
            f"{name} is on {value.device}; it must be on {t_name}'s device, {t.device}"
        )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _head(values: Tensor) -> str:
    shown = ", ".join(str(value) for value in values[:6].tolist())
    return f"[{shown}{', ...' if values.numel() > 6 else ''}]"
