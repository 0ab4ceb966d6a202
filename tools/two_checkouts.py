"""Two checkouts of the project answer `compare_speed.py`, each in a process of its own.

That process imports `rope_kernels` and `rope_lab` from the checkout. The benchmark is that beside
this file in both, so both make the same calls.
"""

import importlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


class Checkout:
    """A process that answers questions about one checkout."""

    def __init__(self, folder: str, interpret: bool) -> None:
        """
        Args:
            folder: it holds rope_kernels/ and rope_lab/.
            interpret: kernels run in Triton's interpreter.
        """
        from rope_lab.child import Worker  # the process that answers imports its checkout's

        self.folder = Path(folder).resolve()
        paths = [str(self.folder), str(HERE), os.environ.get("PYTHONPATH")]
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        environment["TRITON_INTERPRET"] = "1" if interpret else "0"
        self.worker = Worker(__file__, environment)

    def ask(self, **question):
        """The answer.

        Raises:
            RuntimeError: it has died of the question.
        """
        from rope_lab.child import Ended

        try:
            return self.worker.ask(question, math.inf)["answer"]
        except Ended as ended:
            told = f"the process of {self.folder} ended at {question}:\n{ended.words}"
            raise RuntimeError(told) from ended

    def __enter__(self) -> "Checkout":
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.end()


# What `rope_lab/worker.py` calls in the process of a checkout


def start(folder: Path) -> None:
    """Import both packages from the checkout, and all else from beside this file."""
    checkout = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0])
    sys.path[0] = str(checkout)
    import rope_kernels
    import rope_lab  # noqa: F401

    sys.path[0] = str(HERE.parent)
    if checkout not in Path(rope_kernels.__file__).resolve().parents:
        raise RuntimeError(f"rope_kernels was imported from {rope_kernels.__file__}")


def answer(job: dict, folder: Path, tell: Callable) -> dict:
    return {"answer": importlib.import_module("compare_speed").answer(job)}
