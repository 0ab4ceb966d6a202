"""Ask two checkouts of the project the same questions: what the three comparisons share.

Each checkout answers in a process of its own, which imports `rope_kernels` and `rope_lab` from
there. The tools and the benchmark are those beside this file in both, so both make the same calls.
"""

import argparse
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

    def __init__(self, folder: str, tool: str, interpret: bool) -> None:
        """
        Args:
            folder: it holds rope_kernels/ and rope_lab/.
            tool: the name of the module that asks; its `answer` answers there.
            interpret: kernels run in Triton's interpreter.
        """
        from rope_lab.child import Worker  # the process that answers imports its checkout's

        self.folder, self.tool = Path(folder).resolve(), tool
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
            return self.worker.ask({"tool": self.tool} | question, math.inf)["answer"]
        except Ended as ended:
            told = f"the process of {self.folder} ended at {question}:\n{ended.words}"
            raise RuntimeError(told) from ended

    def __enter__(self) -> "Checkout":
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.end()


def parser_of(doc: str, new_is_optional: bool = False) -> argparse.ArgumentParser:
    """A tool's arguments: both checkouts."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=formatter)
    parser.add_argument("old", help="folder that holds rope_kernels/ and rope_lab/")
    without = {"nargs": "?"} if new_is_optional else {}
    parser.add_argument("new", help="another one", **without)
    return parser


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
    return {"answer": importlib.import_module(job.pop("tool")).answer(job)}
