"""What a call looks like, addresses and values aside.

Calls of one kind pass the same checks and need the same launch. Both are done with care once, and
remembered: a call should not keep the CPU longer than the GPU.
"""

from torch import Tensor
from torch.autograd import forward_ad
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


def kind_of(freqs, options: tuple, *tensors: Tensor | None) -> tuple | None:
    """All that checks, the compiler and a launch look at in a call; None if one cannot know.

    Args:
        freqs: as the public functions take it.
        options: what is no tensor.
        tensors: those to rotate, then those that say where. All must be plain, with memory.
    """
    try:
        if type(freqs) in _PLAIN:
            tensors = freqs, *tensors
        elif isinstance(freqs, RotaryPositionEmbedding):
            if forward_ad._current_level >= 0:
                return None  # a derivative that inv_freq may carry does not show in its kind
            tensors = freqs.inv_freq, *tensors
            options = options, freqs.inv_freq.requires_grad, freqs.rotary_dim, freqs.interleaved
        elif isinstance(freqs, (tuple, list)):
            tensors, options = (*freqs, *tensors), (options, len(freqs))
        else:
            return None
        kind = [options]
        for x in tensors:
            if type(x) in _PLAIN:
                # no function and no generator: this is in every call's way
                x = x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16, x.is_neg()
            elif x is not None:
                return None
            kind.append(x)
        hash(options)
        return tuple(kind)
    except (AttributeError, RuntimeError, TypeError):
        return None
