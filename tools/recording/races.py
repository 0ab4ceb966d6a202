"""Count the launches that a collision of two stores made wrong: `python tools/recording/races.py`.

This writes a record of notebook 10, on a GPU; without one it is replayed. What compute-sanitizer
ran on, for the record beside it, is `rope_lab/steps/collision.py` in git at 0e1faedd.
"""

import os

import torch

from rope_kernels import RotaryPositionEmbedding
from rope_kernels.reference import apply_rotary_pos_emb
from rope_lab.records import RECORD_SWITCH, observe

LAUNCHES = 200
HEAD_DIMS, WARPS = (64, 80, 96, 112), (1, 2, 4)


def count_wrong_launches() -> dict:
    """Head dimension and warps -> wrong launches, and of the last one wrong elements and columns.

    And of heads of 96 and four warps: barriers and stores in the PTX.
    """
    from rope_lab.steps.journey import unmasked_row, unmasked_row_kernel

    found = {}
    for d in HEAD_DIMS:
        t, freqs = torch.randn(512, 1, 8, d, device="cuda"), RotaryPositionEmbedding(d).cuda()(512)
        want = apply_rotary_pos_emb(t, freqs)
        for warps in WARPS:
            wrong, last = 0, torch.zeros_like(t, dtype=torch.bool)
            for _ in range(LAUNCHES):
                differs = (unmasked_row(t, freqs, warps) - want).abs() > 1e-4
                if differs.any():
                    wrong, last = wrong + 1, differs
            columns = last.flatten(0, 2).any(0).nonzero().flatten().tolist()
            found[f"d {d}, warps {warps}"] = {
                "wrong": wrong,
                "launches": LAUNCHES,
                "elements": int(last.sum()),
                "of": t.numel(),
                "columns": [columns[0], columns[-1]] if columns else [],
            }
    t, freqs = torch.randn(4, 1, 8, 96, device="cuda"), RotaryPositionEmbedding(96).cuda()(4)
    sizes = {"HALF": 48, "BLOCK_HALF": 64, "num_warps": 4}
    ptx = unmasked_row_kernel[(32,)](t, freqs, torch.empty_like(t), 8, **sizes).asm["ptx"]
    found["barriers in the PTX of d 96, warps 4"] = ptx.count("bar.sync") + ptx.count("barrier.")
    return found | {"stores in it": ptx.count("st.global")}


if __name__ == "__main__":
    os.environ[RECORD_SWITCH] = "1"
    print(observe("10/collision", count_wrong_launches))
