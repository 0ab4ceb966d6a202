"""Evidence from loads and stores, where no one change makes everything right."""

import math
from collections.abc import Iterator

import numpy as np
import torch

from ..verdict import Evidence
from .changes import Changes, Index, Noted, address_of
from .experiments import Element, Experiments
from .found import of_a_launch, of_addresses, of_masks, of_stores, proof
from .numbers import factors, transposed
from .words import along_the_block, elements, evidence, listed, shown, step, where


def by(e: Experiments, one: Noted) -> str:
    """'program 3'."""
    return e.record.name_of(one.program)


def kept(e: Experiments) -> Evidence:
    """The experiments' call is right, and the judge's, after another one, was not."""
    words = "The same call with fresh memory is right: something is kept from the call before,"
    return evidence("kept", words, "with other numbers at the same address.")


def raced(e: Experiments) -> Evidence | None:
    trace = e.attempt.trace
    if trace is None or not trace.races:
        return None
    return evidence("race", f"A race between programs: {trace.races[0]}.")


def read_again(e: Experiments) -> Evidence | None:
    """A program loads what it has stored itself."""
    trace, out = e.attempt.trace, e.outs[e.number]
    if trace is None or not trace.reread:
        return None
    begin = out.untyped_storage().data_ptr()
    mine = next((m for m in e.record.memories if m.begin == begin), None)
    lines = (one.line for one in e.record.loads() if mine and one.access.inside(mine).any())
    words = f"{trace.reread[0].capitalize()}: keep what was loaded."
    return evidence("read again", words, lines=(next(lines, ""),))


def unwritten(e: Experiments) -> Evidence | None:
    """The wrong element has no store."""
    record, out = e.record, e.outs[e.number]
    if not record.launched and e.got[e.first].isnan():
        words = f"New memory came back, and {shown(e)} was never put there."
        return evidence("unwritten", words)
    if e.stores(e.first) or not record.launched:
        return None
    if not record.programs:
        return proof(e, of_a_launch)
    programs = f"{len(record.programs)} program{'s' * (len(record.programs) != 1)}"
    stores = record.stores()
    if not stores:
        return evidence("unwritten", f"{programs} ran, and none came to a tl.store.")
    begin = out.untyped_storage().data_ptr()
    mine = next((m for m in record.memories if m.begin == begin), None)
    if mine is None or not any((x.access.inside(mine) & x.access.wanted).any() for x in stores):
        return _stored_elsewhere(e, mine.name if mine else "")
    if proved := proof(e, of_masks, of_stores, of_a_launch):
        return proved
    same = [one for one in stores if one.line == stores[-1].line]
    begins = [int(one.access.addresses.flat[0]) // one.access.size for one in same[:2]]
    apart = ""
    if len(same) == len(record.programs) > 1:
        apart = f" and began {elements(begins[1] - begins[0])} apart"
    counts = [int(one.access.wanted.sum()) for one in same]
    each = (
        f"{elements(counts[0])} each" if len({*counts}) == 1 else f"{elements(sum(counts))} in all"
    )
    address = address_of(out, e.first)
    off = [x for x in stores if ((x.access.addresses == address) & ~x.access.wanted).any()]
    lane = "no lane"
    if off:
        lane = f"only a lane of {by(e, off[0])}, whose mask is false,"
    words = f"{shown(e)} is not stored: {lane} points there."
    more = f"{programs} stored {each}{apart}; the result has {out.numel()}."
    return evidence("unwritten", words, more, lines=((off or same)[0].line,))


def _stored_elsewhere(e: Experiments, own: str) -> Evidence:
    names = {
        x.untyped_storage().data_ptr(): name
        for name, x in (
            *((f"result {k}", out) for k, out in enumerate(e.outs)),
            *zip(e.wanted.names, e.given, strict=True),
        )
    }
    stores = e.record.stores()
    into = " and ".join(
        f"{m.name}, which is {names.get(m.begin, 'another tensor')}"
        for m in e.record.memories
        if any((one.access.inside(m) & one.access.wanted).any() for one in stores)
    )
    called = f"passes as {own}" if own else "does not pass"
    words = f"The result, which the launch {called}, is not stored. Programs store in {into}."
    return evidence("unwritten", words, lines=(stores[0].line,))


def taken_for_contiguous(e: Experiments) -> Evidence | None:
    """The result's memory is in the order of its indices, and its strides are others."""
    out, stores = e.outs[e.number], e.stores(e.first)
    if out.is_contiguous() or not stores or out.untyped_storage().nbytes() < out.nbytes:
        return None
    in_order = torch.empty(0, dtype=out.dtype).set_(out.untyped_storage(), 0, out.shape)
    if not e.is_right(in_order).all():
        return None
    words = f"The store takes the result for contiguous, and its strides are {tuple(out.stride())}."
    return evidence(
        "store",
        words,
        "In a contiguous one, every element would be right.",
        lines=(stores[-1][0].line,),
    )


def stored_twice(e: Experiments) -> Evidence | None:
    """The wrong element has two stores."""
    stores = e.stores(e.first)
    if len(stores) < 2:
        return None
    if proved := proof(e, of_masks, of_stores, of_a_launch):
        return proved
    last, first = stores[-1][0], stores[0][0]
    words = (
        f"{shown(e)} is stored {len(stores)} times, first by {by(e, first)}, last by {by(e, last)}."
    )
    return evidence("stored twice", words, along_the_block(last), lines=(last.line, first.line))


def collision(e: Experiments) -> Evidence | None:
    """All is right because the last of two stores is: the other one is at fault."""
    if proved := proof(e, of_masks, of_stores, of_a_launch):
        return proved
    for at in np.ndindex(*e.expected.shape):
        stores = e.stores(at)
        for one, lane in stores if len(stores) > 1 else ():
            value = float(np.broadcast_to(one.access.values, one.shape)[lane])
            if not math.isclose(value, e.expected[at], rel_tol=1e-2, abs_tol=1e-3):
                words = f"{by(e, one).capitalize()} stores {value:.4g} in {shown(e, at)}, and"
                more = f"another store puts the right {float(e.expected[at]):.4g} there."
                return evidence("stored twice", words, more, lines=(one.line,))
    return None


def outside(e: Experiments) -> Evidence:
    """The first access that leaves the tensors."""
    if not e.first:
        for number in range(1, len(e.outs)):
            other = Experiments(e.attempt, number, budget=e.budget)
            if other.first:
                e = other
                break
    one, lane = next(_leaving(e))
    first, then = (of_addresses, of_masks) if e.first and one.is_load else (of_masks, of_addresses)
    if proved := proof(e, first, then, of_a_launch):
        return proved
    does = "loads" if one.is_load else "stores"
    if not e.first:
        words = f"Without the lane that {does} there, every element is right: its mask should be"
        return evidence("outside", words, "false.", lines=(one.line,))
    was = int(one.access.addresses[lane])
    place = e.element_at(was)
    told = "" if place[1] else f"{by(e, one).capitalize()} {does} {place[0]}."
    moves = _moved(e, one)
    return evidence("outside", told, moves or along_the_block(one) or where(e), lines=(one.line,))


def _leaving(e: Experiments) -> Iterator[tuple[Noted, Index]]:
    for one in e.record.noted:
        beyond = one.access.wanted.copy()
        for memory in e.record.memories:
            beyond &= ~one.access.inside(memory)
        for lane in np.argwhere(beyond)[:1]:
            yield one, tuple(map(int, lane))


def masked_lanes(e: Experiments) -> Evidence | None:
    """Is the result right, or a number, if lanes that are masked off load something else?"""
    partly = [one for one in e.record.loads() if not one.access.wanted.all()]
    has_other = {one.line: one.access.has_other for one in partly}
    if len(has_other) > 1:
        changed = e.out(Changes(fill=("", 0.0)))
        if torch.equal(changed.nan_to_num(), e.got.nan_to_num()) and all(has_other.values()):
            return None  # they don't matter
        if e.is_right(changed).all() and not any(has_other.values()):
            words = f"{shown(e)} uses lanes that are masked off, undefined without `other`."
            more = "With other=0 in these loads, every element is right."
            return evidence("masked", words, more, lines=tuple(has_other)[-2:])
    for line in has_other:
        for filled in (0.0, -math.inf, math.inf, 1.0) if has_other[line] else (0.0,):
            changed = e.out(Changes(fill=(line, filled)))
            if e.is_right(changed).all():
                words = f"With other={filled:g} for the masked lanes of this load,"
                return evidence("masked", words, "every element is right.", lines=(line,))
            is_nan = e.got[e.first].isnan() and not changed[e.first].isnan()
            if is_nan and not has_other[line]:
                words = f"{shown(e)} is NaN: it uses a lane of this load that is masked off,"
                return evidence("masked", words, "undefined without `other`.", lines=(line,))
    return None


def exchanged_results(e: Experiments) -> Evidence | None:
    """Two results have changed places."""
    for number, want in enumerate(e.all_expected):
        same = number != e.number and want.shape == e.got.shape
        if same and torch.allclose(e.got.double(), want.double(), rtol=1e-2, atol=1e-3):
            words = (
                f"result {e.number} is what result {number} should be: they have changed places."
            )
            return evidence("wrong place", words)
    return None


def other_elements(e: Experiments) -> Evidence | None:
    """Needed elements that the wrong one lacks, and others that it has."""
    if not e.needs(e.first):  # of nothing that has a gradient
        return None
    lacks, extra = e.has
    if not lacks and not extra:
        return None
    by_lane, own = e.loads(e.first), e.needs_of_lane(e.first)
    is_loaded_rightly = extra <= own and lacks <= {element for element, _ in by_lane}
    if e.record.launched and is_loaded_rightly:
        angles = {argument.name for argument in e.wanted.arguments if argument.holds == "angles"}
        are_angles = {name for name, _ in lacks | extra} <= angles
        found = proof(e, of_masks, of_a_launch)
        if not found and are_angles:
            found = transposed(e) or factors(e)
    else:
        found = proof(e, of_addresses, of_masks, of_a_launch) if e.record.launched else None
    if found:
        return found
    stores = e.stores(e.first)
    if not extra:
        return _lacking(e, lacks, *(stores[-1] if stores else (None, ())))
    words = f"{shown(e)} depends on {listed(extra)}, and should not."
    if lacks:
        words = f"{shown(e)} is made of {listed(extra)} instead of {listed(lacks)}."
    load = next((one for element, one in reversed(by_lane) if element in extra), None)
    moves = _moved(e, load) if load and lacks and not is_loaded_rightly else ""
    lines = [one.line for one in (load, *(store for store, _ in stores[-1:])) if one]
    if is_loaded_rightly:
        lines.reverse()  # it is used wrongly
    return evidence("wrong element", words, moves, where(e), lines=tuple(lines))


def _lacking(e: Experiments, lacks: set[Element], store: Noted | None, lane: Index) -> Evidence:
    """The wrong element is made of too little."""
    line = store.line if store else ""
    needed = f"{shown(e)} needs {listed(lacks)}"
    program = by(e, store) if store else "the function"
    beyond = next(((words, one) for (words, index), one in e.loads(e.first) if not index), None)
    if beyond:
        words = f"{needed}, and {program} loads {beyond[0]}."
        return evidence("wrong element", words, where(e), lines=(beyond[1].line,))
    addresses = {e.input_address(element) for element in lacks}
    for one in e.loads_of(store.program) if store else ():
        if one.address(lane, store.shape, is_on=False) in addresses:
            words = f"{needed}, and the mask of its lane is false at this line."
            return evidence("masked", words, where(e), lines=(one.line,))
    by_lane = e.loads(e.first)
    has_it = [one for element, one in by_lane if element in lacks]
    for one in has_it or e.record.loads():
        if np.isin(one.access.addresses[one.access.wanted], list(addresses)).any():
            words = f"{needed}, which is loaded, and not used for it."
            return evidence("not used", words, where(e), lines=(one.line, line))
    words, names = f"{needed}, which {program} does not load.", {name for name, _ in lacks}
    near = [one.line for element, one in by_lane if element not in e.needs_of_lane(e.first)]
    near += [one.line for element, one in by_lane if element[0] in names]
    near += [one.line for one in e.loads_of(store.program)] if store else []
    return evidence("not loaded", words, where(e), lines=(*near[:1], line))


def _moved(e: Experiments, one: Noted) -> str:
    """The steps of a load that goes wrong for some elements, if the right one is known."""
    was: dict[Index, int] = {}
    should: dict[Index, int] = {}
    name = None
    places = [e.first, *_neighbors(e)]
    for at in places:
        for store, lane in e.stores(at)[-1:]:
            own = [x for x in e.loads_of(store.program) if x.line == one.line]
            address = own[0].address(lane, store.shape) if own else None
            if address is None:
                continue
            name = name or e.element_at(address)[0]
            others = {element for element, x in e.loads(at) if x.line != one.line}
            left = [x for x in e.needs(at) - others if x[0] == name]
            if len(left) == 1:
                was[at], should[at] = address, e.input_address(left[0])
    if e.first not in was:
        return ""
    return step(e, one.line, e.first, was, should)


def _neighbors(e: Experiments) -> Iterator[Index]:
    for k in range(len(e.first)):
        for more in (-1, 1):
            at = (*e.first[:k], e.first[k] + more, *e.first[k + 1 :])
            if 0 <= at[k] < e.expected.shape[k]:
                yield at
