"""The arguments of a public function, before they are checked."""

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from .formats import TensorFormat
from .frequencies import RotaryPositionEmbedding

OutputPairing = Literal["same", "half"]
OUTPUT_PAIRINGS: tuple[str, ...] = get_args(OutputPairing)
Freqs = Tensor | tuple[Tensor, Tensor] | RotaryPositionEmbedding


@dataclass(slots=True)
class Call:
    """Every argument of a call, as it came. `api.apply_rotary_pos_emb` says what they mean."""

    names: tuple[str, ...]  # of the tensors, in the signature of the public function
    tensors: tuple[Tensor, ...]  # one or two, to rotate
    freqs: Freqs
    tensor_format: TensorFormat
    cu_seqlens: Tensor | None
    start_positions: Tensor | None
    position_ids: Tensor | None
    interleaved: bool
    cp_size: int
    cp_rank: int
    fused: bool
    inplace: bool
    rotary_dim: int | None
    rotary_start: int
    inverse: bool
    output_pairing: OutputPairing
    transpose: bool = False  # take gradients back

    @property
    def where(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The tensors that say where tokens are, in the order of the fields."""
        return self.cu_seqlens, self.start_positions, self.position_ids
