"""Other processes, as tests watch them."""

import time
from collections.abc import Callable
from pathlib import Path


def is_running(pid: int | str) -> bool:
    """Not gone, nor waiting for its parent to ask for its exit status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for a condition; whether it has come true."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()
