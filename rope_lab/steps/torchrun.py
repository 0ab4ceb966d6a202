"""Run a module on several ranks, as `torchrun` does: one process each, on this machine."""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from ..engine import device

SECONDS = 110.0  # of a launch; with two ranks on two cores it takes less than 20
_GRACE = 40.0  # seconds that the launcher may take to end its ranks; it gives them 30
_LINES = 12  # of what failed ranks said
_ON_THE_CPU = {  # no rank sees a GPU, and gloo looks for no other machine
    "CUDA_VISIBLE_DEVICES": "",
    "TRITON_INTERPRET": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


@dataclass(frozen=True)
class Said:
    """What the ranks printed.

    Attributes:
        text: all of it.
        where: what they ran on; it differs between machines.
    """

    text: str
    where: str

    def part(self, heading: str) -> str:
        """The lines after a line '== heading', up to the next such line."""
        parts = re.split("^== ", self.text, flags=re.MULTILINE)[1:]
        return dict(part.partition("\n")[::2] for part in parts)[heading].rstrip()


def torchrun(module: str, *arguments: str, ranks: int = 2, seconds: float = SECONDS) -> Said:
    """Run `module` on so many ranks and wait for them.

    With as many GPUs each rank gets one, and they talk through NCCL. Otherwise all run on the CPU
    and talk through gloo. The launcher chooses a free port by itself.

    Raises:
        RuntimeError: a rank failed, or they took too long. The message has their last lines.
    """
    on_gpus = device == "cuda" and torch.cuda.device_count() >= ranks
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks), "-m", module]
    variables = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    variables |= {} if on_gpus else _ON_THE_CPU
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "out.txt"), Path(folder, "errors.txt")
        with out.open("w") as said, errors.open("w") as complained:
            files = {"stdout": said, "stderr": complained, "stdin": subprocess.DEVNULL}
            launcher = subprocess.Popen(
                [*command, *arguments], env=variables, start_new_session=True, **files
            )
            failed = _wait(launcher, seconds)
        text, complaints = out.read_text(), errors.read_text()
    if failed:
        of_ranks = complaints.split("torch/distributed/elastic")[0]  # the launcher's are after it
        last = of_ranks.splitlines()[-_LINES:]
        raise RuntimeError("\n".join([f"{ranks} ranks of {module} {failed}. They said:", *last]))
    where = f"{torch.cuda.get_device_name()}, NCCL" if on_gpus else "the CPU, gloo"
    return Said(text, f"{ranks} ranks, {where}")


def _wait(launcher: subprocess.Popen, seconds: float) -> str:
    """How the launch failed; '' if it did not. Afterwards none of its processes is left."""
    try:
        code = launcher.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"did not end within {seconds:.0f} s"
    finally:
        if launcher.poll() is None:  # also where the reader interrupts
            _end(launcher)
    return f"failed with exit code {code}" if code else ""


def _end(launcher: subprocess.Popen) -> None:
    """Its ranks have groups of their own, and only the launcher knows them: it ends them first."""
    launcher.terminate()
    try:
        launcher.wait(_GRACE)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
