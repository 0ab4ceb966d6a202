"""Runs cases on several ranks: `python ranks.py WORLD_SIZES FOLDER [cpu or cuda] [names]`.

One launch runs all cases, world size after world size ("2,4"), each in one process group. Every
rank writes to FOLDER what became of each case: its error, or "", and its seconds. `names` is a
pattern that chooses some. A rank that waits for another one gives up after `SECONDS`.
"""

import json
import os
import re
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

SECONDS = 60


def cases():
    """All of them, by world size and name."""
    import edge_cases
    import model_cases
    import patched_cases
    import sharded_cases
    import sharded_cases_more

    every = sharded_cases, sharded_cases_more, edge_cases, model_cases, patched_cases
    return {n: {k: v for x in every for k, v in x.CASES[n].items()} for n in (2, 4)}


def load(device):
    """The cases, and what they and their first launch import."""
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # before anything loads Triton
    import torch

    from rope_kernels import RotaryPositionEmbedding, apply_rotary_pos_emb
    from rope_lab.interpreted_bf16 import let_bf16_round
    from rope_lab.interpreter import speed_up

    torch.set_num_threads(1)
    if device == "cpu":
        speed_up()
        let_bf16_round()
        apply_rotary_pos_emb(torch.zeros(1, 1, 1, 2), RotaryPositionEmbedding(2))
    return cases()


def run(rank, world_size, folder, device, part):
    chosen = {k: v for k, v in load(device)[world_size].items() if re.search(part, k)}
    import torch
    import torch.distributed as dist

    if device != "cpu":
        torch.cuda.set_device(rank)
    store = dist.FileStore(str(folder / f"store_of_{world_size}"), world_size)
    limit = timedelta(seconds=SECONDS)
    backend = "gloo" if device == "cpu" else "nccl"
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=limit)
    found = {}
    for name, case in chosen.items():
        torch.manual_seed(20261120)
        start, error = time.perf_counter(), ""
        try:
            case(device)
        except Exception:
            error = traceback.format_exc()
        found[name] = error, (seconds := time.perf_counter() - start)
        (folder / f"rank_{rank}_of_{world_size}.json").write_text(json.dumps(found))
        if error and seconds > SECONDS:
            break  # the ranks are in different cases, and each further one would wait as long
    dist.destroy_process_group()


if __name__ == "__main__":
    import torch.multiprocessing as mp

    world_sizes, folder = [int(n) for n in sys.argv[1].split(",")], Path(sys.argv[2])
    device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    part = sys.argv[4] if len(sys.argv) > 4 else ""
    start_method = "spawn"  # CUDA does not survive a fork
    if device == "cpu" and sys.platform == "linux":
        start_method = "fork"  # modules are loaded once, which takes longer than most cases
        load(device)
    for n in world_sizes:
        mp.start_processes(run, (n, folder, device, part), n, start_method=start_method)
