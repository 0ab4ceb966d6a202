"""Ask two checkouts of the project the same questions: what the three comparisons share.

Each checkout answers in a process of its own, which imports `rope_kernels` and `rope_lab` from
there. The tools are those beside this file in both, so both make the same calls.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # where nothing is installed

CHILD = "--child"


class Checkout:
    """A process that answers questions about one checkout."""

    def __init__(self, folder: str, tool: str, interpret: bool) -> None:
        """
        Args:
            folder: it holds rope_kernels/ and rope_lab/.
            tool: the path of the script that asks; there it calls `run`.
            interpret: kernels run in Triton's interpreter.
        """
        from rope_lab.child import Child  # the answering process imports that of its checkout

        self.folder = Path(folder).resolve()
        paths = os.pathsep.join(filter(None, [str(self.folder), os.environ.get("PYTHONPATH")]))
        environment = {"PYTHONPATH": paths, "TRITON_INTERPRET": "1" if interpret else "0"}
        self.child = Child(tool, CHILD, environment=environment)

    def ask(self, **question):
        """The answer.

        Raises:
            RuntimeError: it has died of the question, or cannot start.
        """
        answer, errors = self.child.ask(question)
        if not answer:
            raise RuntimeError(f"the process of {self.folder} ended at {question}:\n{errors}")
        self.child.busy = False
        return json.loads(answer)

    def __enter__(self) -> "Checkout":
        return self

    def __exit__(self, *_: object) -> None:
        self.child.end()


def run(main: Callable[[], int], answer: Callable[[dict], object]) -> int:
    """What a tool does: ask, or answer in the process that another one has started."""
    return answer_questions(answer) if sys.argv[1:2] == [CHILD] else main()


def parser_of(doc: str, new_is_optional: bool = False) -> argparse.ArgumentParser:
    """A tool's arguments: both checkouts."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=formatter)
    parser.add_argument("old", help="folder that holds rope_kernels/ and rope_lab/")
    without = {"nargs": "?"} if new_is_optional else {}
    parser.add_argument("new", help="another one", **without)
    return parser


def answer_questions(answer: Callable[[dict], object]) -> int:
    """In the process of a checkout: answer each question, a line of JSON, until there are none."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anything prints is no answer
    checkout = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0])
    import rope_kernels

    if checkout not in Path(rope_kernels.__file__).resolve().parents:
        raise RuntimeError(f"rope_kernels was imported from {rope_kernels.__file__}")
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
    return 0
