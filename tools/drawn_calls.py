"""Compare the bits that two checkouts return for random calls of all public functions.

    python tools/drawn_calls.py ../before .
    python tools/drawn_calls.py ../before . --seed 1 --only 17    # one call of a report
    python tools/drawn_calls.py ../before . --never "interleaved=None"    # `before` lacks this

`tests/support/drawn.py` draws calls from the axes of `tests/support/ops.py` and a few more. Both
packages get the same inputs. Results, gradients and the inputs' memory are compared bit by bit.
Results and gradients are also compared loosely with fp64, so that an error in both is found.

Kernels run on a GPU, or in Triton's interpreter. On a GPU, each call is made twice, because the
second one launches a cached kernel. The exit status is 1 if any call differs, is wrong, or is
refused.
"""

import argparse
import math
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from two_checkouts import HAS_GPU, ROOT, choose_engine, copy_packages, load_packages

sys.path[:0] = [str(ROOT / folder) for folder in ("", "tests/support")]

from drawn import Call, Named, draw  # noqa: E402

# the comparison


def compare(call: Call, packages: Sequence[ModuleType]) -> list[str]:
    """A line for each result that differs or is wrong, or for a refused call."""
    # On a GPU, the second call launches a cached kernel.
    found = [outcome_of(call, package) for package in packages for _ in range(1 + HAS_GPU)]
    before, after = found[0], found[-1]
    if any(isinstance(x, str) for x in found) or before.keys() != after.keys():
        said = [x if isinstance(x, str) else ", ".join(x) for x in (before, after)]
        return [f"before: {said[0]}", f"after: {said[1]}"]
    lines, differing = [], set()
    for name, x in before.items():
        others = [outcome[name] for outcome in found[1:]]
        if unlike := [looks_of(y) for y in others if looks_of(y) != looks_of(x)]:
            lines.append(f"{name}: before {looks_of(x)}, after {unlike[0]}")
        elif most := max(int((bits_of(y) != bits_of(x)).sum()) for y in others):
            lines.append(f"{name}: {most} of {x.numel()} elements differ")
            differing.add(name)
    for name, want in call.define().items():
        errors = [error_of(x[name], want) for x in (before, after)]
        if name in differing or not max(errors) <= call.near:
            lines.append(f"{name}: off from fp64 by {errors[0]:.2g} before, {errors[1]:.2g} after")
    return lines


def outcome_of(call: Call, package: ModuleType) -> Named | str:
    """The results of a call, or its error."""
    try:
        return call.run(package)
    except Exception as error:  # The other calls are compared anyway.
        return f"{type(error).__name__}: {error}".replace(package.__name__, "rope_kernels")


def looks_of(x: Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)} with strides {x.stride()}"


def bits_of(x: Tensor) -> Tensor:
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.resolve_neg().contiguous().view(integers[x.element_size()])


def error_of(got: Tensor, want: Tensor) -> float:
    """The relative error of all elements together; infinite if one is NaN."""
    want = want.detach().double()
    error = (got.double() - want).norm() / want.norm().clamp_min(1e-30)
    return math.inf if error.isnan() else error.item()


# the command


def start_process(folder: Path) -> None:
    """Run first in each process."""
    global packages
    choose_engine()
    packages = load_packages(folder)
    torch.set_num_threads(1)
    # Sum in a fixed order on a GPU, and fill new memory with NaN.
    torch.use_deterministic_algorithms(True, warn_only=True)
    warnings.simplefilter("ignore")


def try_call(seed: int, never: Sequence[str], index: int) -> tuple[str, list[str]]:
    """The function of a call, and the lines of the report about it."""
    call = draw(seed, index, never)
    lines = compare(call, packages)
    if lines:
        lines.append(", ".join(call.listed))
    return call.function, lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a folder that holds rope_kernels")
    parser.add_argument("after", type=Path)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one call, as a report names it")
    not_drawn = "draw no call that has it, as a report spells it"
    parser.add_argument(
        "--never", action="append", default=[], metavar="NAME=VALUE", help=not_drawn
    )
    parser.add_argument("--processes", type=int, default=min(16, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    indices = range(options.calls) if options.only is None else [options.only]
    begin, equal, different = time.monotonic(), Counter(), Counter()
    with tempfile.TemporaryDirectory(prefix="drawn_calls-") as folder:
        copy_packages(options.before, options.after, Path(folder))
        workers = min(options.processes, len(indices))
        context = get_context("spawn")  # CUDA doesn't work in forked processes.
        with ProcessPoolExecutor(workers, context, start_process, (Path(folder),)) as pool:
            tried = pool.map(partial(try_call, options.seed, options.never), indices)
            for index, (function, lines) in zip(indices, tried, strict=True):
                (different if lines else equal)[function] += 1
                if lines:
                    print(f"--seed {options.seed} --only {index}: {function}", flush=True)
                    print(*lines, sep="\n    ", flush=True)
    engine = torch.cuda.get_device_name() if HAS_GPU else "Triton's interpreter"
    print(f"{len(indices)} calls in {time.monotonic() - begin:.0f} s, {engine}")
    for function in sorted(equal | different):
        print(f"{function:32} {equal[function]:4} equal {different[function]:4} different")
    print(f"{'all':32} {equal.total():4} equal {different.total():4} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
