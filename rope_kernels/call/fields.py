"""A dataclass as a row of its values: what operators take, what autograd saves, what is hashed.

The order is that of the class, and no other file repeats it.
"""

from collections.abc import Callable, Iterable
from typing import Any


def getter_of(names: Iterable[str]) -> Callable[[Any], tuple]:
    """What reads these attributes into a tuple, as fast as code that names them.

    `operator.attrgetter` would do the same, but torch.compile cannot trace it.
    """
    return eval(f"lambda x: ({''.join([f'x.{name}, ' for name in names])})")
