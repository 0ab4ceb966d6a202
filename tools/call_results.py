"""Make random calls, and print what each did, a line a result; `diff` compares two checkouts.

    PYTHONPATH=../before python tools/call_results.py --calls 2000 > before.txt
    PYTHONPATH=. python tools/call_results.py --calls 2000 > after.txt
    diff before.txt after.txt
    python tools/call_results.py --calls 100 --with-pytorch     # with plain PyTorch instead

On the CPU the kernels run in Triton's interpreter; `--device cuda` compiles them. One call in four
normalizes and rotates, one in five splits a projection or writes into a cache, the others rotate.
Some go backward, some rotations twice, some are refused.
`calls/` draws and makes them, from the public API alone. A call depends on the seed and its number:
`--only 17 42` repeats two, and says what they are.

Printed are digests of outputs, gradients, memory that a call overwrote (and all that it must not
overwrite), with shapes, strides and dtypes; the types of exceptions, and in the interpreter how
many kernels were launched. NaNs are equal to each other.

Plain PyTorch is the same call with `fused=False`, which rounds once where the kernel does. Values
may differ by a few roundings; types of errors, dtypes and shapes may not. Exit status: 1 if any
call differs.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from calls.call import OF_NORMS
from calls.draw import FUNCTIONS, draw
from calls.make import Maker
from calls.perform import digest, perform

# norm of the difference over the norm, by the dtype of a call; the interpreter truncates to bf16
ALLOWED = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 2e-5, "float64": 1e-11}


def results_of(seed: int, index: int, device: str, package) -> dict:
    """What a call did, by name."""
    import torch

    call = draw(seed, index)
    if device == "cuda":
        call.times = 3  # the second is launched by a handle
    torch.manual_seed(index)
    with counted_launches() as launches:
        results = perform(call, package, Maker(seed, index, device), digest)
    return results | ({"launches": len(launches)} if device == "cpu" else {})


@contextmanager
def counted_launches() -> Iterator[list]:
    """Notes what the interpreter launches; on a GPU, where launches are hidden, nothing."""
    from triton.runtime.interpreter import GridExecutor

    launches, launch = [], GridExecutor.__call__

    def counted(executor, *arguments, **options):
        launches.append(executor)
        return launch(executor, *arguments, **options)

    GridExecutor.__call__ = counted
    try:
        yield launches
    finally:
        GridExecutor.__call__ = launch


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


def differences_from_pytorch(seed: int, index: int, device: str, package, other=None) -> list[str]:
    """What differs between a call of the kernels and the same in plain PyTorch, in words."""
    import torch

    call = draw(seed, index)
    call.fused, call.times = True, 1
    found = []
    for library in (package, other or PlainPyTorch(package)):
        torch.manual_seed(index)
        maker = Maker(seed, index, device)
        found.append(perform(call, library, maker, _copied))
    ours, plain = found
    if ours.keys() != plain.keys():
        return [f"{name}: one of the two" for name in ours.keys() ^ plain.keys()]
    hows = {name: difference(x, plain[name], call.dtype) for name, x in ours.items()}
    return [f"{name}: {how}" for name, how in hows.items() if how]


def _copied(x):
    return None if x is None else x.detach().clone()


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
    options = _options()
    if options.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is loaded
    import torch

    import rope_kernels

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    different = 0
    for index in options.only or range(options.calls):
        call = options.seed, index, options.device, rope_kernels
        if options.with_pytorch:
            lines = differences_from_pytorch(*call)
            different += bool(lines)
        else:
            lines = [f"{name}: {result}" for name, result in results_of(*call).items()]
        if options.only or (options.with_pytorch and lines):
            lines = [*draw(options.seed, index).in_words(), *lines]
        for line in lines:
            print(f"call {index} | {line}", flush=True)
    if options.with_pytorch:
        print(f"{different} calls differ")
    return int(bool(different))


def _options() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="only these calls")
    parser.add_argument("--with-pytorch", action="store_true", help="print what differs from it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
