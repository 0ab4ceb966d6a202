"""What a call looks like, addresses and values aside.

Calls of one kind pass the same checks and need the same launch. Both are done with care once, and
remembered: a call should not keep the CPU longer than the GPU.
"""

from torch import Tensor
from torch.nn import Parameter

from .frequencies import RotaryPositionEmbedding

_PLAIN = (Tensor, Parameter)
_MOST = 4096  # kinds; of more, all are forgotten (a serving loop may meet any sequence length)


class Remembered(dict):
    """Kind -> what was found out about it."""

    def __setitem__(self, kind: tuple, found) -> None:
        if len(self) >= _MOST:
            self.clear()
        super().__setitem__(kind, found)


def kind_of(x: Tensor | None) -> tuple | None:
    """All that checks, the compiler and a launch look at in a tensor.

    Raises:
        AttributeError, RuntimeError, TypeError: `x` is no plain tensor with memory of its own.
    """
    if x is None:
        return None
    if type(x) not in _PLAIN:
        raise TypeError
    return x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16, x.is_neg()


def kind_of_call(tensors, freqs, where: tuple, options: tuple) -> tuple | None:
    """The kind of a public function's call, or None if it has none.

    Args:
        tensors: the one or two to rotate.
        freqs: as the functions take it.
        where: `cu_seqlens`, `start_positions` and `position_ids`; empty if all are None.
        options: what is no tensor.
    """
    try:
        hash(options)
        if type(freqs) in _PLAIN:
            angles = kind_of(freqs)
        elif isinstance(freqs, tuple | list):
            angles = tuple([kind_of(x) for x in freqs])
        elif isinstance(freqs, RotaryPositionEmbedding):
            table = freqs.inv_freq
            angles = kind_of(table), table.requires_grad, freqs.rotary_dim, freqs.interleaved
        else:
            return None
        # a list within brackets is quicker than a generator, and this is in every call's way
        return angles, options, *[kind_of(x) for x in tensors], *[kind_of(x) for x in where]
    except (AttributeError, RuntimeError, TypeError):
        return None
