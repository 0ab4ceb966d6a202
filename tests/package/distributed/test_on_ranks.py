"""Two ranks: context parallelism, and patched models.

One launch runs all cases, in processes of their own. It has a time limit, and so has every wait of
one rank for another. On a CPU the ranks talk through gloo, on GPUs through NCCL.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ranks

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
MOST_SECONDS = 900  # of a launch; alone on two cores all cases take about half a minute
ON_A_CPU = pytest.mark.skipif(torch.cuda.is_available(), reason="Triton isn't interpreted here")
FEW_GPUS = pytest.mark.skipif(torch.cuda.device_count() < ranks.RANKS, reason="needs two GPUs")
DEVICES = [
    pytest.param("cpu", marks=ON_A_CPU),
    pytest.param("cuda", marks=[pytest.mark.gpu, FEW_GPUS]),
]


def launch(folder, device):
    """What each rank wrote, and what both said."""
    rooms = [ROOT, HERE.parent, HERE, os.environ.get("PYTHONPATH", "")]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, rooms))}
    command = [sys.executable, HERE / "ranks.py", folder, device]
    with (folder / "said").open("w", encoding="utf-8") as said:
        both = {"stdout": said, "stderr": subprocess.STDOUT}
        started = subprocess.Popen(command, env=variables, start_new_session=True, **both)
        try:
            started.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)  # this launch and its ranks
            started.wait()
    wrote = [folder / f"rank_{rank}.json" for rank in range(ranks.RANKS)]
    return [json.loads(x.read_text(encoding="utf-8")) if x.exists() else {} for x in wrote]


@pytest.mark.parametrize("device", DEVICES)
def test_all_cases_on_two_ranks(device, tmp_path):
    pytest.importorskip("triton", reason="needs Triton")
    if not torch.distributed.is_available():
        pytest.skip("needs torch.distributed")
    for rank, became in enumerate(launch(tmp_path, device)):
        wrong = {name: error for name, error in became.items() if error}
        wrong |= dict.fromkeys(ranks.cases().keys() - became.keys(), "it did not run")
        told = "\n".join(f"{name} on rank {rank}: {error}" for name, error in wrong.items())
        assert not wrong, f"{told}\n{(tmp_path / 'said').read_text(encoding='utf-8')[-4000:]}"
