"""Compiled versions of the notebooks' kernels, stored for systems where Triton has no compiler.

A listing is found by a digest of everything that determines it: the kernel's source, its call and
the GPU. A kernel that a reader has changed has none. `make listings` stores them; it sets a
variable that makes `compile_for` keep whatever it compiles.
"""

import hashlib
import json
import lzma
import os
import re
from functools import cache
from pathlib import Path

STORED = Path(__file__).with_name("listings.json.xz")
KEEP = "ROPE_LAB_LISTINGS"  # a folder for what is compiled; set by `make listings`
_SHOWN = ("ttir", "ttgir", "ptx")  # the stages that notebooks show, in addition to the machine code


class NoCompiler(RuntimeError):
    """Triton has no compiler here, and no listing of the kernel is stored."""

    def __init__(self, kernel: str) -> None:
        super().__init__(
            f"Triton has no compiler on this system, and what it makes of {kernel} is stored for "
            "the notebooks' own kernels alone. On Linux, or in the container of docs/install.md, "
            "it is compiled"
        )


def replayed(kernel: str, key: str) -> dict:
    """The fields of a `Compiled` that are stored for a job of `compile_for`.

    Raises:
        NoCompiler: none is stored.
    """
    try:
        return dict(stored()[digest(key)]["fields"])
    except KeyError:
        raise NoCompiler(kernel) from None


def digest(key: str) -> str:
    """A name for a job, from its `key`: its kernel's source, its call and its GPU."""
    return hashlib.sha256(key.encode()).hexdigest()[:20]


def keep(kernel: str, key: str, fields: dict, sass: str) -> None:
    """Write what was compiled into the folder that `KEEP` names.

    Args:
        kernel: its name.
        key: of the job.
        fields: those of a `Compiled`.
        sass: its machine code, disassembled.
    """
    listing = {"kernel": kernel, "fields": shown(fields, sass)}
    path = Path(os.environ[KEEP], f"{digest(key)}.json")
    path.write_text(json.dumps(listing, sort_keys=True), encoding="utf-8")


def shown(fields: dict, sass: str) -> dict:
    """The fields that are stored: the stages that notebooks show, without folders."""
    texts = {stage: fields["stages"][stage] for stage in _SHOWN} | {"sass": sass}
    # sections for debuggers, which contain folders, too
    texts["ptx"] = texts["ptx"].partition("\t.section\t.debug_")[0]
    stages = {stage: re.sub(r'"/[^"]*/([^"/]+)"', r'"\1"', text) for stage, text in texts.items()}
    return fields | {"stages": stages}


def collect(folder: Path, stored: Path = STORED) -> int:
    """Store exactly the listings in a folder; returns their number."""
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.json"))
    }
    text = json.dumps(found, sort_keys=True)
    stored.write_bytes(lzma.compress(text.encode(), preset=9))
    return len(found)


@cache
def stored() -> dict[str, dict]:
    """All listings: digest of the job -> the job, and the fields of a `Compiled`."""
    if not STORED.exists():
        return {}
    found: dict[str, dict] = json.loads(lzma.decompress(STORED.read_bytes()))
    return found
