"""Other processes, as tests start and watch them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import psutil

ROOT = Path(__file__).resolve().parents[2]
PLACES = [str(ROOT / name) for name in ("tests/support", "")]


def run_python(code: str, **variables: str) -> str:
    """Run code in a fresh process, as a reader who has set nothing; what it printed."""
    environment = {name: value for name, value in os.environ.items() if "TRITON" not in name}
    path = os.pathsep.join([*PLACES, os.environ.get("PYTHONPATH", "")])
    environment |= {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore", **variables}
    result = subprocess.run(
        [sys.executable, "-c", dedent(code)], env=environment, capture_output=True, encoding="utf-8"
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def is_running(pid: int | str) -> bool:
    """Not gone, nor waiting for its parent to ask for its exit status."""
    try:
        return psutil.Process(int(pid)).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for a condition; whether it has come true."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()
