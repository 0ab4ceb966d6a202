"""What the notebooks use. Importing it picks the engine (see `engine.py`), so import it first.

`lab.draw` is loaded when it is first used, for it needs matplotlib; `lab.specs`, for few cells do.
"""

from importlib import import_module

from .answer import check_answer
from .bench import bench, observe
from .check import check, compare
from .count import count_eager_traffic
from .engine import ENGINE, device, need_triton
from .spec import spec

__all__ = [
    "ENGINE",
    "bench",
    "check",
    "check_answer",
    "compare",
    "count_eager_traffic",
    "device",
    "draw",
    "need_triton",
    "observe",
    "spec",
    "specs",
]


def __getattr__(name: str):
    if name in ("draw", "specs"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
