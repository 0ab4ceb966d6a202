"""What the notebooks use. Importing it picks the engine (see `engine.py`), so import it first.

`lab.draw`, `lab.explore` and what belongs to the climb are loaded when they are first used: the
first two need matplotlib, the others load Triton, and few cells need them.
"""

from importlib import import_module

from .compiler.plans import plan_of
from .engine import ENGINE, device, need_triton
from .judge.answers import check_answer, check_choices
from .judge.check import check, compare
from .judge.check_exercise import check_exercise
from .judge.spec import spec
from .profiling.traffic import count_eager_traffic
from .records import bench, compiles_bf16, observe, recorded
from .solved import note_cells_from_now_on, progress
from .source import show_source

_LOADED_LATER = {  # name -> its module, and its name there; None: it is the module
    "draw": (".figures.style", None),
    "explore": (".figures.sliders", "explore"),
    "draw_launch": (".judge.picture.draw_launch", "draw_launch"),
    "check_rung": (".judge.climb.check_rung", "check_rung"),
    "inspect": (".judge.inspect.inspect", "inspect"),
    "ladder": (".judge.climb.ladder", "ladder"),
    "show_rung": (".rungs.kept", "show_rung"),
}
_LOADED_NOW = (
    "ENGINE",
    "bench",
    "check",
    "check_answer",
    "check_choices",
    "check_exercise",
    "compare",
    "compiles_bf16",
    "count_eager_traffic",
    "device",
    "need_triton",
    "observe",
    "plan_of",
    "progress",
    "recorded",
    "show_source",
    "spec",
)


note_cells_from_now_on()


def __dir__():
    """What `lab.` and the Tab key offer: no module of the lab's own, and nothing is loaded."""
    return sorted([*_LOADED_NOW, *_LOADED_LATER])


def __getattr__(name: str):
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place, attribute = _LOADED_LATER[name]
    module = import_module(place, __name__)
    return module if attribute is None else getattr(module, attribute)
