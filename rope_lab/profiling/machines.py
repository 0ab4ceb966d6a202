"""T0, W and P of several GPUs: notebook 08's, and those that `measure_machine` has measured."""

from pathlib import Path

import numpy as np

from .. import records
from ..compiler.instructions import LANE_INSTRUCTIONS_PER_US
from ..records import Observation
from .roofline import Machine, straight_line


def of_notebook_08() -> Machine:
    """T0 and W as notebook 08 measured them, the one place; instructions by the data sheet."""
    copies = records.recorded("08/cold-and-warm")
    start_us, us_a_byte = straight_line([2 * size for size in copies["bytes"]], copies["cold"])
    return Machine(start_us, 1 / us_a_byte, instructions_a_us=LANE_INSTRUCTIONS_PER_US)


def read(path: Path) -> dict[str, Observation]:
    """Name of the GPU -> the times that were measured on it."""
    return {gpu: records.read(path, gpu) for gpu in sorted(records.all_of(path))}


def merge(path: Path, here: dict, values: dict) -> None:
    """Write what was measured into a record; it replaces an entry for the same GPU.

    Args:
        path: of the record.
        here: GPU, versions and date, as `records.circumstances` tells them.
        values: what `measure_machine.take` returned.
    """
    records.write(path, Observation(key=here["gpu"], values=values, **here))


def copies_of(taken: Observation) -> list[tuple[int, float]]:
    """(bytes read and written, microseconds) of each copy, the smallest first."""
    copies = taken["copies"]
    times = np.median(copies["us"], axis=0).tolist()
    return [(2 * size, us) for size, us in zip(copies["bytes"], times, strict=True)]


def machine_of(taken: Observation) -> Machine:
    """T0 and W from copies, as notebook 08 finds them; P from two counts of FMAs."""
    moved, copied = zip(*copies_of(taken), strict=True)
    start, slope = straight_line(moved, copied)
    fmas = taken["fmas"]
    few, many = fmas["counts"][-2:]
    fast, slow = np.median(fmas["us"], axis=0)[-2:].tolist()
    rate = (many - few) * fmas["elements"] / (slow - fast)
    return Machine(start_us=start, bytes_a_us=1 / slope, instructions_a_us=rate)
