"""Rungs 5 to 7, compiled: notebook 09 reads what the compiler made of them."""

from ..compiler.compile import Compiled
from ..compiler.launches import launches_of
from ..judge.climb.instruments import rotation
from ..rungs import rung_of


def compiled(rung: int) -> Compiled:
    """Our kernel for a rung as its `my_rope` launches it at the headline shape, for an H200.

    It goes by its number: the names of the modules tell the edits that the notebook asks for.

    Raises:
        ValueError: there is no such rung.
    """
    (caught,) = launches_of(rotation(rung_of(rung).module.my_rope))
    return caught.compiled()
