"""The kinds of record, a file each: what a row says, and what is made of the rows."""

from benchmarks.kind import Kind
from benchmarks.kinds.caches import CACHES
from benchmarks.kinds.models import MODELS
from benchmarks.kinds.norm import NORM
from benchmarks.kinds.peers import PEERS
from benchmarks.kinds.projections import PROJECTIONS
from benchmarks.kinds.rotation import ROTATION

KINDS = (ROTATION, NORM, MODELS, PEERS, CACHES, PROJECTIONS)


def kind_of(results: dict) -> Kind:
    """Of which kind these results are.

    Raises:
        ValueError: they have no rows, or rows of no known kind.
    """
    marks = {*(results.get("rows") or [{}])[0], *results}
    found = [kind for kind in KINDS if kind.mark in marks]
    if not found:
        raise ValueError("results have no rows; accepted: what `python -m benchmarks` writes")
    return found[0]
