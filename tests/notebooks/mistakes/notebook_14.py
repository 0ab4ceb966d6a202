"""Mistakes in answers to notebook 14."""

from . import Wrong

ANSWERS = [
    # into a cache
    Wrong(
        *(1, "every token of a block in one slot"),
        {" + slot % page * place_stride": ""},
        "programs 1 and 2 store element 0 of k_cache_ptr",
    ),
    Wrong(
        *(1, "tokens without a slot are written"),
        {"k, mask=slot >= 0": "k"},
        "program 3 writes element -256 of k_cache_ptr",
    ),
]
