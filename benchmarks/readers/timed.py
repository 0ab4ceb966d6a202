"""A reader's predictions beside the times of a GPU."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.inspected import first_of


@dataclass(frozen=True)
class Written:
    """A kernel as the reader handed it in.

    Attributes:
        name: of the function, in `kernels.py` and, with `_in_pytorch`, among the specifications.
        make: the specification's inputs.
        small, large: sizes for `lab.inspect`.
        tensors: of the large ones, that must move; the reader's count of bytes.
        by_law_us: notebook 09's equation (1), before the first inspection.
        predicted_us: what the reader stood by in the end.
        attempts: inspections until it was right.
    """

    name: str
    make: str
    small: int
    large: int
    tensors: int
    by_law_us: float
    predicted_us: float
    attempts: int


WRITTEN = (
    Written("swiglu", "gates", 3, 6144, 3, 95.3, 94, 1),
    Written("swiglu_backward", "gates_and_gradient", 3, 6144, 5, 155.9, 158, 1),
    Written("add_rms_norm", "stream", 3, 13000, 4, 123.7, 128, 1),
    Written("packed_rope", "packed", 20, 65536, 2, 124.7, 128, 1),
)


def inspected(written: Written):
    """What `lab.inspect` says of it."""
    import rope_lab as lab
    from rope_lab.steps import own_specifications

    from . import kernels

    return lab.inspect(
        getattr(kernels, written.name),
        getattr(own_specifications, f"{written.name}_in_pytorch"),
        getattr(own_specifications, written.make),
        small=written.small,
        large=written.large,
    )


def timed(written: Written) -> dict:
    """Its median, and that of a copy that moves as many bytes. Needs a GPU."""
    from rope_lab.steps import own_specifications
    from rope_lab.timing import measure

    from . import kernels

    inputs = getattr(own_specifications, written.make)(written.large, "cuda")
    half = torch.empty(written.tensors * inputs[0].numel() // 2, dtype=torch.bfloat16).cuda()
    out, function = torch.empty_like(half), getattr(kernels, written.name)
    cases = {"copy": lambda: out.copy_(half), "theirs": lambda: first_of(function(*inputs), inputs)}
    found = measure(cases)
    return {f"{name}_us": round(timing.median_us, 1) for name, timing in found.items()}


def table_of(record: dict) -> str:
    """The record as README has it."""
    lines = [
        "| | by the law alone | predicted | measured | of a copy |",
        "|---|---:|---:|---:|---:|",
    ]
    for written in WRITTEN:
        row = record["kernels"][written.name]
        lines.append(
            f"| `{written.name}` | {written.by_law_us} µs | {written.predicted_us} µs "
            f"| {row['theirs_us']} µs | {row['copy_us'] / row['theirs_us']:.0%} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.readers", description=__doc__)
    parser.add_argument("--out", type=Path)
    chosen, found = parser.parse_args(arguments), {}
    for written in WRITTEN:
        print(f"{written.name}\n{inspected(written)}", flush=True)
        if torch.cuda.is_available():
            found[written.name] = timed(written)
            print(f"  {found[written.name]}\n")
    if chosen.out:
        from rope_lab.records import circumstances

        chosen.out.write_text(json.dumps(circumstances() | {"kernels": found}, indent=1) + "\n")
    return 0
