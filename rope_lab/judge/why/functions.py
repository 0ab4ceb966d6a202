"""Is a number wrong that a kernel computes: another function, another sign, another angle?"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from .changes import Changes
from .intended import Lanes, elements_of
from .repairs import Blocked, Blocks, Candidate, Repair, Search

_OF_ANGLES = {"cos": np.cos, "sin": np.sin, "": lambda x: x}


def computed_otherwise(search: Search) -> Repair | None:
    """A name of floats that isn't what is loaded, and what it should be."""
    candidates = [*_candidates(search)]
    loaded = [candidate for candidate in candidates if "(" not in candidate.words]
    among = [
        name
        for (name, _), blocks in search.named("f").items()
        if not _is_any(search, name, blocks, loaded)
    ]
    return search.function(candidates, among)


def computed_together(search: Search) -> list[Repair]:
    """Two names of floats that one line sets."""
    angles = [x for x in _candidates(search) if "(" in x.words]
    opposites = [Candidate(f"-{x.words}", partial(_opposite, x)) for x in angles]
    return search.together("f", [*angles, *opposites])


def _opposite(candidate: Candidate, lanes: Lanes) -> np.ndarray:
    return -candidate.values(lanes)


def _candidates(search: Search) -> Iterator[Candidate]:
    """Elements of the inputs, and functions of angles."""
    angles = {a.name for a in search.e.wanted.arguments if a.holds == "angles"}
    for name, words, at in elements_of(search.e, search.letters):
        x = search.inputs[name].double().numpy()
        for function, of in (_OF_ANGLES if name in angles else {"": lambda x: x}).items():

            def values(lanes: Lanes, x=x, at=at, of=of) -> np.ndarray:
                return of(x[at(lanes.places)])

            inside = f"{name} at its {words}"
            yield Candidate(f"{function}({inside})" if function else inside, values)


def negated(search: Search) -> Repair | None:
    """The last name whose opposite makes all right, and which isn't what it is called.

    A name that is an input's element, a sine or a cosine is not at fault: what uses it is.
    """
    honest = [*_candidates(search)]
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
