"""The arguments of a public function, before they are checked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter, signature
from typing import Any, Literal, TypedDict, TypeVar, get_args, get_type_hints

import torch
from torch import Tensor

from ..embedding import RotaryPositionEmbedding
from .formats import BATCHED_FORMATS, TensorFormat
from .packed_format import PackedFormat
from .positions import CpOrder

OutputPairing = Literal["same", "half"]
OUTPUT_PAIRINGS: tuple[str, ...] = get_args(OutputPairing)
Rounding = Literal["once", "model", "upcast", "promoted"]
ROUNDINGS: tuple[str, ...] = get_args(Rounding)
NormRounding = Literal["once", "model", "model_cast_last"]
NORM_ROUNDINGS: tuple[str | None, ...] = (None, *get_args(NormRounding))
CAST_LAST = "model_cast_last"
LIKE_MODELS = "model", CAST_LAST
MOST_START = 2**62  # larger ones could overflow 64 bits
Function = TypeVar("Function", bound=Callable)
Freqs = Tensor | tuple[Tensor, Tensor] | RotaryPositionEmbedding


def getter_of(names: Iterable[str]) -> Callable[[Any], tuple]:
    """What reads these attributes into a tuple, as fast as code that names them.

    For what operators take, autograd saves and a signature holds: nobody repeats a class's fields.
    `operator.attrgetter` would do the same, but torch.compile cannot trace it.
    """
    return eval(f"lambda x: ({''.join([f'x.{name}, ' for name in names])})")


class OptionsOfNewMemory(TypedDict, total=False):
    """The keywords of every public function. `Call` has their defaults."""

    fused: bool
    cu_seqlens: Tensor | None
    start_positions: int | Tensor | None
    position_ids: Tensor | None
    interleaved: bool
    cp_size: int
    cp_rank: int
    cp_order: CpOrder
    rotary_dim: int | None
    rotary_start: int
    inverse: bool
    output_pairing: OutputPairing


class SharedOptions(OptionsOfNewMemory, total=False):
    """Those of the functions that may overwrite what they rotate."""

    inplace: bool


class RopeOptions(SharedOptions, total=False):
    """Those of the functions that only rotate. The ones that normalize round in other places."""

    rounding: Rounding | None


@dataclass(slots=True, kw_only=True)
class NormCall:
    """The arguments that say how rows are normalized, as they came."""

    weights: tuple[Tensor | None, ...]  # as many as tensors
    eps: float
    weight_offset: float
    norm_after: bool

    @property
    def options(self) -> tuple:
        """What is not a tensor."""
        return _options_of(self)

    @property
    def named(self) -> list[tuple[str, Tensor | None]]:
        """Weights, by the names of their arguments."""
        names = ("weight",) if len(self.weights) == 1 else ("q_weight", "k_weight")
        return list(zip(names, self.weights, strict=True))


@dataclass(slots=True, kw_only=True)
class CacheCall:
    """The arguments of `rope_to_cache` beside those of a rotation, as they came."""

    v: Tensor
    k_cache: Tensor
    v_cache: Tensor
    slot_mapping: Tensor
    return_k: bool

    @property
    def named(self) -> list[tuple[str, Tensor]]:
        """The tensors, by the names of their arguments."""
        return [(name, getattr(self, name)) for name in OF_A_CACHE]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return _cache_tensors_of(self)


OF_A_CACHE = "v", "k_cache", "v_cache", "slot_mapping"
_cache_tensors_of = getter_of(OF_A_CACHE)
_options_of = getter_of([field.name for field in fields(NormCall) if field.name != "weights"])


@dataclass(slots=True, kw_only=True)
class Call:
    """Every argument of a call. `api.apply_rotary_pos_emb` says what they mean.

    They are as they came, but for one start of all sequences, which becomes a tensor of them.
    They come by keyword alone: two flags that were swapped would give a wrong result, and no error.
    """

    tensors: tuple[Tensor, ...]  # one or two, to rotate; or the projection that has them
    freqs: Freqs
    tensor_format: TensorFormat = "sbhd"
    fused: bool = True
    cu_seqlens: Tensor | None = None
    start_positions: int | Tensor | None = None
    position_ids: Tensor | None = None
    interleaved: bool = False
    inplace: bool = False
    cp_size: int = 1
    cp_rank: int = 0
    cp_order: CpOrder = "zigzag"
    rotary_dim: int | None = None
    rotary_start: int = 0
    inverse: bool = False
    output_pairing: OutputPairing = "same"
    rounding: Rounding | NormRounding | None = None  # None: what `fused` means by itself
    norm: NormCall | None = None  # None: rotate alone
    cache: CacheCall | None = None  # None: write into no cache
    packed: PackedFormat | None = None  # of the projection; None: there is none
    transpose: bool = False  # take gradients back
    promoted_from: str = ""  # as in `Rotation`
    keeps_strides: bool = False

    def __post_init__(self) -> None:
        if self.start_positions is not None:
            self.start_positions = self._starts(self.start_positions)

    def _starts(self, given: int | Tensor) -> int | Tensor:
        """A start for each sequence; what is not accepted comes back as it is."""
        count = self._count_sequences()
        if count is None:
            return given
        if isinstance(given, Tensor):
            alone = given.dim() == 1 and given.shape[0] != count and given.shape[0] == 1
            return given.expand(count).contiguous() if alone or given.dim() == 0 else given
        number = isinstance(given, (int, torch.SymInt)) and not isinstance(given, bool)
        # within torch.compile a comparison would make a new graph for each sign
        if number and (torch.compiler.is_compiling() or abs(given) <= MOST_START):
            device = self.tensors[0].device
            return torch.full((count,), given, dtype=torch.int64, device=device)
        return given

    def _count_sequences(self) -> int | None:
        """Packed or batched; None where the call says so badly."""
        if isinstance(self.cu_seqlens, Tensor):
            return max(0, self.cu_seqlens.numel() - 1)
        t, tensor_format = self.tensors[0], self.tensor_format
        batched = isinstance(tensor_format, str) and tensor_format in BATCHED_FORMATS
        if not (batched and isinstance(t, Tensor)) or t.is_nested:
            return None
        dims = len(tensor_format) - (self.packed is not None)
        return t.shape[tensor_format.index("b")] if t.dim() == dims else None

    def rounding_with(self, cos: Tensor, sin: Tensor | None) -> Rounding:
        """Where the call rounds, with what `freqs` holds: cosines and sines, or no sines.

        PyTorch's operators promote what meets cosines of another dtype.
        """
        if self.rounding is None:
            return "once" if self.fused else "model"
        is_mixed = sin is not None and cos.dtype != self.tensors[0].dtype
        return "promoted" if is_mixed and self.rounding in LIKE_MODELS else self.rounding

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tensors, in the signature of the public function."""
        return names_of(self.tensors, self.transpose)

    @property
    def where(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The tensors that say where tokens are."""
        return self.cu_seqlens, self.start_positions, self.position_ids


def names_of(tensors: Sequence[Tensor], transpose: bool) -> tuple[str, ...]:
    """What the public functions call the tensors that they rotate."""
    return ("q", "k") if len(tensors) == 2 else ("grad",) if transpose else ("t",)


def shows_options(options: type[SharedOptions]) -> Callable[[Function], Function]:
    """Name the keywords of `**options`, with types and defaults, where help() looks for them."""
    defaults = {field.name: field.default for field in fields(Call)}
    hints = get_type_hints(options)
    named = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in defaults.items()
        if name in hints
    ]

    def with_signature(function: Function) -> Function:
        whole = signature(function)
        *own, _ = whole.parameters.values()  # but for `**options`
        function.__signature__ = whole.replace(parameters=[*own, *named])
        return function

    return with_signature


def refuse_unknown(
    function: Callable, options: Mapping[str, object], accepted: type[SharedOptions]
) -> None:
    """Refuse keywords that a function does not take, though `Call` may have a field of that name.

    Raises:
        TypeError: a keyword is not `accepted`.
    """
    known = accepted.__optional_keys__
    if known.issuperset(options):
        return
    parameters = signature(function).parameters.values()
    words = ", ".join([x.name for x in parameters if x.kind is Parameter.KEYWORD_ONLY])
    name = next(name for name in options if name not in known)
    raise TypeError(
        f"{function.__name__}() got an unexpected keyword argument {name!r}; accepted: {words}"
    )
