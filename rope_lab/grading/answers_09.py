"""The numbers that notebook 09's exercises ask for, and the mistakes that lead to other ones.

    lab.check_answer(answers, **answers_09.UNSEEN_SHAPE)

They are here, so that the stub's cell does not have the recipe in it.
"""

from ..profiling.roofline import Machine, straight_line
from ..records import recorded
from ..steps.ladder import bytes_moved


def _machine() -> Machine:
    """T0 and W as notebook 08 measured them, the one place; instructions by the data sheet."""
    copies = recorded("08/cold-and-warm")
    start_us, us_a_byte = straight_line([2 * size for size in copies["bytes"]], copies["cold"])
    return Machine(start_us, 1 / us_a_byte, instructions_a_us=132 * 128 * 1980)


_MACHINE = _machine()
_PROGRAMS_A_US = 1600
_SHAPE = 16384, 1, 2, 128


def _us(*bytes_of_each: int) -> list[float]:
    return [_MACHINE.time_us(moved) for moved in bytes_of_each]


_ON_THE_FLY = bytes_moved(*_SHAPE, 2)
_FP32, _WITH_TABLE = bytes_moved(*_SHAPE, 4), bytes_moved(*_SHAPE, 4, table=True)
_HALF_IN_PLACE = bytes_moved(*_SHAPE, 2, rotary_dim=64, inplace=True)
_BYTES = _ON_THE_FLY, _WITH_TABLE, _HALF_IN_PLACE

UNSEEN_SHAPE = {
    "right": _us(*_BYTES),
    "unit": "us",
    "tolerance": 0.05,
    "hint": "the bytes in the time law",
    "mistakes": {
        "T0 is missing": [moved / _MACHINE.bytes_a_us for moved in _BYTES],
        "the table's bytes are missing": _us(_ON_THE_FLY, _FP32, _HALF_IN_PLACE),
        "each byte is counted once, but it is read and written": _us(
            *(moved // 2 for moved in _BYTES)
        ),
        "the tail is counted, but a call in place leaves it alone": _us(*_BYTES[:2], _ON_THE_FLY),
    },
}

# programs and instructions a warp of four kernels that move 128 MiB
_KERNELS = (32_768, 220), (32_768, 1840), (262_144, 79), (4_096, 2500)


def _slowest(programs: int, instructions: int) -> str:
    times = {
        "bytes": 2**27 / _MACHINE.bytes_a_us,
        "instructions": 32 * programs * instructions / _MACHINE.instructions_a_us,
        "programs": programs / _PROGRAMS_A_US,
    }
    return max(times, key=times.get)


WHICH_BOUND = {
    "right": [_slowest(*kernel) for kernel in _KERNELS],
    "hint": "three times for each kernel; the largest one decides",
}
