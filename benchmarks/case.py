"""One call to measure, as data: sizes, layout, angles, positions, and the clock that times it."""

from dataclasses import dataclass

from benchmarks.own_limit import Row

BASE = 10000.0  # of the frequencies
LIMITS = ("copy_", "x * 2")  # what everybody is compared with
OURS = "rope_kernels"
ON_THE_FLY = "rope_kernels, on the fly"
COS_AND_SIN = "rope_kernels, cos and sin"
ROTATION = "rope_qk in place"  # what a step that decodes is compared with

BOTH_WAYS = ("forward", "backward")
DIRECTIONS = (*BOTH_WAYS, "both")  # both: forward and backward through autograd
_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


@dataclass(frozen=True)
class Case:
    """Tensors to rotate, and how they are handed over."""

    s: int  # with 'thd': all tokens
    b: int
    h: int
    d: int
    k_heads: int = 0  # heads of k, rotated together with q; 0: one tensor
    dtype: str = "bfloat16"
    tensor_format: str = "sbhd"
    stored: str = ""  # order of the dimensions in memory, if it is not the format's
    rotary_dim: int = 0  # 0: all of d
    # an fp32 table of them; or 'cos and sin'; or 'module': on the fly
    freqs: str = "angles"
    positions: str = "index"  # or 'ids', 'starts'
    sequences: int = 0  # 'thd' only, cut at random places
    cu_seqlens: tuple[int, ...] = ()  # 'thd' only, instead of random places
    interleaved: bool = False
    inplace: bool = False
    clock: str = "device"  # time on the GPU, L2 flushed; or "host", what queuing takes

    @property
    def heads(self) -> int:
        """Of q and k together."""
        return self.h + self.k_heads

    @property
    def d2(self) -> int:
        """How much of the head dimension is rotated."""
        return self.rotary_dim or self.d

    @property
    def elements(self) -> int:
        """To rotate, those that pass through included."""
        return self.s * self.b * self.heads * self.d

    @property
    def label(self) -> str:
        """A name that tells it from every other case of its set."""
        heads = f"{self.h}/{self.k_heads}" if self.k_heads else str(self.h)
        sizes = {"s": self.s, "b": self.b, "h": heads, "d": self.d, "t": self.s}
        shape = ", ".join(str(sizes[dim]) for dim in self.tensor_format)
        return ", ".join([f"{self.tensor_format} ({shape}) {_SHORT[self.dtype]}", *self._options()])

    def _options(self) -> list[str]:
        count = self.sequences or len(self.cu_seqlens) - 1
        said = {
            "q + k": self.k_heads > 0,
            f"d2 {self.d2}": self.d2 != self.d,
            f"stored {self.stored}": self.stored not in ("", self.tensor_format),
            f"{count} sequence{'s' * (count > 1)}": self.tensor_format == "thd",
            "interleaved": self.interleaved,
            "position ids": self.positions == "ids",
            "start positions": self.positions == "starts",
            "on the fly": self.freqs == "module",
            "cos and sin": self.freqs == "cos and sin",
            "in place": self.inplace,
            "host time": self.clock == "host",
        }
        return [option for option, holds in said.items() if holds]


@dataclass(frozen=True)
class Group:
    """Cases that are measured in the same directions."""

    cases: tuple[Case | Row, ...]
    directions: tuple[str, ...] = DIRECTIONS
    alone: bool = False  # without other projects
