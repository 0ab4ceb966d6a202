"""Evidence that is proof: one change, with which every element is right."""

import re

import numpy as np

from ..verdict import Evidence
from .blocks import BlockSearch
from .experiments import Experiments
from .functions import computed_otherwise, computed_together, negated
from .launches import Launch
from .repairs import Repair, search_of
from .words import RIGHT_THEN, evidence, one_of, shown, step


def of_addresses(e: Experiments) -> Evidence | None:
    """One index, pointer, load, mask or argument that makes every element right."""
    if e.hurries:
        return None
    search = search_of(e)
    suspect = search.load()
    names = e.names_behind(suspect.line, deep=3) if suspect else search.suspects
    repair = search.index(names) or search.pointer(names) or suspect or search.mask(None)
    repair = repair or search.store()
    if repair is None:
        return _together(e, search.together("i", search.candidates("indices")))
    shows = suspect.line if suspect else _shown_at(e, repair.name)
    more = _other_argument(e, repair.line) or RIGHT_THEN
    return evidence(repair.kind, in_words(e, repair), more, lines=(repair.line, shows))


def of_masks(e: Experiments) -> Evidence | None:
    """One mask, or one beginning of a block, that makes every element right."""
    if e.hurries:
        return None
    blocks = BlockSearch(e)
    words, kind, cured = "is true in {} lanes, and should be in {}", "mask", blocks.mask()
    if cured is None:
        words, kind, cured = "begins at {}, and should at {}", "beginning", blocks.beginning()
    if cured:
        name, line = cured.setting
        count = np.sum if kind == "mask" else (lambda block: block[0])
        numbers = words.format(int(count(cured.was)), int(count(cured.should)))
        told = f"In {e.record.name_of(cured.program)}, `{name}` {numbers}."
        more = _other_argument(e, line) or RIGHT_THEN
        return evidence(kind, told, more, lines=(line, _shown_at(e, name)))
    return None


def of_stores(e: Experiments) -> Evidence | None:
    """One store that makes every element right, or an index or a pointer that it uses."""
    if e.hurries:
        return None
    search = search_of(e)
    repair = search.index(None) or search.pointer(None) or search.store()
    if repair is None:
        return None
    lines = (repair.line, _shown_at(e, repair.name))
    more = _other_argument(e, repair.line) or RIGHT_THEN
    return evidence(repair.kind, in_words(e, repair), more, lines=lines)


def of_a_launch(e: Experiments) -> Evidence | None:
    """One argument, two that have changed places, or another grid."""
    if e.hurries:
        return None
    launch = Launch(e)
    if not e.record.programs:
        return evidence("grid", "The grid is empty: no program ran.", lines=(launch.line,))
    names = [*launch.numbers] if e.others else []
    if found := launch.cured_argument(names):
        return evidence("argument", _argument(launch, *found), lines=(_used_at(e, found[0]),))
    if found := launch.exchanged_arguments(names):
        return evidence("exchanged", _exchanged(launch, *found), lines=(launch.line,))
    if found := launch.cured_grid():
        now = len(e.record.programs)
        plural = "s" * (now != 1)
        words = f"The grid has {now} program{plural}."
        more = f"With {found[0]}, {found[1]}, every element is right."
        return evidence("grid", words, more, lines=(launch.line,))
    return None


def of_numbers(e: Experiments) -> Evidence | None:
    """One name that is another function, another sign, or true in other lanes."""
    if e.hurries:
        return None
    search = search_of(e)
    repair = search.mask(None) or computed_otherwise(search) or negated(search)
    if repair is None:
        return _together(e, computed_together(search))
    lines = (repair.line, _shown_at(e, repair.name))
    return evidence(repair.kind, in_words(e, repair), RIGHT_THEN, lines=lines)


def _together(e: Experiments, repairs: list[Repair]) -> Evidence | None:
    if not repairs:
        return None
    launch = Launch(e)
    flags = [name for name, x in launch.numbers.items() if isinstance(x, bool)]
    if found := launch.cured_argument(flags):  # which decides whether this line runs
        return evidence("argument", _argument(launch, *found), lines=(repairs[0].line,))
    words = [in_words(e, repair) for repair in repairs]
    return evidence(repairs[0].kind, *words, RIGHT_THEN, lines=(repairs[0].line,))


def in_words(e: Experiments, repair: Repair) -> str:
    at = repair.first
    was, should, name = repair.was[at], repair.should[at], repair.name
    element = shown(e, at, repair.number)
    if repair.kind == "index":
        if isinstance(should, float):
            return (
                f"`{name}` is {was:.4g} for {element}, and should be {should:.4g}, {repair.words}."
            )
        return f"`{name}` is {was} for {element}, and should be {should}, its {repair.words}."
    if repair.kind == "mask":
        return f"`{name}` is {bool(was)} for {element}, and should be {bool(should)}."
    if repair.kind in ("function", "sign"):
        return f"`{name}` is {was:.4g} for {element}, and should be {should:.4g}, {repair.words}."
    there, to = (e.element_at(int(address)) for address in (was, should))
    before, after = one_of(there), one_of(to)
    moves = ""
    if there[0] == to[0] or not there[1]:
        moves = step(e, repair.was, repair.should, _size_at(e, int(should)))
    if repair.kind == "pointer":
        return f"`{name}` points at {before} for {element}, and should point at {after}. {moves}"
    if repair.kind == "store":
        return f"What belongs in {element} is stored in {before}. {moves}"
    return f"For {element}, this line loads {before}, and should load {after}. {moves}"


def _size_at(e: Experiments, address: int) -> int:
    for x in (*e.given, *e.outs):
        begin = x.untyped_storage().data_ptr()
        if begin <= address < begin + x.untyped_storage().nbytes():
            return x.element_size()
    return e.got.element_size()


def _other_argument(e: Experiments, line: str) -> str:
    """If another argument in a line would make all right, too."""
    launch, names = Launch(e), e.names_behind(line)
    if found := launch.cured_argument(names):
        return f"{_argument(launch, *found)[:-1]}, too."
    if found := launch.exchanged_arguments(e.names_behind(line, deep=2)):
        return _exchanged(launch, *found)
    return ""


def _argument(launch: Launch, name: str, value: int, how: str) -> str:
    now, written = launch.numbers[name], launch.passed(name)
    passes = f"`{written}`, {now}," if written and written != str(now) else f"{now}"
    value_is = how if how == str(value) else f"{how}, {value}"
    return f"The launch passes {passes} for `{name}`. With {value_is}, every element is right."


def _exchanged(launch: Launch, one: str, other: str) -> str:
    a, b = (launch.passed(name) or str(launch.numbers[name]) for name in (one, other))
    words = f"The launch passes `{a}` for `{one}`, and `{b}` for `{other}`."
    return f"{words} The other way round, every element is right."


def _used_at(e: Experiments, name: str) -> str:
    """The first line of the kernel that uses a name."""
    lines = (one.line for one in e.record.named if one.line)
    return next((line for line in lines if re.search(rf"\b{name}\b", line.partition("=")[2])), "")


def _shown_at(e: Experiments, name: str) -> str:
    """The first access of the kernel that depends on a name."""
    lines = dict.fromkeys(one.line for one in e.record.noted)
    return next((line for line in lines if name and name in e.names_behind(line)), "")
