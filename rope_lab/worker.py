"""The side of a worker that works: `python worker.py PLACE FOLDER PIPE`, as `child.py` starts it.

Nothing of `rope_lab` is imported here: that picks an engine.
"""

import contextlib
import importlib
import importlib.util
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType


def main(place: str, folder: Path, pipe: Connection) -> None:
    """Answer jobs by a module or a file until there are no more.

    Its `start(folder)` is called once, and `answer(job, folder, tell)` for each job; `tell` says
    which part of the job begins.
    """
    module = module_at(place)
    module.start(folder)
    pipe.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(module.answer(pipe.recv(), folder, pipe.send))


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
    main(sys.argv[1], Path(sys.argv[2]), Connection(int(sys.argv[3])))
