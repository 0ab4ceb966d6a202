"""Run a module on several ranks, as `torchrun` does: one process each, on this machine."""

import re

import torch

from ..child import Child, Ended
from ..engine import device
from ..records import CannotRunHere

SECONDS = 110.0  # of a launch; with two ranks on two cores it takes less than 20
_GRACE = 40.0  # seconds that the launcher may take to end its ranks; it gives them 30
_LINES = 12  # of what failed ranks said
_OF_THE_LAUNCHER = re.compile(r"^[A-Z]\d{4} .*torch/distributed/elastic", re.MULTILINE)
_ON_THE_CPU = {  # no rank sees a GPU, and gloo looks for no other machine
    "CUDA_VISIBLE_DEVICES": "",
    "GLOO_SOCKET_IFNAME": "lo",
}


def said_by_ranks() -> dict[str, dict[str, str]]:
    """What two ranks say in notebook 13: in 'parts', the lines after each '== heading'."""
    return {"parts": parts_of(torchrun("rope_lab.steps.on_ranks"))}


def parts_of(text: str) -> dict[str, str]:
    """Heading -> the lines after a line '== heading', up to the next such line."""
    parts = re.split("^== ", text, flags=re.MULTILINE)[1:]
    found = dict(part.partition("\n")[::2] for part in parts)
    return {heading: lines.rstrip() for heading, lines in found.items()}


def torchrun(module: str, *arguments: str, ranks: int = 2, seconds: float = SECONDS) -> str:
    """What so many ranks of `module` print, once all have ended.

    With as many GPUs each rank gets one, and they talk through NCCL. Otherwise all run on the CPU
    and talk through gloo. The launcher chooses a free port by itself.

    Raises:
        CannotRunHere: a rank failed or did not start, or they took too long. The message has
            their last lines.
    """
    on_gpus = device == "cuda" and torch.cuda.device_count() >= ranks
    launcher = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    launcher += ["--nproc-per-node", str(ranks), "-m", module]
    environment = {"OMP_NUM_THREADS": "1"} | ({} if on_gpus else _ON_THE_CPU)
    try:
        # ranks have sessions of their own, and only the launcher knows them: it ends them
        launch = Child(*launcher, *arguments, environment=environment, grace=_GRACE)
    except OSError as error:
        raise CannotRunHere(f"{ranks} ranks of {module} did not start: {error}") from error
    try:
        return launch.run_to_its_end(seconds)
    except Ended as ended:
        failed = f"failed with exit code {ended.code}"
        if ended.late:
            failed = f"did not end within {seconds:.0f} s"
        of_ranks = _OF_THE_LAUNCHER.split(ended.words)[0]
        last = of_ranks.splitlines()[-_LINES:]
        said = "\n".join([f"{ranks} ranks of {module} {failed}. They said:", *last])
        raise CannotRunHere(said) from None
