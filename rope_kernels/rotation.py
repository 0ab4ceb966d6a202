"""`Call`, the arguments as they were passed, and `Rotation`, everything that computing it needs.

Both are immutable.

The letters of a format name the dimensions in their order: s = position in the sequence, b = batch,
h = head, d = head dimension, t = token of a packed batch.

Ranks of context parallelism share a sequence in one of three orders. With n ranks and a sequence of
s tokens, rank r holds s / n of them:
- zigzag: chunks r and 2n - 1 - r of 2n equal chunks, as in TransformerEngine, Megatron-LM and
  PyTorch's `context_parallel`. With a causal mask, all ranks then have the same amount of work.
- contiguous: chunk r of n, as in Megatron-LM with `cp_partition_mode="contiguous"`.
- round_robin: tokens r, r + n, r + 2n, ..., as in SGLang with `round-robin-split`.

Each packed sequence is shared separately, in the same order.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from .checks import STARTS, as_integer, bad, check_format, is_integer
from .embedding import RotaryPositionEmbedding

TensorFormat = Literal["sbhd", "bshd", "bhsd", "thd"]
CpOrder = Literal["zigzag", "contiguous", "round_robin"]
OutputPairing = Literal["same", "half"]
Rounding = Literal["once", "model", "upcast", "promoted"]
Freqs = Tensor | tuple[Tensor, Tensor] | RotaryPositionEmbedding
FORMATS, CP_ORDERS = get_args(TensorFormat), get_args(CpOrder)
OUTPUT_PAIRINGS, ROUNDINGS = get_args(OutputPairing), get_args(Rounding)


def view_as_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """View `t` as (s, b, h, d), without a copy; a packed (t, h, d) becomes (t, 1, h, d)."""
    if tensor_format == "thd":
        return t.unsqueeze(1)
    return t.permute([tensor_format.index(x) for x in "sbhd"])


def view_from_sbhd(t: Tensor, tensor_format: str) -> Tensor:
    """Undo `view_as_sbhd`, without a copy."""
    if tensor_format == "thd":
        return t.squeeze(1)
    return t.permute(["sbhd".index(x) for x in tensor_format])


def seq_len_of(t: Tensor, tensor_format: str) -> int:
    """s, or the number of packed tokens. Creating a view for this takes longer than all checks."""
    return t.shape[0 if tensor_format == "thd" else tensor_format.index("s")]


def compute_dtype(t: Tensor) -> torch.dtype:
    """The dtype in which kernels compute with elements of `t`."""
    return torch.float64 if t.dtype == torch.float64 else torch.float32


class Call(NamedTuple):
    """The arguments of a call as they were passed, without the tensors to rotate. Not checked.

    Callers use `Call.__new__(Call, freqs=..., ...)`, because calling a class with keywords takes
    Python three times as long.
    """

    # The fields that may be tensors come first: `api.rotation_of` separates them from the options.
    freqs: Freqs
    cu_seqlens: Tensor | None = None
    start_positions: int | Tensor | None = None
    position_ids: Tensor | None = None
    tensor_format: str | None = None  # None: it was not passed
    rotary_dim: int | None = None  # None: the width of the table, or the module's
    rotary_start: int = 0
    interleaved: bool | None = None  # None: the module's, or False for a table
    output_pairing: str = "same"
    cp_size: int = 1
    cp_rank: int | None = None  # None: rank 0 of one
    cp_order: str = "zigzag"
    inverse: bool = False
    rounding: str | None = None  # None: "once", or without a kernel "model"
    fused: bool = True
    inplace: bool = False
    # These three are not arguments of public functions. `Options` explains the last two.
    transpose: bool = False
    promoted_from: torch.dtype | None = None
    contiguous_gradients: bool = False

    @property
    def tables(self) -> tuple[Tensor, Tensor | None]:
        """The contents of `freqs`: angles; cosines and sines; or a module's inverse frequencies."""
        freqs = self.freqs
        if isinstance(freqs, RotaryPositionEmbedding):
            return freqs.inv_freq, None
        if isinstance(freqs, (tuple, list)) and len(freqs) == 2:
            return freqs[0], freqs[1]
        return freqs, None

    @property
    def pairs_are_interleaved(self) -> bool:
        """The value of `interleaved`, with its default filled in."""
        if self.interleaved is None:
            return isinstance(self.freqs, RotaryPositionEmbedding) and self.freqs.interleaved
        return self.interleaved


class Options(NamedTuple):
    """The part of a `Rotation` that is equal for all calls with the same signature."""

    tensor_format: str
    rotary_dim: int  # d2
    on_the_fly: bool  # angles are computed from frequencies instead of read from a table
    rotary_start: int = 0  # the first element that rotates
    interleaved: bool = False
    output_pairing: str = "same"  # or "half": reads interleaved pairs, writes half-split ones
    cp_size: int = 1
    cp_rank: int = 0
    cp_order: str = "zigzag"
    inverse: bool = False  # rotates by minus the angle: every sine is negated
    rounding: str = "once"  # where values are rounded to the dtype of the tensor
    attention_factor: float = 1.0  # multiplies cos and sin that are computed from frequencies
    # If it is set, the forward reads this dtype and returns the table's, because PyTorch's
    # operators promote. A backward reads the table's dtype and returns this one.
    promoted_from: torch.dtype | None = None
    # True: gradients are contiguous, as those of transformers' functions. A norm before the
    # rotation adds up its weight's gradient in the order of memory, so bits depend on it.
    contiguous_gradients: bool = False


TensorsOfRotation = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]


class Rotation(NamedTuple):
    """The linear map that a call applies, with everything needed to compute it."""

    # Angles in radians, (s2, 1, 1, w), or with `sin` cosines, (s2, w) or (b, s2, w). w is d2 or
    # d2 / 2. With `options.on_the_fly`, radians per position of each pair, (d2 / 2,).
    table: Tensor
    sin: Tensor | None
    cu_seqlens: Tensor | None  # (sequences + 1,)
    start_positions: Tensor | None  # (b,) or (sequences,), of each sequence
    position_ids: Tensor | None  # (b or 1, s) or (tokens,)
    # The position at which all sequences start; None: 0. It is an argument of the kernel, and not
    # part of the call signature.
    first_position: int | None
    transpose: bool  # whether it is the transposed map, which computes gradients
    options: Options

    @property
    def pairings(self) -> tuple[bool, bool]:
        """Whether pairs are interleaved in the input, and in the output."""
        interleaved = self.options.interleaved
        returned = interleaved and self.options.output_pairing == "same"
        return (returned, interleaved) if self.transpose else (interleaved, returned)

    @property
    def tensors(self) -> TensorsOfRotation:
        """All tensors, in the order in which kernels take them."""
        return self.table, self.sin, *self.places

    @property
    def places(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The tensors that determine the tokens' positions."""
        return self.cu_seqlens, self.start_positions, self.position_ids

    @property
    def transposed(self) -> "Rotation":
        """The transposed map, which computes gradients."""
        return self._replace(transpose=not self.transpose)

    def of_rank(self, rank: int) -> "Rotation":
        """The same rotation on another rank of context parallelism."""
        return self._replace(options=self.options._replace(cp_rank=rank))

    @property
    def looks_up_positions(self) -> bool:
        """Whether a program must load a sequence, start or id before it knows positions.

        `first_position` needs no load, because it is an argument of the kernel.
        """
        has_ids = self.position_ids is not None
        return has_ids or self.cu_seqlens is not None or self.start_positions is not None

    @property
    def one_per_pair(self) -> bool:
        """Whether column i of the table belongs to pair i, not to element i."""
        return 2 * self.table.shape[-1] == self.options.rotary_dim

    def returned_dtype(self, t: Tensor) -> torch.dtype:
        """The dtype of the result, which is that of `t` unless the rotation promotes."""
        promoted_from = self.options.promoted_from
        if promoted_from is None:
            return t.dtype
        return promoted_from if self.transpose else self.table.dtype

    @property
    def per_batch(self) -> bool:
        """Whether each entry of a dense batch has its own angles."""
        own_starts = self.start_positions is not None and self.cu_seqlens is None
        ids = self.position_ids
        own_ids = ids is not None and ids.dim() == 2 and ids.shape[0] > 1
        return own_starts or own_ids or (self.table.dim() == 3 and self.table.shape[0] != 1)


# From arguments to a rotation


def as_first_position(start: int) -> int:
    """Check `start_positions` that is not a tensor: one position for all sequences."""
    if not is_integer(start):
        shown = start if isinstance(start, bool) else f"of type {type(start).__name__}"
        raise bad(f"start_positions is {shown}", STARTS, TypeError)
    return as_integer(start)


def one_for_each_sequence(
    starts: Tensor, cu_seqlens: Tensor | None, t: Tensor, tensor_format: str
) -> Tensor:
    """The starts of a checked call as (b,) or (sequences,), expanded if it has only one."""
    count = t.shape[tensor_format.index("b")] if cu_seqlens is None else len(cu_seqlens) - 1
    if starts.dim() and starts.shape[0] == count:
        return starts
    return starts.expand(count).contiguous()


def options_of(call: Call, t: Tensor) -> Options:
    """The options of a checked call that rotates `t`. NumPy's integers become Python's."""
    table, sin = call.tables
    rotary_dim, attention_factor = call.rotary_dim, 1.0
    module = call.freqs if isinstance(call.freqs, RotaryPositionEmbedding) else None
    if module is not None:
        rotary_dim, attention_factor = module.rotary_dim, module.attention_factor
    elif rotary_dim is None:
        rotary_dim = table.shape[-1]
    rounding = call.rounding
    if rounding is None:
        rounding = "once" if call.fused else "model"
    elif rounding == "model" and sin is not None and sin.dtype != t.dtype:
        rounding = "promoted"  # PyTorch's operators promote if cosines have another dtype.
    return Options(
        tensor_format=check_format(call.tensor_format, FORMATS),
        rotary_dim=as_integer(rotary_dim),
        on_the_fly=module is not None,
        rotary_start=as_integer(call.rotary_start),
        interleaved=call.pairs_are_interleaved,
        output_pairing=call.output_pairing,
        cp_size=as_integer(call.cp_size),
        cp_rank=as_integer(0 if call.cp_rank is None else call.cp_rank),
        cp_order=call.cp_order,
        inverse=call.inverse,
        rounding=rounding,
        attention_factor=attention_factor,
        promoted_from=call.promoted_from,
        contiguous_gradients=call.contiguous_gradients,
    )


# Formats, tables and ranks


def len_of_table(table: Tensor) -> int:
    """s2, the number of positions in a table of angles or cosines."""
    return table.shape[1 if table.dim() == 3 else 0]


def positions_of_rank(
    index: Tensor, length: int | Tensor, *, cp_size: int, cp_rank: int, cp_order: str
) -> Tensor:
    """Positions of a rank's tokens, from their indices among the `length` tokens that it holds."""
    if cp_size == 1:
        return index
    if cp_order == "contiguous":
        return index + cp_rank * length
    if cp_order == "round_robin":
        return index * cp_size + cp_rank
    # Rank r holds chunks r and 2 * cp_size - 1 - r. Indices in the second start at one chunk: - 2.
    chunk, from_the_end = length // 2, 2 * cp_size - 2 - cp_rank
    return index + chunk * torch.where(index < chunk, cp_rank, from_the_end)


def chunks_of(cp_size: int, cp_order: str) -> int:
    """The number of chunks per sequence. It must divide the length of each sequence."""
    return 2 * cp_size if cp_order == "zigzag" and cp_size > 1 else cp_size


def find_in_packed(cu_seqlens: Tensor, token: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each token's packed sequence, its index there, and the length of that sequence.

    `cu_seqlens` counts this rank's tokens. A token after the last sequence gets a number beyond
    the last sequence's, and length 0.
    """
    sequence = torch.searchsorted(cu_seqlens, token, right=True) - 1
    return sequence, token - cu_seqlens[sequence], pad(cu_seqlens.diff(), (0, 1))[sequence]
