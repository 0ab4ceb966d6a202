"""Read the compiler's last text stage: widths of accesses, and on AMD also registers.

NVIDIA's text is PTX; ptxas translates each access into one access of the machine code. AMD's text
is the assembly itself, and ends with a list of the resources that the kernel needs.
"""

import re
from collections import Counter

_UNITS_OF_AMD = {"byte": 8, "short": 16, "dword": 32}  # bits


def widths_of(stages: dict[str, str], access: str) -> dict[int, int]:
    """Loads or stores of global memory: bytes a thread -> number of instructions.

    Args:
        stages: with the text of 'ptx' or 'amdgcn'. AMD's scalar loads, which one warp does once,
            are not counted: they fetch arguments.
        access: 'load' or 'store'.
    """
    if "amdgcn" in stages:
        pattern = rf"^\s+(?:global|buffer|flat)_{access}_(\w+)\s"
        bits = [_bits_of_amd(end) for end in re.findall(pattern, stages["amdgcn"], re.M)]
    else:
        # `.nc` loads read the tables of the sine's slow branch, which no line of the kernel
        # loads; qualifiers of volatile or ordered accesses come before `.global`
        name = {"load": "ld", "store": "st"}[access]
        pattern = rf"\b{name}(?:\.\w+)*?\.global(?!\.nc)\S*?(?:\.v(\d))?\.[bfsu](\d+)\s"
        bits = [int(n or 1) * int(bits) for n, bits in re.findall(pattern, stages["ptx"])]
        if access == "load":  # into shared memory, past the registers
            copied = r"\bcp\.async\.c[ag]\.shared\.global .*?, (0x\w+|\d+)"
            bits += [8 * int(size, 0) for size in re.findall(copied, stages["ptx"])]
    return dict(sorted(Counter(n // 8 for n in bits).items()))


def needs_of_amd(amdgcn: str) -> dict[str, int]:
    """Registers of a thread, bytes that it spills, and bytes of its stack, by these names.

    A spilled vector register is 4 bytes, and a scalar register counts the same. The compiler does
    not report how often they are stored and loaded.
    """
    needs = {name: int(number) for name, number in re.findall(r"\.(\w+): +(\d+)$", amdgcn, re.M)}
    return {
        "registers": needs["vgpr_count"],
        "spilled": 4 * (needs["vgpr_spill_count"] + needs["sgpr_spill_count"]),
        "stack": needs["private_segment_fixed_size"],
    }


def _bits_of_amd(end: str) -> int:
    """Bits of one access: `end` is 'dwordx4' or 'ubyte_d16_hi', or later 'b128' or 'd16_hi_u8'."""
    if found := re.search(r"(byte|short|dword)(?:x(\d))?", end):
        return _UNITS_OF_AMD[found[1]] * int(found[2] or 1)
    return int(re.search(r"[biu](\d+)$", end)[1])
