"""Is a number wrong that a kernel computes: another function, another sign, another angle?"""

import numpy as np

from .changes import Changes
from .repairs import Blocked, Blocks, Candidate, Repair, Search


def computed_otherwise(search: Search) -> Repair | None:
    """A name of floats that isn't what is loaded, and what it should be."""
    loaded = [x for x in search.candidates("functions") if "(" not in x.words]
    among = [
        name
        for (name, _), blocks in search.named("f").items()
        if not _is_any(search, name, blocks, loaded)
    ]
    negative = [setting for setting in search.named("f") if "-" in setting[1].partition("=")[2]]
    return search.function("functions", among) or search.function("opposites", negative)


def computed_together(search: Search) -> list[Repair]:
    """Two names of floats that one line sets."""
    angles = [x for x in search.candidates("functions") if "(" in x.words]
    return search.together("f", [*angles, *search.candidates("opposites")])


def negated(search: Search) -> Repair | None:
    """The last name whose opposite makes all right, and which isn't what it is called.

    A name that is an input's element, a sine or a cosine is not at fault: what uses it is.
    """
    honest = search.candidates("functions")
    for (name, line), blocks in reversed(search.named("fi").items()):
        is_block = any(block.size > 1 for block in blocks.values())
        if not is_block or not search.lanes or _is_any(search, name, blocks, honest):
            continue
        changes = Changes(names={(name, line): lambda program, block: -block})
        if search.e.is_cured_by(changes):
            of = Blocked(search, 0, blocks, name)
            known = np.ones(of.all.size, bool), -of.all
            return of.repair(
                "sign", line, Candidate("its opposite", lambda lanes: lanes.which), known
            )
    return None


def _is_any(search: Search, name: str, blocks: Blocks, candidates: list[Candidate]) -> bool:
    """Whether a name has the values of one of these in all lanes."""
    if not search.lanes:
        return False
    of = Blocked(search, 0, blocks, name)
    return any(of.equals(candidate) for candidate in candidates)
