"""A call of the public API as values with names. The defaults are those of the plainest call."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

OF_NORMS = "norm_rope", "qk_norm_rope"
OF_TWO = "rope_qk", "qk_norm_rope"


@dataclass
class Module:
    """How a `RotaryPositionEmbedding` is made, and changed afterwards."""

    rotary_percent: bool = False  # of one half
    interpolation: tuple[float, int] | None = None  # factor and trained length
    rotary_base: float = 10000.0
    changed: str | None = None  # its frequencies: "assigned", "in place", "cast"
    cos_sin_per_pair: bool = True  # of a table with one column per pair; else its angles
    axes: list[int] | None = None
    ids_of_axes: bool = False
    attention_factor: float | None = None
    inv_freq: str | None = None  # the dtype of frequencies of its own


@dataclass
class Norm:
    """What a norm takes beside the rotation."""

    weight: str = "row"  # or "per head", "none"; of q and of k, as "row and none"
    weight_dtype: str = "of t"  # or "float32", "exact"
    weight_layout: str = "contiguous"
    eps: float = 1e-6
    weight_offset: float = 0.0
    norm_after: bool = False
    sums: str = "own"  # or given: "each head", "all heads"
    sums_of_the_rows: bool = False  # then their gradient is one of the rows
    sums_layout: str = "contiguous"
    norm_dim_is_named: bool = False
    norm_dim_is_a_pair: bool = False


@dataclass
class Call:
    """One call."""

    function: str
    tensor_format: str = "sbhd"
    s: int = 64  # positions, or packed tokens
    b: int = 2
    h: int = 8
    k: int = 1  # heads of k
    d: int = 128
    dtype: str = "bfloat16"
    layouts: list[str] = field(default_factory=lambda: ["contiguous"] * 2)
    storage: str = "separate"  # or q and k are parts of one: "packed heads", "packed dims"
    special_values: bool = False  # NaN and infinities
    # where tokens are
    positions: str = "index"  # or "starts", "one start", "ids", "shared ids"
    positions_dtype: str = "int64"
    cu_seqlens: list[int] | None = None
    cu_seqlens_dtype: str = "int32"
    first_id: int = 0
    id_range: int = 9  # so many ids from the first one
    cp: tuple[int, int] | None = None  # size and rank
    cp_order: str = "zigzag"
    # by which angles they turn
    freqs: str = "module"  # or "table of module", "table", "cos, sin", "cos, sin 3-D"
    one_column_per_pair: bool = False
    freqs_dtype: str = "float32"
    freqs_layout: str = "contiguous"
    extra_rows: int = 0
    module: Module = field(default_factory=Module)
    # which elements turn, and how
    rotary_dim: int = 0  # 0: d
    rotary_dim_is_named: bool = False
    rotary_start: int = 0
    interleaved: bool = False
    output_pairing: str = "same"
    inverse: bool = False
    inplace: bool = False
    fused: bool = True
    rounding: str | None = None  # None: not named
    norm: Norm | None = None
    # what happens to it
    mode: str = "grad"  # or "no_grad", "inference", "make_fx", "vmap", "jvp"
    times: int = 1
    grad_of: dict[str, bool] = field(default_factory=lambda: {"t": True, "k": True})
    upstream: str = "random"
    double_backward: bool = False
    leaf_in_place: bool = False

    def __post_init__(self) -> None:
        self.rotary_dim = self.rotary_dim or self.d

    @property
    def packed(self) -> bool:
        return self.tensor_format == "thd"

    @property
    def heads(self) -> list[int]:
        """Of t, or of q and of k."""
        if self.function not in OF_TWO:
            return [self.h]
        return [self.h, self.h if self.storage == "packed dims" else self.k]

    def shape(self, heads: int) -> list[int]:
        """Of a tensor of so many heads."""
        sizes = {"s": self.s, "t": self.s, "b": self.b, "h": heads, "d": self.d}
        return [sizes[dim] for dim in self.tensor_format]

    def in_words(self) -> Iterator[str]:
        """A line for each field that is not as in the plainest call."""
        plain = Call(self.function)
        for name in (x.name for x in fields(self)):
            if getattr(self, name) != getattr(plain, name) or name == "function":
                yield f"{name}: {getattr(self, name)}"
