"""Normalize and rotate q and k: the cases, who is measured on them, and what is asked of ours.

A bar is a share of `copy_` of q and k forward, and of one and a half such copies backward, with the
gradients of both weights: what each has to move.
"""

from benchmarks.case import Bar, Case, Group

UNITS = {"forward": 1.0, "backward": 1.5}  # copies of q and k
NORM_OURS = "qk_norm_rope, on the fly", "qk_norm_rope, cos and sin"
TWO_KERNELS = "rms_norm of PyTorch, then rope_qk"
OTHERS = (
    TWO_KERNELS,
    "eager, fp32",
    "torch.compile, fp32",
    "eager, Qwen 3's rounding",
    "torch.compile, Qwen 3's rounding",
    "torch.compile, fp32, max-autotune",
    "Liger-Kernel, RMSNorm then rope",
)

_TOKENS = 8192
_CUTS = tuple(_TOKENS * i // 50 for i in range(51))


def _case(tensor_format: str) -> Case:
    cuts = _CUTS if tensor_format == "thd" else ()
    sizes = _TOKENS, 1, 32, 128
    return Case(*sizes, k_heads=8, tensor_format=tensor_format, freqs="module", cu_seqlens=cuts)


def _bars(forward: float, backward: float) -> tuple[tuple[str, Bar], ...]:
    return ("forward", Bar(at_least=forward)), ("backward", Bar(at_least=backward))


NORM_GROUPS = (
    Group(
        "beside others, in the layout that suits them",
        (_case("sbhd"),),
        _bars(0.93, 0.80),
        beside=OTHERS,
        directions=tuple(UNITS),
    ),
    Group(
        "other layouts",
        (_case("bhsd"), _case("thd")),
        _bars(0.90, 0.77),
        beside=(TWO_KERNELS,),
        directions=tuple(UNITS),
    ),
)
