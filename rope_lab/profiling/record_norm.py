"""Record ncu's reports of notebook 11's kernels: `python -m rope_lab.profiling.record_norm`.

One process launches all calls under ncu, with the clocks as they are and empty caches. Each report
is written to `notebooks/records/11_ncu_NAME.csv`; of a call with more kernels, that of the slowest.
"""

import argparse
import ast
import csv
import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.nn.functional import rms_norm

from . import ncu
from .record_ncu import WARM_UP, _about

S, HEADS, ALL, D = 8192, 32, 40, 128  # Qwen3-8B: heads of q, and of q and k, in bf16
REPORTS = {  # name -> heads
    **dict.fromkeys(("often", "once", "rms_norm"), HEADS),
    **dict.fromkeys(("per_tile", "stages_1", "stages_2", "stages_3"), ALL),
}
MARK = "spin_kernel"  # torch.cuda._sleep launches it between two calls
NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "11_two_for_the_price_of_one.ipynb"


def functions_of_notebook(*names: str) -> dict[str, Callable]:
    """Functions as the notebook defines them."""
    space = {"torch": torch}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            for node in ast.parse("".join(cell["source"])).body:
                if isinstance(node, ast.FunctionDef) and node.name in names:
                    exec(compile(ast.Module([node], []), NOTEBOOK.name, "exec"), space)
    return {name: space[name] for name in names}


def calls() -> dict[str, Callable[[], object]]:
    """The call of each report."""
    from rope_lab.steps.norm_backward import norm_rope_backward, programs_for_all_sms
    from rope_lab.steps.norm_calls import backward_inputs, layer

    drafts = functions_of_notebook("rounded_often", "rounded_once")
    often, once = (torch.compile(drafts[name]) for name in ("rounded_often", "rounded_once"))
    (q, _, weight, _), narrow, wide = layer()
    back, each = partial(norm_rope_backward, *backward_inputs()), programs_for_all_sms(8)
    return {
        "often": lambda: often(q, weight, *wide),
        "once": lambda: once(q, weight, *narrow),
        "rms_norm": lambda: rms_norm(q, (D,), weight, 1e-6),
        "per_tile": lambda: back(S * ALL // 8),
    } | {f"stages_{stages}": partial(back, each, stages=stages) for stages in (1, 2, 3)}


def command(metrics: tuple[str, ...], log: str) -> list[str]:
    """ncu's command line for the launches between start and stop."""
    return [
        *("ncu", "--csv", "--page", "raw", "--print-units", "base", "--log-file", log),
        *("--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off"),
        *("--kernel-name-base", "function", "--target-processes", "application-only"),
        *("--metrics", ",".join(metrics)),
        *(sys.executable, "-m", "rope_lab.profiling.record_norm", "--launch"),
    ]


def launch() -> None:
    """Launch every call, with a mark after each."""
    wanted = calls()
    assert list(wanted) == list(REPORTS)
    for call in wanted.values():
        for _ in range(WARM_UP):
            call()
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for call in wanted.values():
        call()
        torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def reports(output: str) -> list[list[tuple[str, dict[str, float], dict[str, str]]]]:
    """Of each call between two marks: its kernels, each with its name, values and units."""
    lines = output.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith('"ID"'))
    header, units, *rows = csv.reader(line for line in lines[begin:] if not line.startswith("=="))
    name, groups = header.index("Kernel Name"), [[]]
    for row in rows:
        if MARK in row[name]:
            groups.append([])
            continue
        text = io.StringIO()
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows((header, units, row))
        groups[-1].append((row[name], *ncu.parse(text.getvalue())))
    return groups[:-1]


def record(folder: Path) -> list[Path]:
    """Run ncu and write the reports.

    Raises:
        RuntimeError: ncu could not report; its own words are in the message.
    """
    with tempfile.TemporaryDirectory() as place:
        log = Path(place, "log.csv")
        run = subprocess.run(
            command(ncu.METRICS, str(log)), capture_output=True, text=True, check=False
        )
        said = log.read_text() if log.exists() else ""
    try:
        groups = reports(said)
    except StopIteration:
        raise RuntimeError(f"no launch:\n{(said + run.stdout + run.stderr)[-3000:]}") from None
    paths, about = [], _about() | {"command": "python -m rope_lab.profiling.record_norm"}
    for (name, heads), kernels in zip(REPORTS.items(), groups, strict=True):
        kernels.sort(key=lambda kernel: -kernel[1]["gpu__time_duration.sum"])
        for number, (kernel, values, units) in enumerate(kernels, 1):
            path = folder / f"11_ncu_{name}{f'_{number}' if number > 1 else ''}.csv"
            which = {"kernel": kernel, "shape": f"({S}, 1, {heads}, {D}), bf16"}
            ncu.write(path, ncu.Report(which | about, values, units))
            paths.append(path)
    return paths


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launch", action="store_true", help="only launch, for ncu to watch")
    parser.add_argument("--out", type=Path, default=Path("notebooks/records"))
    chosen = parser.parse_args(arguments)
    if chosen.launch:
        launch()
        return 0
    if shutil.which("ncu") is None:
        print("There is no ncu here: it comes with NVIDIA's CUDA toolkit, and needs a GPU.")
        return 1
    for path in record(chosen.out):
        print(path, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
