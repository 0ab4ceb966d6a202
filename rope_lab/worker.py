"""The side of a worker that works: `python worker.py PLACE FOLDER PATH`, as `child.py` starts it.

Nothing of `rope_lab` is imported here: that picks an engine.
"""

import contextlib
import importlib
import importlib.util
import os
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import BinaryIO


def main(place: str, folder: Path, path: list[str], jobs: BinaryIO, answers: BinaryIO) -> None:
    """Answer jobs by a module or a file until there are no more.

    Its `start(folder)` is called once, and `answer(job, folder, tell)` for each job; `tell` says
    which part of the job begins. `start` may return a function that says whether a job has left
    this process changed: then it is `spoiled` for the next one.

    `path` becomes Python's path for modules once the module has started: a job may import what is
    beside the notebook, but a file there, such as numpy.py, must not replace what the lab needs.
    """

    def tell(said: str | dict) -> None:
        answers.write(pickle.dumps(said))  # whole: of what can't be pickled no half is sent
        answers.flush()

    module = module_of(place)
    has_changed = module.start(folder) or (lambda: False)
    sys.path[:] = path
    tell("ready")
    with contextlib.suppress(EOFError):
        while True:
            answer = module.answer(pickle.load(jobs), folder, tell)
            tell(answer | {"spoiled": has_changed()})


def taken_over() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output, as files for jobs and answers.

    In their places, also for C and for other programs, nothing is to be read, and what is printed
    goes to standard error.
    """
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return jobs, answers


def module_of(place: str) -> ModuleType:
    """The module of a file, or of a name."""
    if not place.endswith(".py"):
        return importlib.import_module(place)
    found = importlib.util.spec_from_file_location(Path(place).stem, place)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3].split(os.pathsep), *taken_over())
