"""Defaults of nbval, so that `pytest --nbval notebooks` needs no further option.

What JupyterLab and readers leave beside the notebooks is not collected.

They are set here and not in pyproject.toml because pytest must also run where nbval is absent:
an unknown option in `addopts` would stop it.
"""

import os
from pathlib import Path

os.environ["ROPE_LAB_QUIET"] = "1"  # no word about time in outputs that are compared
os.environ["KINETO_LOG_LEVEL"] = "6"  # nor torch.profiler's log, whose lines have the date
# Processes share the tests, one a core. Threads of each would mostly wait for each other, which
# they do by spinning: on two cores that doubled the time of many tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent
collect_ignore_glob = ["*/.ipynb_checkpoints", "my_notebooks*"]

NBVAL_CELL_TIMEOUT = 2000  # seconds; what nbval takes when nothing is said
CELL_TIMEOUT = 120  # a dead kernel is noticed only when this has passed


def pytest_configure(config):
    option = config.option
    if not hasattr(option, "nbval"):
        return
    if option.nbval_cell_timeout == NBVAL_CELL_TIMEOUT:
        option.nbval_cell_timeout = CELL_TIMEOUT
    # nbval would start the kernel that a notebook names, which may be another Python's.
    # (current_env is nbval's old spelling; it complains when both are set.)
    if option.nbval_kernel_name is None and not option.current_env:
        option.nbval_current_env = True
    # By absolute path, because nbval looks in the current folder. (sanitize_with: as above.)
    if option.nbval_sanitize_with is None and not option.sanitize_with:
        option.nbval_sanitize_with = str(ROOT / "tools/nbval_sanitize.cfg")


def pytest_itemcollected(item):
    """Without a GPU, a cell that measures replays its record and is compared like any other."""
    cell = getattr(item, "cell", None)
    if cell and "measures" in cell.metadata.get("tags", []):
        import torch  # takes seconds, and most runs of pytest collect no such cell

        if torch.cuda.is_available():
            item.options["check"] = False  # as the tag nbval-ignore-output
