"""What the compiler's last text says of a kernel: widths of its accesses; on AMD its registers too.

NVIDIA's text is PTX, which ptxas turns into machine code one access for one access. AMD's is the
assembly itself, with a list of what the kernel needs at its end.
"""

import re
from collections import Counter

_BITS_OF_AMD = {  # the end of an instruction's name -> bits, where it has no number of its own
    **{"byte": 8, "ubyte": 8, "sbyte": 8, "byte_d16_hi": 8, "ubyte_d16": 8, "ubyte_d16_hi": 8},
    **{"short": 16, "ushort": 16, "sshort": 16, "short_d16": 16, "short_d16_hi": 16},
    **{"dword": 32, "dwordx2": 64, "dwordx3": 96, "dwordx4": 128},
}


def loads_in(stages: dict[str, str]) -> dict[int, int]:
    """Loads from global memory: bytes a thread -> number of instructions.

    Args:
        stages: with the text of 'ptx' or 'amdgcn'. AMD's scalar loads, which one warp does once,
            are not counted: they fetch arguments.
    """
    return _widths(stages, "ld", "load")


def stores_in(stages: dict[str, str]) -> dict[int, int]:
    """Stores to global memory, in the same form."""
    return _widths(stages, "st", "store")


def needs_of_amd(amdgcn: str) -> dict[str, int]:
    """Registers of a thread, bytes that it spills, and bytes of its stack, by these names.

    A spilled vector register is 4 bytes. A scalar register counts as much as one. The compiler
    does not say how often it stores and loads them.
    """
    needs = {name: int(number) for name, number in re.findall(r"\.(\w+): +(\d+)$", amdgcn, re.M)}
    return {
        "registers": needs["vgpr_count"],
        "spilled": 4 * (needs["vgpr_spill_count"] + needs["sgpr_spill_count"]),
        "stack": needs["private_segment_fixed_size"],
    }


def _widths(stages: dict[str, str], of_ptx: str, of_amd: str) -> dict[int, int]:
    if "ptx" in stages:
        # `.nc` are the tables of the sine's slow branch, which no line of the kernel asks for
        # between them what a volatile or an ordered access says
        pattern = rf"\b{of_ptx}(?:\.\w+)*?\.global(?!\.nc)\S*?(?:\.v(\d))?\.[bfsu](\d+)\s"
        bits = [int(n or 1) * int(bits) for n, bits in re.findall(pattern, stages["ptx"])]
        if of_ptx == "ld":  # into shared memory, past the registers
            copied = re.findall(
                r"\bcp\.async\.c[ag]\.shared\.global .*?, (0x\w+|\d+)", stages["ptx"]
            )
            bits += [8 * int(size, 0) for size in copied]
    else:
        pattern = rf"^\s+(?:global|buffer|flat)_{of_amd}_(\w+)\s"
        bits = [_bits_of_amd(end) for end in re.findall(pattern, stages["amdgcn"], re.M)]
    return dict(sorted(Counter(n // 8 for n in bits).items()))


def _bits_of_amd(end: str) -> int:
    """Bits of one access: `end` is 'dwordx4', or 'b128' or 'd16_hi_u8' in later assembly."""
    return _BITS_OF_AMD[end] if end in _BITS_OF_AMD else int(re.search(r"[biu](\d+)$", end)[1])
