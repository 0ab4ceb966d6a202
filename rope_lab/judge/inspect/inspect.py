"""`lab.inspect`: what a kernel of your own does, on a GPU that you may not have."""

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch

from ...compiler.launch_limits import NotLaunched, Refused
from ...compiler.launches import Launch
from ...compiler.listings import NoCompiler
from ...interpreter import run_as_compiled
from ...run import Now, tensors_in
from ...standalone import refusal_of_a_candidate
from ...timing import measure
from ..guests import settled
from ..refusals import does_not_compile, refusal_of
from ..rehearsal import Rehearsal, mixes_devices, rehearsed
from ..spec import Spec
from ..verdict import raised
from .inspection import SECTORS, Inspected, Inspection
from .limits import CHANGES, gpu_of
from .small_sizes import Given, found_at
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
        reference: does the same in plain PyTorch. An exercise's, a `Spec`, also says how many
            launches it allows.
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
    asked = reference if isinstance(reference, Spec) else None
    given = Given(function, asked.function if asked else reference, make, tolerance)
    found = _found(sizes, large, given)
    at_small_sizes = found.pop("launches")
    if "counts" not in found:
        return Inspection(**found)
    counts = found["counts"]  # of each size, those of each launch
    about = {"sizes": sizes, "large": large, "wanted": wanted, "atomics": found["atomics"]}
    about |= {"locks": found["locks"], "unchecked": found.get("unchecked", "")}

    def refused_at_small_sizes() -> str:
        """What the compiler refuses, as of a tuner's other configurations."""
        with contextlib.suppress(OSError):
            if refusal := refusal_of(at_small_sizes):
                return f"on a GPU: {refusal}"
        return ""

    try:
        rehearsal = _rehearsed(function, make, large)
        about |= {"eager": tuple(rehearsal.eager.kernels)}
        stop = _what_stops(rehearsal, asked, dict(zip(sizes, counts, strict=True)))
    except Exception as error:  # whatever a function does with a tensor that has no memory
        stop = {"refused": f"on tensors without memory it {raised(error)}"}
        if isinstance(error, NotLaunched) or mixes_devices(error):
            stop = {"wrong": f"on a GPU: at size {large} it {raised(error)}"}
    if stop:
        return Inspection(**about, **{"wrong": refused_at_small_sizes()} | stop)
    launches = rehearsal.launches
    try:
        inspected = tuple(
            _inspected([*of_launch], launch, small, large, where.arch)
            for *of_launch, launch in zip(*counts, launches, strict=True)
        )
    except Refused as error:
        return Inspection(**about, **_not_compiled(error, launches, where.arch))
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        return Inspection(**about, refused=f"compiled for {where.arch}, it {raised(error)}")
    if any(launch.configuration for launch in launches) and (wrong := refused_at_small_sizes()):
        return Inspection(**about, wrong=wrong)
    us = None
    # an offset that leaves its tensor would end all CUDA calls of this notebook
    if Now.device == "cuda" and not about["unchecked"]:
        us = _measured(function, make, large, launches)
    return Inspection(**about, launches=inspected, gpu=where, measured_us=us)


def _check(small: object, large: object, gpu: object, tolerance: object, wanted: object) -> None:
    if not (type(small) is int and small > 0 and type(large) is int and large >= 3 * small):
        raise ValueError(f"small={small!r}, large={large!r}; accepted: integers, large >= 3 small")
    if not (isinstance(gpu, str) and re.fullmatch(r"sm_\d+", gpu_of(gpu).arch)):
        raise ValueError(f"gpu={gpu!r}; accepted: an NVIDIA GPU's, as 'sm_90', or a recorded name")
    if isinstance(tolerance, int | float):
        raise ValueError(f"tolerance={tolerance!r}; accepted: (relative, absolute)")
    if wanted and wanted not in CHANGES:
        raise ValueError(f"wanted={wanted!r}; accepted: {', '.join(CHANGES)}")


def _found(sizes: list[int], large: int, given: Given) -> dict:
    """What `found_at` finds; or why it is `refused`, and no `launches`."""
    functions = {"function": given.function, "reference": given.reference, "make": given.make}
    refused = (refusal_of_a_candidate(value, name) for name, value in functions.items())
    if words := next(filter(None, refused), ""):
        return {"refused": words, "launches": []}
    run_as_compiled()
    try:
        with settled():
            return found_at(sizes, large, given)
    except (OSError, MemoryError) as error:
        return {"refused": f"this machine stopped it: {raised(error)}", "launches": []}


def _rehearsed(function: Callable, make: Callable, large: int) -> Rehearsal:
    """The launches at the large size, and PyTorch's own kernels.

    Tensors claim to be on a GPU, because a launcher may check that; if that fails, on 'meta'.
    """

    def inputs(device: str) -> Sequence:
        return _seeded(make, large, device)

    with contextlib.suppress(Exception):
        found = rehearsed(function, inputs, "cuda")
        if found.launches:
            return found
    return rehearsed(function, inputs, "meta")


def _what_stops(
    rehearsal: Rehearsal, asked: Spec | None, counts: dict[int, list[Counts]]
) -> dict[str, str]:
    """Why no time is predicted: what is `wrong` with the launches at the large size, or `refused`.

    Empty if nothing is. `counts`: of each size, those of each launch.
    """
    launches = rehearsal.launches
    if rehearsal.misplaced:
        return {"wrong": f"on a GPU: {rehearsal.misplaced}"}
    if not launches:
        return {"refused": "no kernel is launched"}
    if asked and asked.launches is not None and len(launches) > asked.launches:
        words = f"{len(launches)}, where {asked.launches} would do"
        return {"wrong": f"against the exercise: too many launches: {words}"}
    if asked and asked.kernel and rehearsal.work:
        words = f"PyTorch runs {', '.join(rehearsal.work)}; let the kernel do it"
        return {"wrong": f"against the exercise: {words}"}
    at_large = [launch.name for launch in launches]
    for size, of_size in counts.items():
        kernels = [one.kernel for one in of_size]
        if kernels != at_large:
            words = f"size {size} launches {', '.join(kernels) or 'no kernel'}, the large one"
            return {"refused": f"{words} {', '.join(at_large)}, so small sizes can't predict it"}
    return {}


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
        is_bent = found < 0 or abs(middle - (first + last) / 2) > _OFF * max(last, 1)
        if is_bent and name.removeprefix(SECTORS) not in bent:
            bent.append(name)
        return max(found, 0.0)

    def named(found: Iterable[Iterable[str]]) -> list[str]:
        return [*dict.fromkeys(name for names in found for name in names)]

    tensors = {
        name: {
            access: at_large(
                SECTORS + name if access == "sectors" else name,
                [one.tensors[name][access] for one in counts],
                by_program=False,
            )
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
    if any(launch.configuration for launch in launches) and error.passes_over:
        return {"refused": f"{words}; a tuner takes another configuration"}
    return {"wrong": f"on a GPU: {words}"}


def _seeded(make: Callable, size: int, device: str) -> Sequence:
    torch.manual_seed(0)
    return make(size, device)


def _measured(
    function: Callable, make: Callable, large: int, launches: list[Launch]
) -> float | None:
    """Microseconds on this machine's GPU; None if measuring fails."""
    from ...compiler.compile_here import forget_compiled

    for launch in launches:
        forget_compiled(launch.kernel)
    try:
        call = partial(function, *_seeded(make, large, "cuda"))
        return measure({"yours": call})["yours"].median_us
    except Exception:  # too little memory, or another GPU than the one that was asked about
        torch.cuda.synchronize()  # raises an error after which no CUDA call works
        return None
