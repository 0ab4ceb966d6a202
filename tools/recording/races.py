"""Count launches with wrong results of a write collision: `python tools/recording/races.py`.

It writes a record of notebook 10, on a GPU. The other record, of compute-sanitizer, is of
`rope_lab/steps/collision.py` in git at 0e1faedd.
"""

import os
from itertools import product

import torch

from rope_kernels import RotaryPositionEmbedding
from rope_kernels.reference import apply_rotary_pos_emb
from rope_lab.records import RECORD_SWITCH, observe

LAUNCHES = 200
HEAD_DIMS, WARPS = (64, 80, 96, 112), (1, 2, 4)


def count_wrong_launches() -> dict:
    """Head dimension and warps -> the number of wrong launches, and of all launches."""
    from rope_lab.n10.kernels import unmasked_row

    found = {}
    for d, warps in product(HEAD_DIMS, WARPS):
        t, freqs = torch.randn(512, 1, 8, d, device="cuda"), RotaryPositionEmbedding(d).cuda()(512)
        want, wrong = apply_rotary_pos_emb(t, freqs), 0
        for _ in range(LAUNCHES):
            wrong += ((unmasked_row(t, freqs, warps) - want).abs() > 1e-4).any().item()
        found[f"d {d}, warps {warps}"] = {"wrong": wrong, "launches": LAUNCHES}
    return found


if __name__ == "__main__":
    os.environ[RECORD_SWITCH] = "1"
    print(observe("10/collision", count_wrong_launches))
