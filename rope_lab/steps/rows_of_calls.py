"""A row of small calls, one by one and in a CUDA graph: notebook 08, section 3."""

from functools import partial

import torch

from rope_kernels import RotaryPositionEmbedding, reference, rope_fw

from ..timing import in_a_graph
from .fingerprint import row_of, waits


def rows_of_calls() -> dict[str, dict[str, float]]:
    """Microseconds that you wait for one of 32 calls, eager and ours."""
    t = torch.randn(64, 1, 16, 64, device="cuda", dtype=torch.bfloat16)
    freqs = RotaryPositionEmbedding(64).cuda()(64)
    rotations = {"eager": reference.apply_rotary_pos_emb, "ours": rope_fw}
    rows = {name: row_of([partial(rotate, t, freqs)]) for name, rotate in rotations.items()}
    graphs = {name: in_a_graph(row) for name, row in rows.items()}
    found = {"one by one": waits(rows), "as a graph": waits(graphs)}
    return {way: {name: round(us, 2) for name, us in of.items()} for way, of in found.items()}
