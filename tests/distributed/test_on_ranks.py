"""Two ranks: context parallelism, and patched models.

One launch runs all chosen cases, in processes of their own, and each test here reads what became of
one case. The launch has a time limit, and so has every wait of one rank for another. On a CPU the
ranks talk through gloo, on GPUs through NCCL.
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

import ranks

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MOST_SECONDS = 900  # of a launch; alone on two cores all cases take about half a minute
CASES = ranks.cases()


def launch(folder, device, names):
    """What became of each case on each rank: {case: (error, seconds)}."""
    rooms = [ROOT, HERE.parent, HERE, os.environ.get("PYTHONPATH", "")]
    pattern = "^(" + "|".join(map(re.escape, names)) + ")$"
    command = [sys.executable, HERE / "ranks.py", folder, device, pattern]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, rooms))}
    with (folder / "said").open("w") as said:
        both = {"stdout": said, "stderr": subprocess.STDOUT}
        started = subprocess.Popen(command, env=variables, start_new_session=True, **both)
        try:
            started.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)  # this launch and its ranks
            started.wait()
    said = (folder / "said").read_text()[-4000:]
    return [read(folder / f"rank_{rank}.json", said) for rank in range(ranks.RANKS)]


def read(file, said):
    return json.loads(file.read_text()) if file.exists() else {"": (said, 0)}


@pytest.fixture(scope="session")
def became(request, tmp_path_factory):
    """What became of each case, by device; all workers of xdist share one launch."""
    pytest.importorskip("triton", reason="needs Triton")
    if not torch.distributed.is_available():
        pytest.skip("needs torch.distributed")
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    items = [x for x in request.session.items if "became" in getattr(x, "fixturenames", ())]

    def of(device):
        folder = shared / f"ranks_{device}"
        with FileLock(f"{folder}.lock"):
            if not (folder / "all.json").exists():
                folder.mkdir()
                mine = [x for x in items if (device == "cuda") == is_nccl(x)]
                found = launch(folder, device, [x.callspec.params["name"] for x in mine])
                (folder / "all.json").write_text(json.dumps(found))
        return json.loads((folder / "all.json").read_text())

    return of


def is_nccl(item):
    return "gpu" in item.keywords


def check_case(found, name):
    for rank, cases in enumerate(found):
        error, _ = cases.get(name, ("it did not run\n" + cases.get("", ("", 0))[0], 0))
        assert not error, f"rank {rank}: {error}"


on_a_cpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="Triton is not interpreted: see NCCL"
)


@on_a_cpu
@pytest.mark.parametrize("name", CASES)
def test_on_gloo(name, became):
    check_case(became("cpu"), name)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_on_nccl(name, became):
    if torch.cuda.device_count() < ranks.RANKS:
        pytest.skip(f"needs {ranks.RANKS} GPUs")
    check_case(became("cuda"), name)
