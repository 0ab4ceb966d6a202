"""Rungs 5 to 7, compiled: notebook 09 reads what the compiler made of them."""

from types import ModuleType

from ..compiler.compile import Compiled
from ..judge.climb.instruments import launches_of, rotation


def compiled(rung: ModuleType) -> Compiled:
    """The kernel of a rung as its `my_rope` launches it at the headline shape, for an H200."""
    (caught,) = launches_of(rotation(rung.my_rope))
    return caught.compiled()
