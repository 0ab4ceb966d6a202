"""`lab.inspect`: what a kernel of your own does, on a GPU that you may not have."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from unittest.mock import patch

import torch
from torch._subclasses import fake_tensor

from rope_kernels.modes import interpreter_is_on

from ...child import Ended, Worker
from ...compiler.compile import Refused
from ...compiler.launches import Launch, launches_of
from ...compiler.listings import NoCompiler
from ...profiling.traffic import Traffic, count_eager_traffic
from ...shipment import CannotPassOn, Shipped
from ..check_exercise import CHILD, SECONDS
from ..hooks import tensors_in
from ..refusals import does_not_compile, refusal_of
from ..verdict import raised
from .inspection import Inspected, Inspection
from .limits import CHANGES, gpu_of
from .small_sizes import Inspect
from .watch import ACCESSES, Counts

_OFF = 0.01  # relative difference from a straight line; above this, it is not linear


def inspect(
    function: Callable,
    reference: Callable,
    make: Callable[[int, str], Sequence],
    *,
    small: int,
    large: int,
    gpu: str = "sm_90",
    tolerance: tuple[float, float] | None = None,
    wanted: str = "",
) -> Inspection:
    """Check a kernel against PyTorch, and predict what limits its time on a GPU.

    Results and races, and which program stores what, are checked in Triton's interpreter at the
    sizes small, 2 small, 3 small. Launches at `large` are compiled, not run. Their bytes are
    extrapolated linearly; bytes needed once are capped at the tensor's size.

    Args:
        function: launches the kernels. It returns tensors, or overwrites inputs.
        reference: does the same in plain PyTorch.
        make: make(size, device) returns the inputs of both. The device is 'cpu', 'meta' or 'cuda'.
        small: a size for the interpreter, with several programs, the last of them partly masked.
        large: the size to predict.
        gpu: an architecture, such as 'sm_90', or the name of a recorded GPU.
        tolerance: (relative, absolute) error that is accepted; by default one rounding.
        wanted: what should limit the kernel: 'memory', 'instructions', 'starts' or 'latency'. The
            verdict is NOT YET, and says what limits it, if something else does.

    Raises:
        ValueError: a size is not a positive integer, `large` is smaller than 3 small, or `gpu`,
            `tolerance` or `wanted` is not one of the values above.
    """
    _check(small, large, gpu, tolerance, wanted)
    sizes = [small, 2 * small, 3 * small]
    where = gpu_of(gpu)
    try:
        job = Inspect(
            function=Shipped.of(function, "function"),
            reference=Shipped.of(reference, "reference"),
            make=Shipped.of(make, "make"),
            sizes=sizes,
            large=large,
            tolerance=tolerance,
        )
    except CannotPassOn as refused:
        return Inspection(refused=str(refused))
    found = _found_by_the_child(job)
    at_small_sizes = found.pop("launches", ())
    if "counts" not in found:
        return Inspection(**found)
    counts = found["counts"]  # of each size, those of each launch
    about = {"sizes": sizes, "large": large, "wanted": wanted, "atomics": found["atomics"]}
    about |= {"locks": found["locks"], "unchecked": found.get("unchecked", "")}

    def stopped(why: str) -> Inspection:
        """No launch at the large size is known; the compiler may still refuse the small ones."""
        refusal = refusal_of(at_small_sizes)
        return Inspection(**about, refused=why, wrong=refusal and f"on a GPU: {refusal}")

    try:
        launches, eager = _launched(function, make, large)
    except Exception as error:  # whatever a function does with a tensor that has no memory
        return stopped(f"on tensors without memory it {raised(error)}")
    about |= {"eager": tuple(eager.kernels)}
    at_large = [launch.kernel.fn.__name__ for launch in launches]
    if not launches:
        return stopped("no kernel is launched")
    for size, of_size in zip(sizes, counts, strict=True):
        kernels = [one.kernel for one in of_size]
        if kernels != at_large:
            words = f"size {size} launches {', '.join(kernels) or 'no kernel'}, the large one"
            words += f" {', '.join(at_large)}, so small sizes can't predict it"
            return stopped(words)
    try:
        inspected = tuple(
            _inspected([*of_launch], launch, small, large, where.arch)
            for *of_launch, launch in zip(*counts, launches, strict=True)
        )
    except Refused as error:
        return Inspection(**about, **_not_compiled(error, launches, where.arch))
    except (RuntimeError, TypeError, ValueError) as error:
        return Inspection(**about, refused=f"compiled for {where.arch}, it {raised(error)}")
    return Inspection(**about, launches=inspected, gpu=where, measured_us=_measured(job))


def _check(small: object, large: object, gpu: object, tolerance: object, wanted: object) -> None:
    if not (type(small) is int and small > 0 and type(large) is int and large >= 3 * small):
        raise ValueError(f"small={small!r}, large={large!r}; accepted: integers, large >= 3 small")
    if not (isinstance(gpu, str) and re.fullmatch(r"sm_\d+", gpu_of(gpu).arch)):
        raise ValueError(f"gpu={gpu!r}; accepted: an NVIDIA GPU's, as 'sm_90', or a recorded name")
    if isinstance(tolerance, int | float):
        raise ValueError(f"tolerance={tolerance!r}; accepted: (relative, absolute)")
    if wanted and wanted not in CHANGES:
        raise ValueError(f"wanted={wanted!r}; accepted: {', '.join(CHANGES)}")


def _found_by_the_child(job: Inspect) -> dict:
    try:
        return Worker.kept(CHILD, "1").ask(job, SECONDS)
    except Ended as ended:
        at = ended.at or "it"
        if ended.late:
            words = f"{at} ran for {SECONDS:.0f} s in the interpreter: choose smaller sizes; "
            words += "a program that waits for a later one never ends there"
            return {"refused": words}
        last = ended.words.splitlines()[-1] if ended.words else ""
        words = f"{at} ended the interpreter's process (exit {ended.code}) {last}"
        return {"refused": words.strip()}


def _launched(function: Callable, make: Callable, large: int) -> tuple[list[Launch], Traffic]:
    """The launches at the large size, and PyTorch's own kernels.

    Tensors claim to be on a GPU, because a launcher may check that; if that fails, on 'meta'.
    """

    def on(device: str) -> tuple[list[Launch], Traffic]:
        call = partial(function, *_seeded(make, large, device))
        launches: list[Launch] = []
        return launches, count_eager_traffic(lambda: launches.extend(launches_of(call)))

    with contextlib.suppress(Exception), _on_a_gpu_without_memory():
        found = on("cuda")
        if found[0]:
            return found
    return on("meta")


@contextlib.contextmanager
def _on_a_gpu_without_memory() -> Iterator[None]:
    """Make tensors on a GPU that have no memory: they only claim to be there."""
    with fake_tensor.FakeTensorMode(), contextlib.ExitStack() as stack:
        if not torch.cuda.is_available():
            stack.enter_context(patch.object(torch.cuda, "is_available", lambda: True))
            stack.enter_context(patch.object(fake_tensor, "init_gpu_context", lambda device: None))
        yield


def _inspected(
    counts: list[Counts], launch: Launch, small: int, large: int, arch: str
) -> Inspected:
    """One launch: its counts at the sizes small, 2 small, 3 small, scaled; and its code."""
    bent = []

    def along_a_line(values: Sequence[float]) -> float:
        first, _, last = values
        return first + (last - first) / 2 * (large - small) / small

    def at_large(name: str, values: list[float], by_program: bool = True) -> float:
        """A count at the large size: the same per program as at each small one, or linear."""
        programs = [one.programs or 1 for one in counts]
        each = {value / count for value, count in zip(values, programs, strict=True)}
        # as many programs as SMs share out what there is, once there is more than that
        are_all_of_a_size = 2 * launch.programs > along_a_line(programs)
        if by_program and len(each) == 1 and are_all_of_a_size:
            return each.pop() * launch.programs
        first, middle, last = values
        found = along_a_line(values)
        if found < 0 or abs(middle - (first + last) / 2) > _OFF * max(last, 1):
            bent.append(name)
        return max(found, 0.0)

    def named(found: Iterable[Iterable[str]]) -> list[str]:
        return [*dict.fromkeys(name for names in found for name in names)]

    tensors = {
        name: {
            access: at_large(name, [one.tensors[name][access] for one in counts], False)
            for access in ACCESSES
        }
        for name in named(one.tensors for one in counts)
    }
    # Few ids hardly repeat, so along a line each chooses new bytes; a tensor has no more than these
    for name, tensor in tensors_in(launch.named):
        for access in ("loaded_once", "stored_once"):
            if name in tensors:
                nbytes = tensor.untyped_storage().nbytes()
                tensors[name][access] = min(tensors[name][access], nbytes)
    functions = {
        name: at_large(name, [one.functions[name] for one in counts])
        for name in named(one.functions for one in counts)
    }
    flops = at_large("tl.dot", [one.flops for one in counts])
    try:
        compiled = launch.compiled(arch)
    except NoCompiler:
        compiled = None
    return Inspected(
        kernel=launch.kernel.fn.__name__,
        num_warps=launch.num_warps,
        compiled=compiled,
        programs=launch.programs,
        tensors=tensors,
        functions=functions,
        flops=flops,
        bent=tuple(dict.fromkeys(bent)),
        configuration=launch.configuration,
        adds=any(one.adds for one in counts),
    )


def _not_compiled(error: Refused, launches: list[Launch], arch: str) -> dict[str, str]:
    """What is wrong; a tuner passes over a configuration that is too large for a GPU."""
    words = does_not_compile(error, arch)
    if any(launch.configuration for launch in launches) and "out of resource" in words:
        return {"refused": f"{words}; a tuner takes another configuration"}
    return {"wrong": f"on a GPU: {words}"}


def _seeded(make: Callable, size: int, device: str) -> Sequence:
    torch.manual_seed(0)
    return make(size, device)


def _measured(job: Inspect) -> float | None:
    """Microseconds on this machine's GPU.

    None without one, where kernels are interpreted, or if measuring fails.
    """
    if not torch.cuda.is_available() or interpreter_is_on():
        return None
    try:
        return Worker.kept("rope_lab.judge.inspect.measure_process", "0").ask(job, SECONDS)["us"]
    except Ended:
        return None
