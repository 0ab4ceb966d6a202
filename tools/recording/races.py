"""Record what finds a collision of two stores, on a GPU: `python tools/recording/races.py`.

Two records of notebook 10 come from here: how many launches were wrong, and what compute-sanitizer
said, where it is installed.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

import torch

from rope_kernels import RotaryPositionEmbedding
from rope_kernels.reference import apply_rotary_pos_emb
from rope_lab.records import RECORD_SWITCH, observe

LAUNCHES, SECONDS = 200, 60
HEAD_DIMS, WARPS = (64, 80, 96, 112), (1, 2, 4)
_MODULE = "rope_lab.steps.collision"
# what is launched under which tool
RUNS = {
    "racecheck, collision": ("racecheck", ()),
    "memcheck, collision": ("memcheck", ()),
    "initcheck, collision": ("initcheck", ()),
    "racecheck, staged": ("racecheck", ("staged",)),
}


def count_wrong_launches() -> dict:
    """Head dimension and warps -> wrong launches, and of the last one wrong elements and columns.

    And of heads of 96 and four warps: barriers and stores in the PTX.
    """
    from rope_lab.steps.collision import unmasked_row, unmasked_row_kernel

    found = {}
    for d in HEAD_DIMS:
        t, freqs = torch.randn(512, 1, 8, d, device="cuda"), RotaryPositionEmbedding(d).cuda()(512)
        want = apply_rotary_pos_emb(t, freqs)
        for warps in WARPS:
            wrong, last = 0, torch.zeros_like(t, dtype=torch.bool)
            for _ in range(LAUNCHES):
                differs = (unmasked_row(t, freqs, warps) - want).abs() > 1e-4
                if differs.any():
                    wrong, last = wrong + 1, differs
            columns = last.flatten(0, 2).any(0).nonzero().flatten().tolist()
            found[f"d {d}, warps {warps}"] = {
                "wrong": wrong,
                "launches": LAUNCHES,
                "elements": int(last.sum()),
                "of": t.numel(),
                "columns": [columns[0], columns[-1]] if columns else [],
            }
    t, freqs = torch.randn(4, 1, 8, 96, device="cuda"), RotaryPositionEmbedding(96).cuda()(4)
    sizes = {"HALF": 48, "BLOCK_HALF": 64, "num_warps": 4}
    ptx = unmasked_row_kernel[(32,)](t, freqs, torch.empty_like(t), 8, **sizes).asm["ptx"]
    found["barriers in the PTX of d 96, warps 4"] = ptx.count("bar.sync") + ptx.count("barrier.")
    return found | {"stores in it": ptx.count("st.global")}


def what_the_sanitizer_says() -> dict:
    """Run -> the lines that compute-sanitizer and the script printed.

    Raises:
        FileNotFoundError: compute-sanitizer is not installed.
    """
    tool = _compute_sanitizer()
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    runs = {
        name: subprocess.Popen(
            [tool, "--tool", kind, sys.executable, "-m", _MODULE, *words], **pipes
        )
        for name, (kind, words) in RUNS.items()
    }
    said = {}
    for name, run in runs.items():
        try:
            text, _ = run.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            run.kill()
            text = run.communicate()[0] + "\n===== stopped: it took too long"
        said[name] = [_tidy(line) for line in text.splitlines() if _matters(line)]
    return {"version": re.findall(r"[Vv]ersion (\S+)", version.stdout)} | said


def _compute_sanitizer() -> str:
    places = sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer"))
    found = shutil.which("compute-sanitizer") or next(iter(places), None)
    if found is None:
        raise FileNotFoundError("compute-sanitizer is not here: it comes with the CUDA toolkit")
    return found


def _matters(line: str) -> bool:
    return line.startswith(("=====", "wrong:", "Traceback", "RuntimeError"))


def _tidy(line: str) -> str:
    """Without the folders of this machine."""
    return re.sub(r"(/[\w.+-]+)+/", "", line).rstrip()


def main() -> int:
    if not torch.cuda.is_available():
        print("There is no GPU here.")
        return 1
    os.environ[RECORD_SWITCH] = "1"
    print(observe("10/collision", count_wrong_launches), flush=True)
    print(observe("10/sanitizer", what_the_sanitizer_says))
    return 0


if __name__ == "__main__":
    sys.exit(main())
