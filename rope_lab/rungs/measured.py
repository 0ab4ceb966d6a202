"""What is measured of the climb: every rung, between eager PyTorch and a copy, in one run."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rope_kernels import RotaryPositionEmbedding, reference, rope_fw

from . import RUNGS, SHAPE

KEY = "09/rungs"  # of the record
EAGER, PACKAGE, COPY = "eager", "package", "copy"


def headline(device: str = "cuda", dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor]:
    """Random elements of the headline shape, and the table of their fp32 angles."""
    s, _, _, d = SHAPE
    t = torch.randn(SHAPE, device=device, dtype=dtype)
    return t, RotaryPositionEmbedding(d).to(device)(s)


def make_cases(device: str = "cuda") -> dict[str, Callable[[], object]]:
    """The cases for `lab.bench`: a copy, eager PyTorch, rungs 1 to 7, and the package's kernel.

    All of them rotate the same bf16 tensor by the same table of fp32 angles.
    """
    t, freqs = headline(device)
    out = torch.empty_like(t)
    cases = {COPY: partial(out.copy_, t), EAGER: partial(reference.apply_rotary_pos_emb, t, freqs)}
    for number, rung in RUNGS.items():
        cases[f"rung {number}"] = partial(rung.module.my_rope, t, freqs)
    return cases | {PACKAGE: partial(rope_fw, t, freqs)}
