"""The worker's own process: `child.py` starts it as `python worker.py PLACE FOLDER PATH`.

It doesn't import `rope_lab`, which would pick an engine.
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
    """Answer jobs with a module or a file until there are no more.

    Its `start(folder)` is called once, and `answer(job, folder, tell)` for each job; `tell` reports
    which part of the job begins. `start` may return a function that checks whether a job has
    changed this process: then it is `spoiled` for the next one.

    `path` becomes Python's module path after the module has started. A job may import files from
    the notebook's folder, but a file there, such as numpy.py, must not replace what the lab needs.
    """

    def tell(said: str | dict) -> None:
        answers.write(pickle.dumps(said))  # an error in pickling sends nothing
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

    They are replaced, also for C code and other programs: standard input is empty, and standard
    output goes to standard error.
    """
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return jobs, answers


def module_of(place: str) -> ModuleType:
    """Import a module by its name or its file."""
    if not place.endswith(".py"):
        return importlib.import_module(place)
    found = importlib.util.spec_from_file_location(Path(place).stem, place)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3].split(os.pathsep), *taken_over())
