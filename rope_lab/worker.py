"""The side of a worker that works: `child.py` runs this file, `python worker.py PLACE FOLDER`.

It answers a job a line on standard input by lines of JSON. Each begins with the mark of its job,
because what a job runs may write to the same pipe. Nothing of `rope_lab` is imported here: that
picks an engine.
"""

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType


def main(place: str, folder: Path) -> None:
    """Answer jobs by a module or a file until the input ends.

    Its `start(folder)` is called once, and `answer(job, folder, tell)` for each job; `tell` writes
    a line before the last one.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a job prints is no answer
    jobs = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what a job reads is no job
    module = module_at(place)
    module.start(folder)
    print("ready", file=answers, flush=True)
    for line in jobs:
        mark, job = json.loads(line)

        def tell(fields: dict, mark: str = mark) -> None:
            # on a line of its own, whatever the job has written
            print(f"\n{mark}{json.dumps(fields)}", file=answers, flush=True)

        tell(module.answer(job, folder, tell))


def module_at(place: str) -> ModuleType:
    """The module of a file, loaded once more, or of a name."""
    if not place.endswith(".py"):
        return importlib.import_module(place)
    found = importlib.util.spec_from_file_location(Path(place).stem, place)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


if __name__ == "__main__":
    # as in the notebook, which may import what is beside it, and not the folder of this file
    sys.path[0] = os.getcwd()
    main(sys.argv[1], Path(sys.argv[2]))
