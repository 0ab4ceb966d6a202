"""Frequencies that change, in compiled code that a checkpoint around it runs again.

PyTorch traces a call once, so what an eager call finds out about its checkpoint, a compiled one
has to ask each time it runs: by an operator, which torch.compile does not look into.
"""

import weakref
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..machine.modes import backward_that_runs, checkpointed_region, is_in_backward

# A copy of the package, imported under another name, has operators of its own.
NAMESPACE = __name__.partition(".")[0]


@dataclass
class _Runs:
    """What a region of checkpointing asked for in its first run, in that order."""

    first: list[Tensor] = field(default_factory=list)
    asked: dict[int, int] = field(default_factory=dict)  # how often so far, by each backward


_OF_REGIONS: weakref.WeakKeyDictionary[object, _Runs] = weakref.WeakKeyDictionary()


@torch.library.custom_op(f"{NAMESPACE}::turns_of_first_run", mutates_args=())
def turns_of_first_run(turns: Tensor) -> Tensor:
    """`turns` as they are now; or, where a checkpoint recomputes this call, as they were.

    Raises:
        RuntimeError: a backward runs, and there is no first run to know them by.
    """
    region, runs_again = checkpointed_region()
    runs = None if region is None else _OF_REGIONS.setdefault(region, _Runs())
    if runs_again and runs.first:
        backward = backward_that_runs()
        turns = runs.first[runs.asked.setdefault(backward, 0)]
        runs.asked[backward] += 1
    elif is_in_backward():
        raise RuntimeError(REFUSED)
    elif runs is not None:
        runs.first.append(turns.clone())  # not what is returned, whose memory Inductor may reuse
    return turns.clone()


@turns_of_first_run.register_fake
def _(turns: Tensor) -> Tensor:
    return torch.empty_like(turns)


REFUSED = (
    "freqs adapts to positions, and is used in a backward, where another forward may have changed "
    "it; accepted: adapt first, then torch.utils.checkpoint with use_reentrant=False around calls "
    "with freqs, or around calls with a table that was made before, such as "
    "freqs.cos_sin_at(position_ids)"
)
