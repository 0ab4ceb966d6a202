"""Make random calls, and compare two checkouts bit for bit, or the kernels with plain PyTorch.

    python tools/compare_results.py OLD NEW --calls 2000 --jobs 2
    python tools/compare_results.py OLD NEW --calls 500 --device cuda
    python tools/compare_results.py CHECKOUT --calls 100                  # with plain PyTorch

On the CPU the kernels run in Triton's interpreter. Three calls in ten normalize and rotate, the
others rotate. Some go backward, some twice, some are refused. `calls/` draws and makes them, from
the public API alone. A call depends on the seed and its number: `--only 17 42` repeats two.

Of two checkouts are compared: outputs, gradients, memory that a call overwrote (and all that it
must not overwrite), shapes, strides, dtypes, the types of exceptions, and in the interpreter how
many kernels were launched. NaNs are equal to each other.

Plain PyTorch is the same call with `fused=False`, which rounds once where the kernel does. Values
may differ by a few roundings; types of errors, dtypes and shapes may not.

Exit status: 0 no difference, 1 differences, 2 a process died.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from calls.call import OF_NORMS
from calls.draw import FUNCTIONS, draw
from calls.make import Maker
from calls.perform import digest, perform
from two_checkouts import Checkout, parser_of

# norm of the difference over the norm, by the dtype of a call; the interpreter truncates to bf16
ALLOWED = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 2e-5, "float64": 1e-11}

# --- in the process of a checkout ----------------------------------------------------------------


def answer(question: dict) -> dict | list:
    """What a call did; or how it differs from plain PyTorch, in words."""
    import torch

    import rope_kernels

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    seed, index, device = (question[name] for name in ("seed", "index", "device"))
    if question["with_pytorch"]:
        return differences_from_pytorch(seed, index, device, rope_kernels)
    call = draw(seed, index)
    if device == "cuda":
        call.times = 3  # the second may take the fast path
    torch.manual_seed(index)
    with counted_launches() as launches:
        results = perform(call, rope_kernels, Maker(seed, index, device), digest)
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


# --- the process that asks -----------------------------------------------------------------------


def main() -> int:
    options = _options()
    indices = options.only or list(range(options.calls))
    found = {}
    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            for share in pool.map(lambda i: dict(compared(options, i)), _shares(options, indices)):
                found |= share
    except RuntimeError as died:
        print(died, file=sys.stderr)
        return 2
    different = [index for index in indices if found[index][0]]
    for index in different:
        print(f"call {index}:")
        print("\n".join(f"    {line}" for line in draw(options.seed, index).in_words()))
        print("\n".join(f"  differs: {line}" for line in found[index][0]))
    if options.new is not None:
        print(summary([results for _, results in found.values()]))
    print(f"{len(different)} differences in {len(indices)} calls")
    return int(bool(different))


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__, new_is_optional=True)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="calls at a time (default: 2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="only these calls")
    return parser.parse_args()


def _shares(options: argparse.Namespace, indices: list[int]) -> list[list[int]]:
    shares = [indices[start :: options.jobs] for start in range(options.jobs)]
    return [share for share in shares if share]


def compared(
    options: argparse.Namespace, indices: list[int]
) -> Iterator[tuple[int, tuple[list[str], dict]]]:
    """Each call's number, its differences in words, and what the first checkout answered."""
    question = {"seed": options.seed, "device": options.device}
    question["with_pytorch"] = options.new is None
    folders = [options.old] if options.new is None else [options.old, options.new]
    interpret = options.device == "cpu"
    with ExitStack() as stack:
        checkouts = [
            stack.enter_context(Checkout(folder, "compare_results", interpret))
            for folder in folders
        ]
        for index in indices:
            answers = [checkout.ask(index=index, **question) for checkout in checkouts]
            if len(answers) == 1:
                yield index, (answers[0], {})
            else:
                old, new = answers
                changed = [x for x in old | new if old.get(x) != new.get(x)]
                words = [f"{x}: old {old.get(x)}, new {new.get(x)}" for x in changed]
                yield index, (words, old)


def summary(results: list[dict]) -> str:
    """So that a run that compared nothing but errors is seen."""
    raised = sum(any(name.endswith("error") for name in result) for result in results)
    launched = sum(bool(result.get("launches")) for result in results)
    return f"{raised} calls raised an error, {launched} launched a kernel"


if __name__ == "__main__":
    sys.exit(main())
