"""What a reading that misses its target looks like: the mistakes that readers make."""

from collections.abc import Callable

from .launch import Launch
from .targets import EIGHT_ROWS

_FEW_ROWS = "a program has too few rows of its position: BLOCK_R"


def advice(instrument: str, readings: dict[str, float], counted: dict, launch: Launch) -> str:
    """The mistake that explains a missed target, as a question or a cause; '' if none is known."""
    return _ADVICE[instrument](readings, counted, launch)


def _about_bytes(readings: dict[str, float], counted: dict, launch: Launch) -> str:
    size, loaded = counted["elements"] * counted["element_bytes"], counted["loaded"]
    times = loaded.get("t", 0) / size
    if times > 1:
        return f"each element of t is loaded {times:.3g} times: once for itself, once as a partner?"
    if loaded.get("freqs", 0) >= 2 * size:
        return (
            "each row loads angles of its own: load them once a program, "
            "and let [None, :] give them to all rows"
        )
    return _FEW_ROWS


def _about_evaluations(readings: dict[str, float], counted: dict, launch: Launch) -> str:
    for event in counted["events"]:
        if event["kind"] == "E" and _is_tile(event) and not event["of"].startswith("(1,"):
            return f"a sine of the whole tile, {event['of']}, where a row of angles would do"
    if readings["sin/cos evaluations"] >= 4:
        return "every row evaluates its own: a program needs several rows of one position"
    return _FEW_ROWS


def _about_programs(readings: dict[str, float], counted: dict, launch: Launch) -> str:
    if readings["programs"] < EIGHT_ROWS.limit:
        return "more than 8 rows a program: stay at 8"
    starts = readings["programs"] / 1600
    return f"at 1600 a microsecond, they take {starts:.0f} us to start: more rows a program"


def _about_width(readings: dict[str, float], counted: dict, launch: Launch) -> str:
    if launch.num_warps > 1:
        lanes = 32 * launch.num_warps
        return f"{lanes} lanes share the angles of a row: how many has each? See num_warps"
    return (
        "16 bytes need neighbors in one lane, and an address that the compiler knows to be a "
        "multiple of 16: is a column counted in steps, or a mask's end no multiple of 16?"
    )


def _about_instructions(readings: dict[str, float], counted: dict, launch: Launch) -> str:
    for event in counted["events"]:
        if event["kind"] == "E" and _is_tile(event):
            return f"is the sine taken after the broadcast ({event['line']})?"
    words = f"each of {launch.num_warps} warps evaluates the same angles again: see num_warps"
    return words if launch.num_warps > 1 else ""


def _about_order(readings: dict[str, float], counted: dict, launch: Launch) -> str:
    sine = ""
    for event in counted["events"]:
        if event["kind"] == "E":
            sine = sine or event["line"]
        elif event["kind"] == "L" and sine:
            return f"{event['of']} is loaded after a sine: move ({event['line']}) before ({sine})"
    words = f"{launch.num_warps} warps share the loads: see num_warps"
    return words if launch.num_warps > 1 else ""


def _is_tile(evaluation: dict) -> bool:
    """Of an evaluation, whether its block has two dimensions."""
    return "," in evaluation["of"].strip("(),")


_ADVICE: dict[str, Callable] = {
    "bytes requested": _about_bytes,
    "sin/cos evaluations": _about_evaluations,
    "programs": _about_programs,
    "narrowest load": _about_width,
    "instruction time": _about_instructions,
    "instructions": _about_instructions,
    "loads after a sine": _about_order,
    "loads before a branch": _about_order,
}
