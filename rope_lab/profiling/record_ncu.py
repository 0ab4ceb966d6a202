"""Record Nsight Compute's reports: `python -m rope_lab.profiling.record_ncu`, where ncu is.

Each kernel is launched in a process of its own under ncu, with the clocks as they are, and its
report is written to `notebooks/records/08_ncu_NAME.csv`.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from ..records import circumstances
from . import ncu

SHAPE = (2048, 16, 8, 256)  # s, b, h, d; in bf16
WARM_UP = 3  # launches before the one that is reported
_MISSING = re.compile(r"Failed to find metric\s+(?:regex:)?([\w.]+)", re.IGNORECASE)


def calls() -> dict[str, tuple[str, Callable[[], object]]]:
    """Name of the report -> the kernel's name, and a call that launches it."""
    import triton

    from rope_kernels import RotaryPositionEmbedding, rope_fw
    from rope_lab.steps import journey
    from rope_lab.steps.strided_copy import copy_strided, every_eighth_kernel

    t = torch.randn(*SHAPE, device="cuda", dtype=torch.bfloat16)
    freqs = RotaryPositionEmbedding(SHAPE[-1]).cuda()(SHAPE[0])
    numbers = torch.randn(t.numel() // 2, device="cuda")  # fp32: as many bytes
    assert triton.next_power_of_2(numbers.numel()) == numbers.numel()
    return {
        "naive": (journey.naive_rope_kernel.fn.__name__, lambda: journey.naive_rope(t, freqs)),
        "final": ("rope_kernel", lambda: rope_fw(t, freqs)),
        "unknown": (every_eighth_kernel.fn.__name__, lambda: copy_strided(numbers)),
    }


def command(name: str, metrics: tuple[str, ...], log: str) -> list[str]:
    """ncu's command line for one report; no metrics: everything that it has."""
    wanted = ["--metrics", ",".join(metrics)] if metrics else ["--set", "full"]
    return [
        *("ncu", "--csv", "--page", "raw", "--print-units", "base", "--log-file", log),
        *("--clock-control", "none"),  # as the GPU runs by itself, not at its base clock
        *("--cache-control", "all"),  # caches empty before the launch
        *("--launch-skip", str(WARM_UP), "--launch-count", "1"),
        *("--kernel-name-base", "function", "--kernel-name", f"regex:^{kernel_of(name)}$"),
        *wanted,
        *(sys.executable, "-m", "rope_lab.profiling.record_ncu", "--launch", name),
    ]


def kernel_of(name: str) -> str:
    names = {"naive": "naive_rope_kernel", "final": "rope_kernel"}
    return names.get(name, "every_eighth_kernel")


def record(name: str, folder: Path) -> Path:
    """Run ncu for one report and write it.

    Raises:
        RuntimeError: ncu could not report; its own words are in the message.
    """
    metrics, said = ncu.METRICS, ""
    for _ in range(len(ncu.METRICS)):
        with tempfile.TemporaryDirectory() as place:
            log = Path(place, "log.csv")
            run = subprocess.run(
                command(name, metrics, str(log)), capture_output=True, text=True, check=False
            )
            said = (log.read_text() if log.exists() else "") + run.stdout + run.stderr
        missing = set(_MISSING.findall(said)) & set(metrics)
        if not missing:
            break
        metrics = tuple(metric for metric in metrics if metric not in missing)
    try:
        values, units = ncu.parse(said)
    except ValueError as error:
        raise RuntimeError(f"{error}:\n{said[-2000:]}") from None
    which = {"kernel": kernel_of(name), "shape": f"{SHAPE}, bf16"}
    if name == "unknown":
        which = {"kernel": "?", "shape": "2^25 numbers in, as many out, fp32"}
    path = folder / f"08_ncu_{name}.csv"
    ncu.write(path, ncu.Report(which | about(), values, units))
    return path


def about() -> dict[str, str]:
    """GPU, versions (ncu's too), date and command, as a report's first lines say them."""
    found = circumstances()
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False)
    numbers = re.search(r"Version (\d+\.\d+\.\d+)", version.stdout)
    versions = found["versions"] | {"ncu": numbers[1] if numbers else "unknown"}
    return {
        "gpu": found["gpu"],
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "date": found["date"],
        "command": "python -m rope_lab.profiling.record_ncu",
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launch", help="only launch this kernel, for ncu to watch")
    parser.add_argument("--out", type=Path, default=Path("notebooks/records"))
    chosen = parser.parse_args(arguments)
    if chosen.launch:
        _, call = calls()[chosen.launch]
        for _ in range(WARM_UP + 1):
            call()
        torch.cuda.synchronize()
        return 0
    if shutil.which("ncu") is None:
        print("There is no ncu here: it comes with NVIDIA's CUDA toolkit, and needs a GPU.")
        return 1
    for name in ("naive", "final", "unknown"):
        print(record(name, chosen.out), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
