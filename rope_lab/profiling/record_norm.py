"""Record ncu's reports of notebook 11's kernels: `python -m rope_lab.profiling.record_norm`.

One process launches all calls under ncu, with the clocks as they are and empty caches. The report
of each kernel is written to `notebooks/records/11_ncu_NAME.csv`.
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
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch.nn.functional import rms_norm

from ..steps.norm_calls import K_HEADS, Q_HEADS, D, S, backward_inputs, layer
from . import ncu
from .record_ncu import WARM_UP, about

ALL = Q_HEADS + K_HEADS
REPORTS = {  # name -> the call, a part of the kernel's name, heads
    "often": ("often", "triton", Q_HEADS),
    "once": ("once", "triton", Q_HEADS),
    "rms_norm": ("rms_norm", "norm", Q_HEADS),
    "tiles": ("tiles", "norm_rope", ALL),
    "tiles_sum": ("tiles", "sum_partials", ALL),
    "stages_1": ("stages_1", "norm_rope", ALL),
    "stages_2": ("stages_2", "norm_rope", ALL),
    "stages_2_sum": ("stages_2", "sum_partials", ALL),
    "stages_3": ("stages_3", "norm_rope", ALL),
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
    """What is launched, by name."""
    from rope_lab.steps.norm_backward import norm_rope_backward, programs_for_all_sms

    drafts = functions_of_notebook("rounded_often", "rounded_once")
    often, once = (torch.compile(drafts[name]) for name in ("rounded_often", "rounded_once"))
    (q, _, weight, _), narrow, wide = layer()
    back, each = partial(norm_rope_backward, *backward_inputs()), programs_for_all_sms(8)
    return {
        "often": lambda: often(q, weight, *wide),
        "once": lambda: once(q, weight, *narrow),
        "rms_norm": lambda: rms_norm(q, (D,), weight, 1e-6),
        "tiles": lambda: back(S * ALL // 8),
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


def launches(output: str) -> list[dict[str, ncu.Report]]:
    """Of each call, up to its mark: a report for each kernel's name, still about nothing."""
    lines = output.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith('"ID"'))
    header, units, *rows = csv.reader(line for line in lines[begin:] if not line.startswith("=="))
    name, found = header.index("Kernel Name"), [{}]
    for row in rows:
        if MARK in row[name]:
            found.append({})
            continue
        text = io.StringIO()
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows((header, units, row))
        found[-1][row[name]] = ncu.Report({}, *ncu.parse(text.getvalue()))
    return found[:-1]


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
        found = launches(said)
    except StopIteration:
        raise RuntimeError(f"no launch:\n{(said + run.stdout + run.stderr)[-3000:]}") from None
    of_call = dict(zip(dict.fromkeys(call for call, *_ in REPORTS.values()), found, strict=True))
    paths, where = [], about() | {"command": "python -m rope_lab.profiling.record_norm"}
    for name, (call, part, heads) in REPORTS.items():
        (kernel,) = (kernel for kernel in of_call[call] if part in kernel)
        which = {"kernel": kernel, "shape": f"({S}, 1, {heads}, {D}), bf16"}
        paths.append(folder / f"11_ncu_{name}.csv")
        ncu.write(paths[-1], replace(of_call[call][kernel], about=which | where))
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
