"""What a reading that misses its target looks like: the mistakes that readers make."""

from .launch import Launch
from .readings import Readings


def advice(instrument: str, readings: Readings, counted: dict, launch: Launch) -> str:
    """The mistake that explains a missed target, as a question or a cause; '' if none is known."""
    return _ADVICE[instrument](readings, counted, launch)


def _about_bytes(readings: Readings, counted: dict, launch: Launch) -> str:
    size = counted["elements"] * counted["element_bytes"]
    loaded = counted["loaded"]
    of_t, of_angles = loaded.get("t", 0) / size, loaded.get("freqs", 0) / size
    if of_t > 1:
        return f"each element of t is loaded {of_t:.3g} times: once for itself, once as a partner?"
    if of_angles >= 2:
        return (
            "each row loads angles of its own: load them once a program, "
            "and let [None, :] give them to all rows"
        )
    if of_angles > 0.25:
        return "a program has too few rows of its position, so more programs load the same angles"
    return ""


def _about_evaluations(readings: Readings, counted: dict, launch: Launch) -> str:
    blocks = [event for event in counted["events"] if event["kind"] == "E"]
    for block in blocks:
        shape = [int(size) for size in block["of"].strip("()").split(",") if size.strip()]
        if len(shape) == 2 and shape[0] > 1:
            return f"a sine of the whole tile, {tuple(shape)}, where a row of angles would do"
    if readings.evaluations >= 4:
        return "every row evaluates its own: a program needs several rows of one position"
    return "a program has too few rows of its position: BLOCK_R"


def _about_programs(readings: Readings, counted: dict, launch: Launch) -> str:
    if readings.programs < 32_768:
        return "more than 8 rows a program: stay at 8"
    if readings.programs > 32_768:
        starts = readings.programs / 1600
        return f"at 1600 a microsecond, they take {starts:.0f} us to start: more rows a program"
    return ""


def _about_width(readings: Readings, counted: dict, launch: Launch) -> str:
    if not readings.narrowest_load:
        return "the machine code has no load: does anything but atomics read t?"
    if launch.num_warps > 1:
        lanes = 32 * launch.num_warps
        return f"{lanes} lanes share the angles of a row: how many has each? See num_warps"
    return (
        "16 bytes need neighbors in one lane, and an address that the compiler knows to be a "
        "multiple of 16: is a column counted in steps, or a mask's end no multiple of 16?"
    )


def _about_instructions(readings: Readings, counted: dict, launch: Launch) -> str:
    for event in counted["events"]:
        if event["kind"] == "E" and "," in event["of"].strip("(),"):
            return f"is the sine taken after the broadcast ({event['line']})?"
    if launch.num_warps > 1:
        return f"each of {launch.num_warps} warps evaluates the same angles again: see num_warps"
    return "what else does every lane compute that a row of angles has only once?"


def _about_order(readings: Readings, counted: dict, launch: Launch) -> str:
    events, seen = counted["events"], ""
    for event in events:
        if event["kind"] == "E":
            seen = seen or event["line"]
        elif event["kind"] == "L" and seen:
            return f"{event['of']} is loaded after a sine: move ({event['line']}) before ({seen})"
    if launch.num_warps > 1:
        return f"{launch.num_warps} warps share the loads: see num_warps"
    return "the loads come first in your lines; does a branch or a loop keep them back?"


_ADVICE = {
    "requested": _about_bytes,
    "evaluations": _about_evaluations,
    "programs": _about_programs,
    "narrowest_load": _about_width,
    "instruction_us": _about_instructions,
    "instructions": _about_instructions,
    "loads_after_a_sine": _about_order,
    "loads_first": _about_order,
}
