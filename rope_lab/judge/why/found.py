"""Evidence that is proof: one change, with which every element is right."""

import re
from collections.abc import Callable

import numpy as np

from ..verdict import Evidence
from .blocks import BlockSearch
from .experiments import Experiments
from .launches import Launch
from .repairs import Repair, search_of
from .words import RIGHT_THEN, evidence, one_of, shown, step


def proof(e: Experiments, *ways: Callable[[Experiments], Evidence | None]) -> Evidence | None:
    """The first evidence of these; none in a hurry."""
    found = (way(e) for way in ways if not e.budget.hurries)
    return next(filter(None, found), None)


def of_addresses(e: Experiments) -> Evidence | None:
    """One index, pointer, load, mask or store that makes every element right."""
    search = search_of(e)
    load = search.found("load")
    names = e.names_behind(load.setting[1], deep=3) if load else e.suspects
    repair = search.found("index", names) or search.found("pointer", names) or load
    repair = repair or search.found("mask") or search.found("store")
    return _of(e, repair, load.setting[1] if load else "")


def of_stores(e: Experiments) -> Evidence | None:
    """One store that makes every element right, or an index or a pointer that it uses."""
    search = search_of(e)
    return _of(e, search.found("index") or search.found("pointer") or search.found("store"))


def of_masks(e: Experiments) -> Evidence | None:
    """One mask, or one beginning of a block, that makes every element right."""
    blocks = BlockSearch(e)
    words, kind, cured = "is true in {} lanes, and should be in {}", "mask", blocks.mask()
    if cured is None:
        words, kind, cured = "begins at {}, and should at {}", "beginning", blocks.beginning()
    if cured is None:
        return _of(e, search_of(e).found("mask"))
    name, line = cured.setting
    count = np.sum if kind == "mask" else (lambda block: block[0])
    numbers = words.format(int(count(cured.was)), int(count(cured.should)))
    told = f"In {e.record.name_of(cured.program)}, `{name}` {numbers}."
    more = _other_argument(e, line) or RIGHT_THEN
    return evidence(kind, told, more, lines=(line, _shown_at(e, name)))


def of_a_launch(e: Experiments) -> Evidence | None:
    """One argument, two that have changed places, or another grid."""
    launch = Launch(e)
    if not e.record.programs:
        return evidence("grid", "The grid is empty: no program ran.", lines=(launch.line,))
    names = [*e.numbers] if e.others else []
    if found := launch.cured_argument(names):
        return evidence("argument", _argument(launch, *found), lines=(_used_at(e, found[0]),))
    if exchanged := launch.exchanged_arguments(names):
        return evidence("exchanged", _exchanged(launch, *exchanged), lines=(launch.line,))
    if grid := launch.cured_grid():
        now = len(e.record.programs)
        words = f"The grid has {now} program{'s' * (now != 1)}."
        more = f"With {grid[0]}, {grid[1]}, every element is right."
        return evidence("grid", words, more, lines=(launch.line,))
    return None


def _of(e: Experiments, repair: Repair | None, shows: str = "") -> Evidence | None:
    """`shows`: the line of an access that goes wrong; '' if it isn't known."""
    if repair is None:
        return None
    name, line = repair.setting
    more = _other_argument(e, line) or RIGHT_THEN
    lines = (line, shows or _shown_at(e, name))
    return evidence(repair.kind, in_words(e, repair), more, lines=lines)


def in_words(e: Experiments, repair: Repair) -> str:
    at, name = repair.first, repair.setting[0]
    was, should = repair.was[at], repair.should[at]
    element = shown(e, at, repair.number)
    if repair.kind == "index":
        return f"`{name}` is {was} for {element}, and should be {should}, its {repair.words}."
    if repair.kind == "mask":
        return f"`{name}` is {bool(was)} for {element}, and should be {bool(should)}."
    there, to = e.element_at(was), e.element_at(should)
    before, after, moves = one_of(there), one_of(to), ""
    if there[0] == to[0] or not there[1]:
        moves = step(e, repair.setting[1], at, repair.was, repair.should)
    if repair.kind == "pointer":
        return f"`{name}` points at {before} for {element}, and should point at {after}. {moves}"
    if repair.kind == "store":
        return f"What belongs in {element} is stored in {before}. {moves}"
    return f"For {element}, this line loads {before}, and should load {after}. {moves}"


def _other_argument(e: Experiments, line: str) -> str:
    """If another argument in a line would make all right, too."""
    launch, names = Launch(e), e.names_behind(line)
    if found := launch.cured_argument(names):
        return f"{_argument(launch, *found)[:-1]}, too."
    if exchanged := launch.exchanged_arguments(e.names_behind(line, deep=2)):
        return _exchanged(launch, *exchanged)
    return ""


def _argument(launch: Launch, name: str, value: int, how: str) -> str:
    now, written = launch.e.numbers[name], launch.passed(name)
    passes = f"`{written}`, {now}," if written and written != str(now) else f"{now}"
    value_is = how if how == str(value) else f"{how}, {value}"
    return f"The launch passes {passes} for `{name}`. With {value_is}, every element is right."


def _exchanged(launch: Launch, one: str, other: str) -> str:
    a, b = launch.passed(one), launch.passed(other)
    words = f"The launch passes `{a}` for `{one}`, and `{b}` for `{other}`."
    return f"{words} The other way round, every element is right."


def _used_at(e: Experiments, name: str) -> str:
    """The first line of the kernel that uses a name."""
    lines = e.source.partition("):\n")[2].splitlines()  # after its arguments
    return next((line.strip() for line in lines if re.search(rf"\b{name}\b", line)), "")


def _shown_at(e: Experiments, name: str) -> str:
    """The first access of the kernel that depends on a name."""
    lines = dict.fromkeys(one.line for one in e.record.noted)
    return next((line for line in lines if name and name in e.names_behind(line)), "")
