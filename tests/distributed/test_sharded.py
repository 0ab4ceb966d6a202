"""Several ranks: DTensors, norms over heads of all ranks, and context parallelism.

One launch runs all chosen cases of a world size, in processes of their own, and each test here
reads what became of one case. The launch has a time limit, and so has every wait of one rank for
another. On a CPU the ranks talk through gloo, on GPUs through NCCL.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock

import sharded_cases
import sharded_cases_more

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MOST_SECONDS = 900  # of a launch; alone on two cores it takes less than two minutes
MOST_SECONDS_OF_A_CASE = 120
CASES = {n: sharded_cases.CASES[n] | sharded_cases_more.CASES[n] for n in (2, 4)}


def launch(world_size, folder, device, names):
    """What became of each case on each rank: {case: (error, seconds)}."""
    rooms = [ROOT, HERE, os.environ.get("PYTHONPATH", "")]
    pattern = "^(" + "|".join(map(re.escape, names)) + ")$"
    command = [sys.executable, HERE / "ranks.py", str(world_size), folder, device, pattern]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, rooms))}
    with (folder / "said").open("w") as said:
        both = {"stdout": said, "stderr": subprocess.STDOUT}
        ranks = subprocess.Popen(command, env=variables, start_new_session=True, **both)
        try:
            ranks.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(ranks.pid, signal.SIGKILL)  # this launch and its ranks
            ranks.wait()
    files = [folder / f"rank_{rank}.json" for rank in range(world_size)]
    said = (folder / "said").read_text()[-4000:]
    return [json.loads(file.read_text()) if file.exists() else {"": (said, 0)} for file in files]


@pytest.fixture(scope="session")
def became(request, tmp_path_factory):
    """What became of a case, by world size and device; all workers of xdist share one launch."""
    pytest.importorskip("triton", reason="needs Triton")
    if not torch.distributed.is_available():
        pytest.skip("needs torch.distributed")
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    chosen = {}
    for item in request.session.items:
        if item.path == Path(__file__) and "world_size" in item.fixturenames:
            values = item.callspec.params
            chosen.setdefault(values["world_size"], []).append(values["name"])

    def of(world_size, device):
        folder = shared / f"ranks_{world_size}_{device}"
        with FileLock(f"{folder}.lock"):
            if not (folder / "all.json").exists():
                folder.mkdir()
                found = launch(world_size, folder, device, chosen[world_size])
                (folder / "all.json").write_text(json.dumps(found))
        return json.loads((folder / "all.json").read_text())

    return of


def check_case(found, name):
    for rank, cases in enumerate(found):
        error, seconds = cases.get(name, ("it did not run\n" + cases.get("", ("", 0))[0], 0))
        assert not error, f"rank {rank}: {error}"
        assert seconds < MOST_SECONDS_OF_A_CASE, seconds


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton's interpreter is off: see NCCL below")
@pytest.mark.parametrize("world_size,name", [(n, name) for n in CASES for name in CASES[n]])
def test_on_gloo(world_size, name, became):
    check_case(became(world_size, "cpu"), name)


@pytest.mark.gpu
@pytest.mark.parametrize("world_size,name", [(2, name) for name in CASES[2]])
def test_on_nccl(world_size, name, became):
    if torch.cuda.device_count() < world_size:
        pytest.skip(f"needs {world_size} GPUs")
    check_case(became(world_size, "cuda"), name)
