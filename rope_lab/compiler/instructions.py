"""What a compiled kernel executes: instructions of a warp, and loads before the first branch."""

from .compile import Compiled
from .stages import executed, operations

_LOADS = ("LDG", "UTMALDG", "UBLKCP")  # LDGSTS and the last two load into shared memory
LANE_INSTRUCTIONS_PER_US = 132 * 128 * 1980  # H200: SMs, lanes of each, cycles a microsecond


def warp_instructions(code: Compiled) -> int:
    """Machine instructions that a warp executes if no angle is large: without slow branches."""
    return len(executed(code))


def loads_before_first_branch(code: Compiled) -> tuple[int, int]:
    """Loads from global memory before the machine code's first branch, and all of them.

    The slow branch of an exact sine, for large angles, also has loads.
    """
    names = [operation.opcode for operation in operations(code, "sass")]
    is_load = [name.startswith(_LOADS) for name in names]
    branches = [place for place, name in enumerate(names) if name.startswith("BRA")]
    first = branches[0] if branches else len(names)
    return sum(is_load[:first]), sum(is_load)
