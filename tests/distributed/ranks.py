"""Runs cases on several ranks: `python ranks.py WORLD_SIZE FOLDER [cpu or cuda] [names]`.

One launch runs all cases of a world size, in one process group, and every rank writes to FOLDER
what became of each case: its error, or "", and its seconds. `names` is a pattern that chooses some.
A rank that waits for another one gives up after `SECONDS`.
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


def run(rank, world_size, folder, device, part):
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # before anything loads Triton
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if device == "cpu":
        from rope_lab.interpreter import speed_up

        speed_up()
    else:
        torch.cuda.set_device(rank)
    import sharded_cases
    import sharded_cases_more

    store = dist.FileStore(str(folder / "store"), world_size)
    limit = timedelta(seconds=SECONDS)
    backend = "gloo" if device == "cpu" else "nccl"
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=limit)
    found = {}
    cases = sharded_cases.CASES[world_size] | sharded_cases_more.CASES[world_size]
    for name, case in cases.items():
        if not re.search(part, name):
            continue
        torch.manual_seed(20261120)
        start, error = time.perf_counter(), ""
        try:
            case(device)
        except Exception:
            error = traceback.format_exc()
        found[name] = error, time.perf_counter() - start
        (folder / f"rank_{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    import torch.multiprocessing as mp

    world_size, folder = int(sys.argv[1]), Path(sys.argv[2])
    device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    part = sys.argv[4] if len(sys.argv) > 4 else ""
    mp.spawn(run, (world_size, folder, device, part), world_size)
