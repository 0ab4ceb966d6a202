"""Other processes, as tests start them."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

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
