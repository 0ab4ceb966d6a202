"""Eight calls without a name, for the exercises of notebook 08. Importing this loads Triton.

`UNKNOWN` says what each is, and what limits it. A test holds its fingerprint to that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, norm_rope, reference, rotate_half

from .fingerprint import Call, Changes
from .five_limits import Setting
from .norm_backward import norm_rope_backward, programs_for_all_sms


@dataclass(frozen=True)
class Unknown:
    """A call of the exercises."""

    is_: str  # what the solution says that it is
    limit: str
    changes: Callable[[], Changes]


def _changes(make: Callable[..., Call], size: int, **more: Call) -> Changes:
    """Of `make(size, dtype)`, a call on so many positions, or sequences."""
    return Changes(
        as_it_is=make(size, torch.bfloat16),
        eighths=[make(size // 8, torch.bfloat16) for _ in range(8)],
        twice_the_dtype=make(size, torch.float32),
        **more,
    )


def _compiled() -> Changes:
    """torch.compile's RoPE, from a table of angles; more sines leave its bytes as they are."""

    def rotation(times: int) -> Callable[[Tensor, Tensor], Tensor]:
        def rotate(t: Tensor, freqs: Tensor) -> Tensor:
            cos = sum((freqs + k).cos() for k in range(times)).to(t.dtype)
            sin = sum((freqs + k).sin() for k in range(times)).to(t.dtype)
            return t * cos + rotate_half(t) * sin

        return torch.compile(rotate, dynamic=False)

    once = rotation(1)

    def make(s: int, dtype: torch.dtype, rotate: Callable = once) -> Call:
        t = torch.randn(s, 16, 8, 256, device="cuda", dtype=dtype)
        return partial(rotate, t, RotaryPositionEmbedding(256).cuda()(s))

    twice = make(2048, torch.bfloat16, rotation(2))
    return _changes(make, 2048, twice_the_arithmetic=twice)


def _norm_backward() -> Changes:
    """Notebook 11's backward of norm and RoPE, with two programs of one warp for each SM."""

    def make(s: int, dtype: torch.dtype, each: int = 2) -> Call:
        x = torch.randn(s, 1, 40, 128, device="cuda", dtype=dtype)
        weight = torch.rand(128, device="cuda")
        freqs = RotaryPositionEmbedding(128).cuda()(s)
        inputs = torch.randn_like(x), x, weight, freqs
        return partial(norm_rope_backward, *inputs, programs_for_all_sms(each), stages=1)

    return _changes(make, 8192, half_the_programs=make(8192, torch.bfloat16, each=1))


def _eager() -> Changes:
    """Eager PyTorch on a small model's queries."""

    def make(s: int, dtype: torch.dtype) -> Call:
        t = torch.randn(s, 1, 16, 64, device="cuda", dtype=dtype)
        return partial(reference.apply_rotary_pos_emb, t, RotaryPositionEmbedding(64).cuda()(s))

    return _changes(make, 64)


def _decode() -> Changes:
    """Normalize and rotate at decode: one token of 64 sequences."""

    def make(b: int, dtype: torch.dtype) -> Call:
        x, weight = torch.randn(1, b, 32, 128, device="cuda", dtype=dtype), torch.ones(128)
        return partial(norm_rope, x, weight.to(x), RotaryPositionEmbedding(128).cuda()(1))

    return _changes(make, 64)


UNKNOWN = {
    "a": Unknown("torch.compile's RoPE, from a table of angles", "instructions", _compiled),
    "b": Unknown("notebook 11's backward, 2 programs for each SM", "latency", _norm_backward),
    "c": Unknown(
        "one row of 64 elements a program",
        "starts",
        Setting(shape=(2048, 16, 32, 64), rows=1).changes,
    ),
    "d": Unknown("eager PyTorch on a small tensor", "host", _eager),
    "e": Unknown(
        "fp16, sixteen rows of 128 elements a program",
        "bytes",
        Setting(shape=(8192, 1, 64, 128), dtype=torch.float16, rows=16, num_warps=2).changes,
    ),
    "f": Unknown(
        "24 turns of each pair, heads of 128 elements",
        "instructions",
        Setting(shape=(4096, 2, 64, 128), num_warps=4, turns=24).changes,
    ),
    "g": Unknown(
        "one program of four warps for each SM",
        "latency",
        Setting(shape=(4096, 2, 64, 128), rows=8, num_warps=4, programs=132).changes,
    ),
    "h": Unknown("normalize and rotate, one token of 64 sequences", "host", _decode),
}
