"""A row of small calls, one by one and in a CUDA graph: notebook 08, section 3."""

import time
from collections.abc import Callable
from functools import partial

import torch

from rope_kernels import RotaryPositionEmbedding, reference, rope_fw

from ..timing import in_a_graph

LAYERS = 32


def rows_of_calls() -> dict[str, dict[str, float]]:
    """Microseconds that you wait for one of 32 calls, eager and ours."""
    t = torch.randn(64, 1, 16, 64, device="cuda", dtype=torch.bfloat16)
    freqs = RotaryPositionEmbedding(64).cuda()(64)
    found = {"one by one": {}, "as a graph": {}}
    for name, rotate in {"eager": reference.apply_rotary_pos_emb, "ours": rope_fw}.items():
        call = partial(rotate, t, freqs)
        found["one by one"][name] = _waited(lambda call=call: [call() for _ in range(LAYERS)])
        found["as a graph"][name] = _waited(in_a_graph(call, LAYERS))
    return found


def _waited(row: Callable[[], object], times: int = 20) -> float:
    """Microseconds a call, by the host's clock, until the device is done with the last row."""
    row()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        row()
    torch.cuda.synchronize()
    return round(1e6 * (time.perf_counter() - begin) / times / LAYERS, 2)
