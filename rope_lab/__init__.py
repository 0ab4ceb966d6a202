"""What the notebooks use. Importing it picks the engine (see `engine.py`), so import it first.

`lab.draw`, `lab.exercises` and `lab.mistakes` are loaded when they are first used: the first needs
matplotlib, and few cells need the others.
"""

from importlib import import_module

from .compiler.plans import plan_of
from .engine import ENGINE, device, need_triton
from .grading.answers import check_answer
from .grading.check import check, compare
from .grading.choices import check_choices
from .grading.judge import check_exercise
from .grading.spec import spec
from .profiling.traffic import count_eager_traffic
from .records import bench, observe, recorded, records_folder
from .source import show_source

__all__ = [
    "ENGINE",
    "bench",
    "check",
    "check_answer",
    "check_choices",
    "check_exercise",
    "compare",
    "count_eager_traffic",
    "device",
    "draw",
    "exercises",
    "mistakes",
    "need_triton",
    "observe",
    "plan_of",
    "recorded",
    "records_folder",
    "show_source",
    "spec",
]
_LOADED_LATER = {
    "draw": ".figures.style",
    "exercises": ".grading.exercises",
    "mistakes": ".grading.mistakes",
}


def __getattr__(name: str):
    if name in _LOADED_LATER:
        return import_module(_LOADED_LATER[name], __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
