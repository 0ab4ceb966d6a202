"""For which element of a result is a lane, and what should its index or its address be?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from .changes import Index, Noted, Places, address_of
from .experiments import Experiments

Column = Callable[[np.ndarray], np.ndarray]  # another column, from one
_SAME = {"s2": "s", "d2": "d", "g": "h"}  # letters that count the same

_DIMENSIONS = {"s": "position", "b": "sequence", "h": "head", "d": "column", "n": "element"}


@dataclass(frozen=True)
class Lanes:
    """The lanes of a store that are for elements of a result.

    Attributes:
        store: as it was noted.
        number: of the result.
        which: for each lane, whether it is for an element.
        places: of these elements, for each of these lanes.
        owns: whether these are the elements that it stores.
    """

    store: Noted
    number: int
    which: np.ndarray
    places: Places
    owns: bool


def by_stores(e: Experiments) -> list[Lanes]:
    """A lane is for the element that it stores."""
    found = []
    for number, out in _alike(e):
        first = np.arange(out.untyped_storage().nbytes() // out.element_size())
        own = np.lib.stride_tricks.as_strided(
            first[out.storage_offset() :], out.shape, [8 * step for step in out.stride()]
        )
        numbers = np.full(len(first), -1)
        numbers[own.ravel()] = np.arange(out.numel())
        begin = out.untyped_storage().data_ptr()
        for store in e.record.stores():
            at, rest = np.divmod(store.access.addresses - begin, out.element_size())
            inside = (at >= 0) & (at < len(first)) & (rest == 0) & store.access.wanted
            mine = np.where(inside, numbers[np.where(inside, at, 0)], -1)
            if (mine >= 0).any():
                places = np.unravel_index(mine[mine >= 0], tuple(out.shape))
                found.append(Lanes(store, number, mine >= 0, places, owns=True))
    return found


def in_order(e: Experiments) -> list[Lanes]:
    """A lane is for the element whose number it has, if programs and lanes are counted.

    Within a program, rows come first, then stores, then columns: each half of a row has its own.
    """
    found = []
    for number, out in _alike(e):
        begin = out.untyped_storage().data_ptr()
        end = begin + out.untyped_storage().nbytes()
        stores = [one for one in e.record.stores() if begin <= (one.access.through or 0) < end]
        lanes = [np.argwhere(store.access.wanted).tolist() for store in stores]
        if sum(map(len, lanes)) != out.numel():
            return []
        counted = sorted(
            (store.program, lane[:-1], order, lane)
            for order, store in enumerate(stores)
            for lane in lanes[order]
        )
        numbers = {(order, *lane): k for k, (*_, order, lane) in enumerate(counted)}
        for order, store in enumerate(stores):
            mine = np.array([numbers[order, *lane] for lane in lanes[order]], dtype=int)
            if mine.size:
                places = np.unravel_index(mine, tuple(out.shape))
                found.append(Lanes(store, number, store.access.wanted, places, owns=False))
    return found


def _alike(e: Experiments) -> list[tuple[int, Tensor]]:
    """The results whose indices count the same, with their numbers."""
    return [(k, x) for k, x in enumerate(e.outs) if x.dim() == e.expected.dim()]


def spread(block: Index, over: Index, is_column: bool) -> np.ndarray | None:
    """For each lane of a larger block, the number of the lane of `block` that it comes from."""
    number = np.arange(int(np.prod(block, dtype=int))).reshape(block)
    if number.size == 1:
        return np.zeros(over, dtype=int)
    if len(block) == 1 and len(over) == 2:
        if not is_column and block[0] != over[1]:
            is_column = True
        number = number[:, None] if is_column else number[None, :]
    try:
        return np.broadcast_to(number, over)
    except ValueError:
        return None


# what an index may be


def letters_of(e: Experiments) -> list[str]:
    """The specification's letters of the result's dimensions."""
    shape = tuple(e.expected.shape)
    for x, argument in zip(e.given, e.wanted.arguments, strict=True):
        if tuple(x.shape)[: len(shape)] == shape:
            return [_SAME.get(letter, letter) for letter in argument.letters[: len(shape)]]
    return [f"row {k}" for k in range(len(shape))]


def dimensions(letters: list[str]) -> list[str]:
    """What each index of the result counts."""
    return [_DIMENSIONS.get(letter, "row") for letter in letters]


def half_of(e: Experiments) -> int:
    """Half of the columns that rotate."""
    columns = e.expected.shape[-1] if e.expected.dim() else 1
    for x, argument in zip(e.given, e.wanted.arguments, strict=True):
        if argument.letters[-1:] == ("d2",):
            columns = min(columns, x.shape[-1])
    return max(1, columns // 2)


def columns_of(half: int) -> dict[str, Column]:
    """What a column of the result may become; behind the halves it stays."""
    return {
        "column": lambda c: c,
        "pair": lambda c: np.where(c < 2 * half, c % half, c),
        "second column": lambda c: np.where(c < 2 * half, c % half + half, c),
        "partner": lambda c: np.where(c < 2 * half, (c + half) % (2 * half), c),
    }


def _raveled(places: Places, shape: Index, first: int, end: int, change: Callable) -> np.ndarray:
    """The number of an element, counted in some dimensions, after a change of its last index."""
    own = list(places)
    own[-1] = change(own[-1])
    return np.ravel_multi_index(tuple(own[first:end]), shape[first:end], mode="clip")


def indices(names: list[str], half: int) -> dict[str, Callable[[Places, Index], np.ndarray]]:
    """What an index may be, in words: from an element's place and the result's shape.

    `names`: of the result's dimensions.
    """
    found: dict[str, Callable[[Places, Index], np.ndarray]] = {}
    last, columns = len(names) - 1, columns_of(half)
    for first in range(last + 1):
        within = f" within its {names[first - 1]}" if first else ""
        for end in range(first + 1, last + 1):
            words = names[first] if end == first + 1 else ""
            words = words or f"{'row' if end == last else 'token'}'s number{within}"
            found[words] = partial(_raveled, first=first, end=end, change=columns["column"])
        for column, change in columns.items():
            words = {"column": ""}.get(column, f" of its {column}")
            words = f"place in the result{words}" if first == 0 else f"place{within}{words}"
            if first == last:
                words = column if names[-1] == "column" else names[-1]
            found.setdefault(words, partial(_raveled, first=first, end=last + 1, change=change))
        if first < last:
            words = f"row's beginning{within}"
            found[words] = partial(_raveled, first=first, end=last + 1, change=np.zeros_like)
    return found


def in_inputs(
    e: Experiments, letters: list[str], columns: list[Column]
) -> Iterator[Callable[[Lanes], np.ndarray]]:
    """Addresses of elements of the inputs that an element of the result may need.

    `letters`: of the result's dimensions. `columns`: what its column may become there.
    """
    half = half_of(e)
    for x, argument in zip(e.given, e.wanted.arguments, strict=True):
        mine = [_SAME.get(one, one) for one in argument.letters]
        own = columns if mine[-1:] == ["d"] else [lambda c: c]
        if mine[-1:] == ["p"]:  # pairs
            mine[-1], own = "d", [lambda c: c % half]
        if all(one in letters or size == 1 for one, size in zip(mine, x.shape, strict=True)):
            for column in own:
                yield partial(_in_input, tensor=x, mine=mine, letters=letters, column=column)


def _in_input(
    lanes: Lanes, tensor: Tensor, mine: list[str], letters: list[str], column: Column
) -> np.ndarray:
    places = lanes.places
    own = [places[letters.index(x)] if x in letters else 0 * places[0] for x in mine]
    if mine[-1:] == ["d"]:
        own[-1] = column(own[-1])
    inside = (np.minimum(i, size - 1) for i, size in zip(own, tensor.shape, strict=True))
    return address_of(tensor, tuple(inside))


def in_results(e: Experiments, columns: list[Column]) -> list[Callable[[Lanes], np.ndarray]]:
    """Addresses of elements of the results. `columns`: what a column may become."""

    def address(lanes: Lanes, column: Column) -> np.ndarray:
        return address_of(e.outs[lanes.number], (*lanes.places[:-1], column(lanes.places[-1])))

    return [partial(address, column=column) for column in columns]
