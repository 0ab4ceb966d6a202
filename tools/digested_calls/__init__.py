"""The calls whose machine code `sass_digest.py` compares, through the public API alone."""

from collections.abc import Callable, Iterator

from . import norms, rotations


def every_call(package, cases: list[dict]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Name and call of everything that is compiled; `cases` are those of the benchmark."""
    yield from rotations.every_call(package, cases)
    if hasattr(package, "norm_rope"):
        yield from norms.every_call(package)
