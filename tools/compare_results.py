"""Make the same random calls with two checkouts of `rope_kernels`; compare results bit for bit.

    python tools/compare_results.py OLD NEW --calls 2000 --jobs 2
    python tools/compare_results.py OLD NEW --calls 500 --device cuda

Each checkout runs in child processes of its own, through the public API alone. On the CPU the
kernels run in Triton's interpreter. Three calls in ten normalize and rotate, the others rotate.
Some go backward, some twice. `random_calls` draws and makes them.

Compared are outputs, gradients, memory that a call overwrote (and all that it must not overwrite),
shapes, strides, dtypes, the types of exceptions, and in the interpreter how many kernels were
launched. NaNs are equal to each other. A call depends on the seed and its number alone:
`--only 17 42` repeats two of them.

Calls that a checkout is known to answer otherwise are left out, and drawn with `--include NAME`:

    bf16-inv-freq        a module whose inv_freq is bf16 or fp16
    flags                bools and integers of the wrong type: inplace="False", cp_size=True
    nonfinite-inv-freq   a module whose inv_freq holds NaN or infinity
    overlap              in place: unusual overlaps of q with k, or of t with itself

Exit status: 0 no difference, 1 differences, 2 a child failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from random_calls.draw import KNOWN, draw
from random_calls.make import Maker
from random_calls.perform import Launches, perform

# --- the child: make one checkout's share of the calls -------------------------------------------


def child(options: argparse.Namespace) -> int:
    """Make one checkout's share of the calls; a line of JSON for each."""
    import warnings

    import torch

    import rope_kernels

    if Path(options.old).resolve() not in Path(rope_kernels.__file__).resolve().parents:
        raise RuntimeError(f"rope_kernels was imported from {rope_kernels.__file__}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    launches = Launches()
    with open(options.new, "w") as file:
        for index in options.only:
            call = draw(options.seed, index, tuple(options.include))
            if options.device == "cuda":
                call["times"] = 3  # the second may take the fast path
            torch.manual_seed(index)
            then = launches.count
            results = perform(call, rope_kernels, Maker(options.seed, index, options.device))
            if options.device == "cpu":
                results["launches"] = launches.count - then
            print(json.dumps([index, results]), file=file, flush=True)
    return 0


# --- the parent ---------------------------------------------------------------------------------


def main() -> int:
    options = _options()
    if options.child:
        return child(options)
    indices = options.only or list(range(options.calls))
    shares = [indices[i :: options.jobs] for i in range(options.jobs)]
    with tempfile.TemporaryDirectory() as folder:
        tasks = [
            (side, checkout, share, Path(folder, f"{side}-{number}.jsonl"))
            for number, share in enumerate(shares)
            for side, checkout in (("old", options.old), ("new", options.new))
            if share
        ]
        with ThreadPoolExecutor(options.jobs) as pool:
            codes = list(pool.map(lambda task: _run_child(options, *task[1:]), tasks))
        found = {"old": {}, "new": {}}
        for side, _, _, path in tasks:
            lines = path.read_text().splitlines() if path.exists() else []
            found[side] |= dict(map(json.loads, lines))
    different = [i for i in indices if i in found["old"] and i in found["new"]
                 and found["old"][i] != found["new"][i]]  # fmt: skip
    for index in different:
        call = draw(options.seed, index, tuple(options.include))
        print(describe(index, call, found["old"][index], found["new"][index]))
    missing = [i for i in indices if i not in found["old"] or i not in found["new"]]
    if any(codes) or missing:
        print(f"a child ended early; calls without an answer from both: {missing[:20]}")
    print(summary(options, indices, found["old"]))
    print(f"{len(different)} differences in {len(indices) - len(missing)} calls")
    return 2 if any(codes) or missing else int(bool(different))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", help="folder that holds rope_kernels/")
    parser.add_argument("new", help="another one")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="only these calls")
    parser.add_argument("--include", choices=KNOWN, nargs="+", default=[], help="see above")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_child(options: argparse.Namespace, checkout: str, share: list[int], output: Path) -> int:
    """In a child both positional arguments mean other things: the checkout, and the output."""
    command = [sys.executable, __file__, checkout, str(output), "--child"]
    command += ["--seed", str(options.seed), "--device", options.device]
    command += ["--only", *map(str, share)]
    command += ["--include", *options.include] if options.include else []
    paths = [str(Path(checkout).resolve()), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment["TRITON_INTERPRET"] = "1" if options.device == "cpu" else "0"
    return subprocess.run(command, env=environment).returncode


def describe(index: int, call: dict, old: dict, new: dict) -> str:
    """A difference in words: what was called, and what differs."""
    lines = [f"call {index}:"]
    lines += [f"    {name}: {value}" for name, value in call.items() if value is not None]
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            lines.append(f"  differs: {name}: old {old.get(name)}, new {new.get(name)}")
    return "\n".join(lines)


def summary(options: argparse.Namespace, indices: list[int], answers: dict) -> str:
    """What the calls were, so that a run that compared nothing but errors is seen."""
    calls = {i: draw(options.seed, i, tuple(options.include)) for i in indices}
    lines = []
    for name in ("function", "dtype", "tensor_format", "freqs", "positions", "mode", "cp_order"):
        lines.append(_counted(name, [call[name] for call in calls.values()]))
    norms = [call["norm"] for call in calls.values() if call["norm"]]
    for name in ("weight", "sums", "rounding"):
        lines.append(_counted(f"{name} of norms", [norm[name] for norm in norms]))
    errors = [v for a in answers.values() for k, v in a.items() if k.endswith("error")]
    raised = sum(any(k.endswith("error") for k in a) for a in answers.values())
    launched = sum(bool(a.get("launches")) for a in answers.values())
    second = sum(any("second" in k for k in a) for a in answers.values())
    lines.append(_counted(f"raised in {raised} calls", errors))
    lines.append(f"launched a kernel: {launched} calls; double backward: {second}")
    return "\n".join(lines)


def _counted(name: str, values: list) -> str:
    return f"{name}: " + ", ".join(f"{value} {n}" for value, n in Counter(values).most_common())


if __name__ == "__main__":
    sys.exit(main())
