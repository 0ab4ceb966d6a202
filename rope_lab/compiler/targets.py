"""GPUs that a kernel can be compiled for, by name: NVIDIA's 'sm_90', AMD's 'gfx942'."""

import re
from dataclasses import dataclass

from rope_kernels.modes import Engine


@dataclass(frozen=True)
class Target:
    """A GPU as Triton's compiler knows it, and the engine that the package plans for on it."""

    backend: str  # 'cuda' or 'hip'
    arch: int | str  # 90; 'gfx942'
    warp_size: int  # threads
    engine: Engine


def target_of(name: str) -> Target:
    """The target of that name.

    AMD's CDNA (gfx9) runs 64 threads a warp. Triton runs RDNA (gfx10 and later) with 32.

    Raises:
        ValueError: neither 'sm_' and a number, nor 'gfx' and a number.
    """
    if found := re.fullmatch(r"sm_(\d+)", name):
        return Target("cuda", int(found[1]), 32, Engine.NVIDIA)
    if found := re.fullmatch(r"gfx(\d+)[0-9a-f]{2}", name):
        return Target("hip", name, 64 if int(found[1]) == 9 else 32, Engine.AMD)
    raise ValueError(f"gpu is {name!r}; accepted: names like 'sm_90' and 'gfx942'")
