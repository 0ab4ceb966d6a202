"""The main example, and four functions that copy or rotate it. Importing this loads Triton."""

from collections.abc import Callable
from functools import partial

import torch

from rope_kernels import reference, rope_fw

from ..rungs.measured import headline
from .journey import naive_rope


def cases(dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """Name -> a call on a tensor of this dtype; "ours" is the package's kernel."""
    t, freqs = headline(dtype=dtype)
    rotations = {"eager": reference.apply_rotary_pos_emb, "naive": naive_rope, "ours": rope_fw}
    rotating = {name: partial(rotate, t, freqs) for name, rotate in rotations.items()}
    return {"copy": partial(torch.empty_like(t).copy_, t), **rotating}
