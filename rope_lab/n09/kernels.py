"""Rungs as notebook 09 reads their machine code, and as it times them on tensors with strides."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding

from ..compiler.compile import Compiled
from ..judge.climb.instruments import headline
from ..judge.rehearsal import rehearsed
from ..rungs import SHAPE, rung_of
from ..rungs.measured import headline_tensors


def compiled(rung: int) -> Compiled:
    """Our kernel for a rung as its `my_rope` launches it at the headline shape, for an H200.

    The rung is given by its number, because the modules' names reveal the edits to find.

    Raises:
        ValueError: there is no such rung.
    """
    (caught,) = rehearsed(rung_of(rung).module.my_rope, headline, "meta").launches
    return caught.compiled()


def strided_cases() -> dict[str, Callable[[], Tensor]]:
    """Those of the record "09/strided": what rung 6 gets as a copy, and rung 7 as it is."""
    s, _, _, d = SHAPE
    t, freqs = headline_tensors()
    heads_first = t.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3)
    packed = torch.cat((t, t, t), dim=-1)[..., :d]
    every_other = t.repeat_interleave(2, dim=-1)[..., ::2]
    of_half = RotaryPositionEmbedding(d // 2).to(t.device)(s)
    rung_6, rung_7 = (rung_of(number).module.my_rope for number in (6, 7))
    return {
        "a copy of a contiguous tensor": partial(torch.empty_like(t).copy_, t),
        "(b, h, s, d): contiguous(), rung 6": lambda: rung_6(heads_first.contiguous(), freqs),
        "(b, h, s, d): rung 7": partial(rung_7, heads_first, freqs),
        "slice of packed q, k, v: contiguous(), rung 6": lambda: rung_6(packed.contiguous(), freqs),
        "slice of packed q, k, v: rung 7": partial(rung_7, packed, freqs),
        "every other element: rung 7": partial(rung_7, every_other, freqs),
        "half of the columns rotate: rung 7": partial(rung_7, t, of_half),
    }
