"""The functions of the notebooks. Importing it chooses the engine, so import it first.

Everything else is imported at its first use, because few cells need matplotlib (`lab.draw`,
`lab.explore`) or Triton.
"""

from importlib import import_module

from .engine import ENGINE, device, need_triton
from .solved import note_cells_from_now_on

_PLACES = {  # name -> its module
    "bench": ".records",
    "check": ".judge.check",
    "check_answer": ".judge.answers",
    "check_choices": ".judge.answers",
    "check_exercise": ".judge.check_exercise",
    "check_rung": ".judge.climb.check_rung",
    "compare": ".judge.check",
    "compiles_bf16": ".records",
    "count_eager_traffic": ".profiling.traffic",
    "draw": ".figures.style",
    "draw_launch": ".judge.picture.draw_launch",
    "explore": ".figures.sliders",
    "from_file": ".own_file",
    "inspect": ".judge.inspect.inspect",
    "ladder": ".judge.climb.ladder",
    "observe": ".records",
    "plan_of": ".compiler.plans",
    "progress": ".solved",
    "recorded": ".records",
    "run_alone": ".own_file",
    "show_rung": ".rungs.kept",
    "show_source": ".source",
    "spec": ".judge.spec",
}

note_cells_from_now_on()


def __dir__():
    """What the Tab key offers after `lab.`: no internal modules. Nothing is imported."""
    return sorted(["ENGINE", "device", "need_triton", *_PLACES])


def __getattr__(name: str):
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_PLACES[name], __name__)
    return module if name == "draw" else getattr(module, name)
