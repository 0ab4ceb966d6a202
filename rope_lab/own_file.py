"""A kernel in a file of the reader's own: a function from it, and a cell that is run as a file."""

import inspect
import linecache
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from .standalone import module_of_file

INTERPRET = "TRITON_INTERPRET"


def from_file(path: str | Path, name: str) -> Callable:
    """Run a file of your own, and return one of its functions, as for `lab.check_exercise`.

    If that isn't possible, the function that comes back says why when it is called.
    """
    path = Path(path)
    if not path.is_file():
        return _not_yet(f"there is no {path.name} in this folder")
    before = os.environ.get(INTERPRET)
    try:
        with patch.dict(os.environ):
            module = module_of_file(path)
            after = os.environ.get(INTERPRET)
    except (Exception, SystemExit) as error:  # whatever a reader's file may raise
        reason = (str(error).strip() or "without a message").splitlines()[0]
        return _not_yet(f"{path.name} stops with {type(error).__name__}: {reason}")
    if before != after:  # its kernels are for the interpreter alone now
        how = f"run it by {INTERPRET}=1 python {path.name}"
        return _not_yet(f"{path.name} sets {INTERPRET}: remove that line, and {how}")
    if not callable(found := getattr(module, name, None)):
        return _not_yet(f"{path.name} has no function {name}")
    return found


def _not_yet(reason: str) -> Callable:
    def not_there(*_inputs: object) -> None:
        raise NotImplementedError(reason)

    return not_there


def run_alone(function: Callable, **environment: str) -> str:
    """Run the cell that defines a function as a file of its own, and return its last line.

    The file is in a temporary folder, and its Python is this one, which sees no GPU there.

    Args:
        function: defined in a cell of a notebook, or in a file.
        environment: variables for that run; Triton's own is unset if it isn't among them.

    Raises:
        ValueError: the function is in the file that runs now, which would run itself again.
    """
    source = inspect.getsourcefile(function)
    if source == getattr(sys.modules["__main__"], "__file__", None):
        raise ValueError(f"function is in {source}, which runs now; accepted: one of another file")
    lines = linecache.getlines(source)
    variables = {name: x for name, x in os.environ.items() if name != INTERPRET}
    variables |= {"CUDA_VISIBLE_DEVICES": ""} | environment
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "mine.py")
        file.write_text("".join(lines), encoding="utf-8")
        command = [sys.executable, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[-1]
