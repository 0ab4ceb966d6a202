"""Beyond the rungs of notebook 09: the hardware's sine, no table, and what did not help.

The climb itself is in `rope_lab.rungs`. Each kernel here differs from the one before it in one
thing; where that is a line or two, only these are written down. None has masks: they rotate
contiguous (s, b, h, d) tensors whose d is a power of two and whose b * h is a multiple of a tile's
rows. Importing this loads Triton.
"""

import difflib
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from rope_kernels import RotaryPositionEmbedding
from rope_kernels.launch.launch import run
from rope_kernels.launch.plan import RopeTensors
from rope_kernels.machine.engine import interpreter_is_on

from ..compiler.compile import Compiled, compile_for
from ..compiler.plans import plan_of
from ..source import ChangedLines
from .fixed import changed


@triton.jit
def loads_first_kernel(
    t_ptr,  # input (s, rows, D), contiguous
    freqs_ptr,  # angles (s, D), contiguous
    out_ptr,  # output like t
    rows,  # b * h, a multiple of BLOCK_R
    D: tl.constexpr,  # d, a power of two
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
):
    """Rung 7 of the climb, without masks: every load before the first sine."""
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    position = tl.program_id(0) * BLOCK_R // rows
    pair = tl.arange(0, D // 2)
    offset = row[:, None] * D + pair[None, :]
    x1 = tl.load(t_ptr + offset).to(tl.float32)
    x2 = tl.load(t_ptr + offset + D // 2).to(tl.float32)
    angle_offset = position * D + pair
    angle1 = tl.load(freqs_ptr + angle_offset)
    angle2 = tl.load(freqs_ptr + angle_offset + D // 2)
    cos1, sin1 = tl.cos(angle1)[None, :], tl.sin(angle1)[None, :]
    cos2, sin2 = tl.cos(angle2)[None, :], tl.sin(angle2)[None, :]
    tl.store(out_ptr + offset, x1 * cos1 - x2 * sin1)
    tl.store(out_ptr + offset + D // 2, x2 * cos2 + x1 * sin2)


@triton.jit
def less_whole_turns(angle):
    """The angle less its whole turns: between -pi and pi. In radians, 2 pi in three pieces."""
    turns = tl.floor(angle * 0.15915494309189535 + 0.5)
    angle = tl.fma(turns, -6.28125, angle)
    angle = tl.fma(turns, -0.0019350051879882812, angle)
    return tl.fma(turns, -3.01991598196e-07, angle)


@triton.jit
def cos_and_sin(angle, FAST: tl.constexpr):
    """A row of cos and a row of sin; FAST: the hardware's, for angles from -pi to pi."""
    if FAST:
        cos, sin = libdevice.fast_cosf(angle), libdevice.fast_sinf(angle)
    else:
        cos, sin = tl.cos(angle), tl.sin(angle)
    return cos[None, :], sin[None, :]


# whole turns are taken away, and the hardware computes cos and sin
fast_sine_kernel = changed(
    loads_first_kernel,
    "fast_sine_kernel",
    (
        "power of two\n):",
        "power of two\n"
        "    FAST: tl.constexpr,  # the hardware's sine; False in the interpreter, which has none\n"
        "):",
    ),
    (
        "cos1, sin1 = tl.cos(angle1)[None, :], tl.sin(angle1)[None, :]",
        "cos1, sin1 = cos_and_sin(less_whole_turns(angle1), FAST)",
    ),
    (
        "cos2, sin2 = tl.cos(angle2)[None, :], tl.sin(angle2)[None, :]",
        "cos2, sin2 = cos_and_sin(less_whole_turns(angle2), FAST)",
    ),
)


@triton.jit
def on_the_fly_kernel(
    t_ptr,  # input (s, rows, D), contiguous
    turns_ptr,  # (D / 2,), int64: 2^-64 turns per position
    out_ptr,  # output like t
    rows,  # b * h, a multiple of BLOCK_R
    D: tl.constexpr,  # d, a power of two
    BLOCK_R: tl.constexpr,  # rows per program, a power of two
    FAST: tl.constexpr,  # the hardware's sine; False in the interpreter, which has none
):
    """No table: position times turns per position, in integers, whose overflow are whole turns."""
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    position = tl.program_id(0) * BLOCK_R // rows
    pair = tl.arange(0, D // 2)
    offset = row[:, None] * D + pair[None, :]
    x1 = tl.load(t_ptr + offset).to(tl.float32)
    x2 = tl.load(t_ptr + offset + D // 2).to(tl.float32)
    turned = (position * tl.load(turns_ptr + pair)) >> 32
    angle = turned.to(tl.int32).to(tl.float32) * (6.283185307179586 * 2.0**-32)
    cos, sin = cos_and_sin(angle, FAST)
    tl.store(out_ptr + offset, x1 * cos - x2 * sin)
    tl.store(out_ptr + offset + D // 2, x2 * cos + x1 * sin)


# the caches are told that nothing is needed twice
streaming_kernel = changed(
    on_the_fly_kernel,
    "streaming_kernel",
    ("t_ptr + offset)", 't_ptr + offset, eviction_policy="evict_first")'),
    ("t_ptr + offset + D // 2)", 't_ptr + offset + D // 2, eviction_policy="evict_first")'),
    ("x1 * cos - x2 * sin)", 'x1 * cos - x2 * sin, cache_modifier=".cs")'),
    ("x2 * cos + x1 * sin)", 'x2 * cos + x1 * sin, cache_modifier=".cs")'),
)


@dataclass(frozen=True)
class Step:
    """A kernel of this file with its tile: call it with t and its angles or turns."""

    name: str
    kernel: object
    block_r: int  # rows per program
    num_warps: int

    @property
    def on_the_fly(self) -> bool:
        """Does it take turns in place of a table of angles?"""
        return "turns_ptr" in self.kernel.arg_names

    def __call__(self, t: Tensor, freqs: Tensor | RotaryPositionEmbedding) -> Tensor:
        """Rotate t.

        Args:
            t: contiguous, (s, b, h, d).
            freqs: the table; where the step needs none, `turns_of` a module, or the module itself:
                then the turns are made in this call, by four small kernels.

        Raises:
            ValueError: d is no power of two, or the tile's rows do not divide b * h.
        """
        s, b, h, d = t.shape
        if d & (d - 1) or b * h % self.block_r or not t.is_contiguous():
            raise ValueError(f"{self.name} has no masks: a shape of {tuple(t.shape)} needs some")
        out = torch.empty_like(t)
        programs = s * b * h // self.block_r
        options = self.constants(d) | {"num_warps": self.num_warps}
        self.kernel[(programs,)](t, self.angles(freqs), out, b * h, **options)
        return out

    def angles(self, freqs: Tensor | RotaryPositionEmbedding) -> Tensor:
        """What the kernel reads: a tensor as it is, or the turns of a module, made now."""
        return freqs if isinstance(freqs, Tensor) else turns_of(freqs)

    def constants(self, d: int, fast: bool | None = None) -> dict:
        """The kernel's constexpr arguments; `fast` as on a GPU, unless said otherwise."""
        fast = not interpreter_is_on() if fast is None else fast
        sizes = {"D": d, "BLOCK_R": self.block_r}
        return sizes | ({"FAST": fast} if "FAST" in self.kernel.arg_names else {})

    def compiled(self, s: int, b: int, h: int, d: int) -> Compiled:
        """Compiled for an H200, where a call would be with tensors of this shape in bf16."""
        t = torch.empty(16, dtype=torch.bfloat16)
        angles = torch.empty(16, dtype=torch.int64 if self.on_the_fly else torch.float32)
        constants = self.constants(d, fast=True) | {"num_warps": self.num_warps}
        return compile_for("sm_90", self.kernel, t, angles, t, b * h, **constants)


_ALL = (
    Step("loads first", loads_first_kernel, 8, 1),
    Step("fast sine", fast_sine_kernel, 8, 1),
    Step("on the fly", on_the_fly_kernel, 8, 1),
    Step("streaming", streaming_kernel, 8, 1),
)
STEPS = {step.name: step for step in _ALL}


def turns_of(rope: RotaryPositionEmbedding) -> Tensor:
    """How far each pair turns per position, in 2^-64 turns: (d / 2,), int64."""
    return (rope.inv_freq.double() / (2 * math.pi) * 2.0**64).long()


def measured_cases(
    steps: dict[str, Step],
    shape: tuple[int, ...],
    device: str = "cuda",
) -> dict[str, Callable[[], object]]:
    """What `lab.bench` measures: a copy and each step, in bf16.

    Args:
        steps: by the name of its case; each gets its table, or its turns, made beforehand.
        shape: (s, b, h, d) of the tensor.
        device: where the tensors are.
    """
    t = torch.randn(shape, device=device, dtype=torch.bfloat16)
    rope, out = RotaryPositionEmbedding(shape[-1]).to(device), torch.empty_like(t)
    table, turns = rope(shape[0]), turns_of(rope)
    cases = {"copy": partial(out.copy_, t)}
    for name, step in steps.items():
        cases[name] = partial(step, t, turns if step.on_the_fly else table)
    return cases


def bytes_moved(
    s: int,
    b: int,
    h: int,
    d: int,
    element_bytes: int,
    *,
    table: bool = False,
    rotary_dim: int | None = None,
    inplace: bool = False,
) -> int:
    """What a call has to read and write at least: each byte once, of t, the result and the table.

    table: of fp32 angles, d2 of them a position; without one, angles are computed on the fly.
    """
    rotary_dim = rotary_dim or d
    columns = rotary_dim if inplace else d
    return 2 * s * b * h * columns * element_bytes + (4 * s * rotary_dim if table else 0)


class Diff(ChangedLines):
    """What one change is: lines removed, and lines added."""

    def __init__(self, before, after) -> None:
        super().__init__(_changed(_body(before), _body(after)))


def launch_of(function: Callable, *arguments, **options) -> Callable[[], RopeTensors]:
    """The launch that a call of the package makes, through Triton's JIT, and nothing else.

    Args:
        function: a public function that rotates, as `rope_fw`.
        arguments: its arguments; tensors on the device that launches.
        options: its keyword arguments.

    Returns:
        A function that launches the plan of the call, made here once, and returns the kernel's
        tensors. All its launches write to the same outputs.

    Raises:
        TypeError, ValueError: as `plan_of`.
    """
    plan, tensors = plan_of(function, *arguments, **options)
    if interpreter_is_on():
        plan = plan.with_constants(lookup={"fast_sine": False})

    def launch_again() -> RopeTensors:
        run(plan, tensors)
        return tensors

    return launch_again


def _body(kernel) -> list[str]:
    """The source of a kernel from its arguments on, without its docstring."""
    source = inspect.getsource(kernel.fn)
    source = re.sub(r'^    """.*?"""\n', "", source, flags=re.MULTILINE | re.DOTALL)
    return source.splitlines()[2:]


def _changed(before: list[str], after: list[str]) -> list[str]:
    lines = list(difflib.unified_diff(before, after, lineterm="", n=1))[3:]
    return ["..." if line.startswith("@@") else line for line in lines]
