"""Make random calls with the kernels and in plain PyTorch; compare results, gradients, errors.

    python tools/compare_with_pytorch.py --calls 100

On the CPU the kernels run in Triton's interpreter. `random_calls` draws the calls: every function,
format and table, modules with axes, attention factors and frequencies of their own, ranks in each
order. Plain PyTorch is the same call with `fused=False`, which rounds once where the kernel does.
Values may differ by a few roundings; types of errors, dtypes and shapes may not. A call depends on
the seed and its number alone: `--only 17 42` repeats two of them.

Exit status: 0 no difference, 1 differences.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from random_calls import perform as performing
from random_calls.draw import FUNCTIONS, OF_NORMS, draw
from random_calls.make import Maker

# norm of the difference over the norm, by the dtype of a call; the interpreter truncates to bf16
ALLOWED = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 2e-5, "float64": 1e-11}


class PlainPyTorch:
    """The public functions with `fused=False`; all else as in the package."""

    def __init__(self, package) -> None:
        self.package = package

    def __getattr__(self, name: str) -> Callable:
        function = getattr(self.package, name)
        if name not in FUNCTIONS:
            return function

        def plain(*arguments, **options):
            options["fused"] = False
            if name not in OF_NORMS and options.get("rounding") in (None, "once"):
                options["rounding"] = "upcast"
            return function(*arguments, **options)

        return plain


def differences(seed: int, index: int, package, other=None) -> list[str]:
    """What differs between a call of the kernels and the same in plain PyTorch, in words."""
    import torch

    call = draw(seed, index)
    call["fused"], call["times"] = True, 1
    kept, performing.digest = performing.digest, lambda x: None if x is None else x.detach().clone()
    try:
        found = []
        for library in (package, other or PlainPyTorch(package)):
            torch.manual_seed(index)
            found.append(performing.perform(call, library, Maker(seed, index, "cpu")))
    finally:
        performing.digest = kept
    ours, plain = found
    if ours.keys() != plain.keys():
        return [f"{name}: one of the two" for name in ours.keys() ^ plain.keys()]
    hows = {name: difference(x, plain[name], call["dtype"]) for name, x in ours.items()}
    return [f"{name}: {how}" for name, how in hows.items() if how]


def difference(ours, plain, dtype: str) -> str:
    """How two values differ; '' if they don't."""
    import torch

    if not isinstance(ours, torch.Tensor):
        return "" if ours == plain else f"{ours!r}, and {plain!r}"
    if (ours.dtype, ours.shape) != (plain.dtype, plain.shape):
        return f"{ours.dtype} {tuple(ours.shape)}, and {plain.dtype} {tuple(plain.shape)}"
    if not ours.is_floating_point():
        return "" if torch.equal(ours, plain) else "other integers"
    finite = plain.isfinite()
    if not torch.equal(finite, ours.isfinite()):
        return "NaN or infinity in one of the two"
    x, y = ours[finite].double(), plain[finite].double()
    share = float((x - y).norm() / y.norm().clamp(min=1e-30)) if x.numel() else 0.0
    own = str(ours.dtype).removeprefix("torch.")
    allowed = max(ALLOWED[dtype], ALLOWED[own])
    return "" if share <= allowed else f"differs by {share:.2g} of its norm"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="only these calls")
    options = parser.parse_args()
    os.environ["TRITON_INTERPRET"] = "1"
    import rope_kernels

    indices, wrong = options.only or list(range(options.calls)), 0
    for index in indices:
        if found := differences(options.seed, index, rope_kernels):
            wrong += 1
            print(f"call {index}: {draw(options.seed, index)}")
            print("\n".join(f"    {line}" for line in found), flush=True)
    print(f"{wrong} differences in {len(indices)} calls")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
