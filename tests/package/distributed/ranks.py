"""Runs cases on two ranks: `python ranks.py FOLDER [cpu or cuda] [names]`.

One launch runs all cases in one process group. Each rank writes to FOLDER what became of each case:
its error, or "". `names` is a pattern that chooses some. A rank that waits for the other one gives
up after `SECONDS`.
"""

import json
import re
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

RANKS = 2
SECONDS = 240


def cases():
    """All of them, by name."""
    import context_cases
    import patched_cases

    return context_cases.CASES | patched_cases.CASES


def load(device):
    """The cases, and what they and their first launch import."""
    import torch

    from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb
    from rope_lab.interpreter import run_as_compiled

    torch.set_num_threads(1)
    if device == "cpu":
        run_as_compiled()
        apply_rotary_pos_emb(torch.zeros(1, 1, 1, 2), RotaryPositionEmbedding(2))
    return cases()


def run(rank, folder, device, part):
    chosen = {k: v for k, v in load(device).items() if re.search(part, k)}
    import torch
    import torch.distributed as dist

    if device != "cpu":
        torch.cuda.set_device(rank)
    store = dist.FileStore(str(folder / "store"), RANKS)
    limit = timedelta(seconds=SECONDS)
    backend = "gloo" if device == "cpu" else "nccl"
    dist.init_process_group(backend, store=store, rank=rank, world_size=RANKS, timeout=limit)
    found = {}
    for name, case in chosen.items():
        torch.manual_seed(20261120)
        start, error = time.perf_counter(), ""
        try:
            case(device)
        except Exception:
            error = traceback.format_exc()
        found[name] = error
        (folder / f"rank_{rank}.json").write_text(json.dumps(found), encoding="utf-8")
        if error and time.perf_counter() - start > SECONDS:
            break  # the ranks are in different cases, and each further one would wait as long
    dist.destroy_process_group()


if __name__ == "__main__":
    import torch.multiprocessing as mp

    folder = Path(sys.argv[1])
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    start_method = "spawn"  # CUDA does not survive a fork
    if device == "cpu" and sys.platform == "linux":
        start_method = "fork"  # modules are loaded once, which takes longer than most cases
        load(device)
    mp.start_processes(run, (folder, device, part), RANKS, start_method=start_method)
