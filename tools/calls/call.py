"""A call of the public API as values with names. The defaults are those of the plainest call."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

OF_NORMS = "norm_rope", "qk_norm_rope"
OF_TWO = "rope_qk", "qk_norm_rope"
SPLIT, TO_CACHE = "split_qkv_rope", "rope_to_cache"


@dataclass
class Module:
    """How a `RotaryPositionEmbedding` is made, and changed afterwards."""

    rotary_percent: bool = False  # of one half
    rotary_base: float = 10000.0
    changed: str | None = None  # its frequencies: "assigned", "in place", "cast"
    cos_and_sin: bool = True  # of a table with one column per pair; else its angles
    attention_factor: float | None = None
    inv_freq: str | None = None  # the dtype of frequencies of its own


@dataclass
class Norm:
    """What a norm takes beside the rotation."""

    weight: str = "row"  # or "none"; of q and of k, as "row and none"
    weight_dtype: str = "of t"  # or "float32", "exact"
    weight_layout: str = "contiguous"
    eps: float = 1e-6
    weight_offset: float = 0.0
    norm_after: bool = False


@dataclass
class Cache:
    """Where `rope_to_cache` writes."""

    layout: str = "pages"  # or "heads first", "slots", "sequences"
    left_out: int = 0  # so many tokens at the end have no slot
    slots_dtype: str = "int64"


@dataclass
class Call:
    """One call."""

    function: str
    tensor_format: str = "sbhd"
    s: int = 64  # positions, or packed tokens
    b: int = 2
    h: int = 8
    k: int = 1  # heads of k, and of v
    d: int = 128
    dtype: str = "bfloat16"
    layouts: list[str] = field(default_factory=lambda: ["contiguous"] * 3)
    storage: str = "separate"  # or q, k and v are parts of one: "packed heads", "packed dims"
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
    # where they come from, and go to
    packing: str = "qkv"  # of a projection; or "grouped"
    output_format: str | None = None  # of its parts
    cache: Cache | None = None
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
        """Of t, of q and of k, or of q, of k and of v."""
        if self.function == SPLIT:
            return [self.h + 2 * self.k]
        k = self.h if self.storage == "packed dims" else self.k
        if self.function == TO_CACHE:
            return [self.h, k, k]
        return [self.h, k] if self.function in OF_TWO else [self.h]

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
