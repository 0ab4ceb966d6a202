"""Rungs 5 to 7, compiled: notebook 09 reads their machine code."""

from ..compiler.compile import Compiled
from ..compiler.launches import launches_of
from ..judge.climb.instruments import rotation
from ..rungs import rung_of


def compiled(rung: int) -> Compiled:
    """Our kernel for a rung as its `my_rope` launches it at the headline shape, for an H200.

    The rung is given by its number, because the modules' names reveal the edits to find.

    Raises:
        ValueError: there is no such rung.
    """
    (caught,) = launches_of(rotation(rung_of(rung).module.my_rope))
    return caught.compiled()
