"""Two programs and one element: a race, or two values for one place."""

from .evidence import Evidence
from .ignored import unchanged


def race(e: Evidence) -> str | None:
    """A program read what another one had overwritten."""
    if e.races:
        return f"a race between programs: {e.races[0]}"
    return None


def changed_and_overwritten(e: Evidence) -> str | None:
    """The result is an input as it came, because it was changed and then overwritten."""
    stored = [words for words in e.twice if "stores" in words]
    return f"write collision: {stored[0]}" if stored and unchanged(e) else None


def stored_twice(e: Evidence) -> str | None:
    """Also by one program, or read after it was stored."""
    if not e.twice:
        return None
    name = "write collision" if "stores" in e.twice[0] else "read after write"
    return f"{name}: {e.twice[0]}"
