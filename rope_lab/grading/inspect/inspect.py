"""`lab.inspect`: what a kernel of your own does, on a GPU that you may not have."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from ...child import Ended, Worker
from ...compiler.compile import SM_OF
from ...profiling.traffic import count_eager_traffic
from ...shipment import CannotPassOn
from ...timing import measure
from ..climb.check_rung import last_line
from ..climb.launch import Launch, launches_of
from ..judge import SECONDS, shipped_call
from ..verdict import raised
from .code import code_of
from .inspection import Inspected, Inspection
from .limits import Work, gpu_of
from .watch import ACCESSES

_OFF = 0.01  # of what a straight line says: more is not linear


def inspect(
    function: Callable,
    reference: Callable,
    make: Callable[[int, str], Sequence],
    *,
    small: int,
    large: int,
    gpu: str = "sm_90",
    tolerance: tuple[float, float] | None = None,
) -> Inspection:
    """Is a kernel right, what does it ask for, and which limit binds on a GPU?

    Values, owners and races come from Triton's interpreter, at the sizes small, 2 small, 3 small.
    The launches at `large` are caught on tensors without memory and compiled for the GPU. Bytes
    are scaled along a straight line through the small sizes.

    Args:
        function: launches the kernels. It returns tensors, or overwrites inputs and returns none.
        reference: the same in plain PyTorch: it returns the results, or overwrites these inputs.
        make: make(size, device) gives the inputs of both. The device is 'cpu', 'meta' or 'cuda'.
        small: such a size for the interpreter: some programs, more than one, and a tail.
        large: the size whose time matters.
        gpu: an architecture, as 'sm_90', or a GPU's name in the records.
        tolerance: (relative, absolute) of fp32 and other results; by default one rounding.

    Raises:
        ValueError: a size is no positive integer, `large` is smaller than 3 small, or `gpu` or
            `tolerance` is of another kind.
    """
    _check(small, large, gpu, tolerance)
    sizes = [small, 2 * small, 3 * small]
    job = {"sizes": sizes, "tolerance": tolerance}
    try:
        for name, shipped in (("function", function), ("reference", reference), ("make", make)):
            job[name] = shipped_call(shipped)
    except CannotPassOn as refused:
        return Inspection(refused=str(refused))
    runs, refused = _runs(job)
    if refused:
        return Inspection(refused=refused)
    if run := next((run for run in runs if run["refused"]), None):
        where = f"at size {run['size']} " * (not run["unwritten"])
        return Inspection(refused=where + run["refused"])
    if wrong := next((run for run in runs if run["wrong"]), None):
        where = f"at size {wrong['size']}: {wrong['wrong']}"
        return Inspection(wrong=where, owner=wrong["owner"])
    about = {"sizes": sizes, "large": large, "atomics": runs[0]["atomics"]}
    try:
        call = partial(function, *_seeded(make, large, "meta"))
        launches: list = []
        eager = count_eager_traffic(lambda: launches.extend(launches_of(call)))
    except Exception as error:  # whatever a function does with a tensor that has no memory
        return Inspection(**about, refused=f"on tensors without memory it {raised(error)}")
    about |= {"eager": tuple(eager.kernels)}
    if refused := _unlike(runs, launches):
        return Inspection(**about, refused=refused)
    where = gpu_of(gpu)
    try:
        found = tuple(
            _inspected([run["counts"][k] for run in runs], launch, sizes, large, where.arch)
            for k, launch in enumerate(launches)
        )
    except (RuntimeError, TypeError, ValueError) as error:
        return Inspection(**about, refused=f"compiled for {where.arch}: {last_line(error)}")
    measured = _measured(function, make, large)
    return Inspection(**about, launches=found, gpu=where, measured_us=measured)


def _check(small: object, large: object, gpu: object, tolerance: object) -> None:
    if not (type(small) is int and small > 0 and type(large) is int and large >= 3 * small):
        raise ValueError(f"small={small!r}, large={large!r}; accepted: integers, large >= 3 small")
    if not (isinstance(gpu, str) and not gpu.startswith("gfx")):
        raise ValueError(f"gpu={gpu!r}; accepted: an NVIDIA GPU's, as 'sm_90', or a recorded name")
    if tolerance is not None:
        pair = isinstance(tolerance, tuple | list) and len(tolerance) == 2
        if not (pair and all(isinstance(x, int | float) for x in tolerance)):
            raise ValueError(f"tolerance={tolerance!r}; accepted: (relative, absolute)")


def _runs(job: dict) -> tuple[list[dict], str]:
    """What the child found at each size, or why it found nothing."""
    try:
        worker = Worker.kept("rope_lab.grading.inspect.inspect_process", "1")
        answer = worker.ask(job, SECONDS)
        return answer["runs"], answer["refused"]
    except Ended as ended:
        at = ended.at or "it"
        if ended.late:
            return [], f"{at} ran for {SECONDS:.0f} s in the interpreter: choose smaller sizes"
        last = ended.words.splitlines()[-1] if ended.words else ""
        return [], f"{at} ended the interpreter's process (exit {ended.code}) {last}".strip()


def _unlike(runs: list[dict], launches: list[Launch]) -> str:
    """Why the launches on the GPU can't be told from those in the interpreter; '' if they can."""
    if not launches:
        return "no kernel is launched"
    large = [launch.kernel.fn.__name__ for launch in launches]
    for run in runs:
        small = [counts["kernel"] for counts in run["counts"]]
        if empty := [one["kernel"] for one in run["counts"] if not one["programs"]]:
            return f"size {run['size']} launches {empty[0]} without programs"
        if small != large:
            words = f"size {run['size']} launches {', '.join(small) or 'no kernel'}; the large one"
            return f"{words} {', '.join(large)}: what can't be told from small sizes"
    return ""


def _inspected(
    counts: list[dict], launch: Launch, sizes: list[int], large: int, arch: str
) -> Inspected:
    """One launch: its counts at the small sizes, scaled, and its compiled code."""
    code = launch.compiled(arch)
    tensors, bent = {}, []
    names = dict.fromkeys(name for one in counts for name in one["tensors"])
    for name in names:
        scaled = {}
        for field in ACCESSES:
            values = [one["tensors"].get(name, {}).get(field, 0) for one in counts]
            scaled[field], straight = _scaled(sizes, values, large)
            bent += [] if straight else [name]
        tensors[name] = scaled
    evaluated = dict.fromkeys(name for one in counts for name in one["functions"])
    evaluations = {
        name: _by_program(
            [one["functions"].get(name, 0) for one in counts], counts, launch, sizes, large
        )
        for name in evaluated
    }
    flops = _by_program([one["flops"] for one in counts], counts, launch, sizes, large)
    bent += [name for name, (_, straight) in evaluations.items() if not straight]
    read = code_of(code)
    moved = sum(one["loaded_once"] + one["stored_once"] for one in tensors.values())
    loaded = sum(one["loaded"] for one in tensors.values()) / launch.programs
    work = Work(
        moved=moved,
        programs=launch.programs,
        warps=code.num_warps,
        instructions=read.instructions,
        in_flight=min(read.in_flight, loaded),  # lanes may hold the same element
        resident=code.programs_at_a_time if code.gpu in SM_OF else 0,
    )
    return Inspected(
        kernel=code.kernel,
        programs=launch.programs,
        tensors=tensors,
        bent=tuple(dict.fromkeys(bent)),
        functions={name: count for name, (count, _) in evaluations.items()},
        flops=flops[0],
        code=read,
        work=work,
    )


def _by_program(
    values: list[float], counts: list[dict], launch: Launch, sizes: list[int], large: int
) -> tuple[float, bool]:
    """A count at the large size: as many a program as at small ones, or along a straight line."""
    each = [value / one["programs"] for value, one in zip(values, counts, strict=True)]
    if len(set(each)) == 1:
        return each[0] * launch.programs, True
    return _scaled(sizes, values, large)


def _scaled(sizes: list[int], values: list[float], large: int) -> tuple[float, bool]:
    """A count at the large size, by the line through the first and the last; is it straight?"""
    (first, middle, last), (low, mid, high) = sizes, values
    slope = (high - low) / (last - first)
    expected = low + slope * (middle - first)
    straight = abs(mid - expected) <= _OFF * max(abs(high), 1)
    at_large = low + slope * (large - first)
    return max(at_large, 0.0), straight and at_large >= 0


def _seeded(make: Callable, size: int, device: str) -> Sequence:
    torch.manual_seed(0)
    return make(size, device)


def _measured(function: Callable, make: Callable, large: int) -> float | None:
    """Microseconds on the GPU that is here; None without one, or where kernels are interpreted."""
    if not torch.cuda.is_available():
        return None
    try:
        inputs = _seeded(make, large, "cuda")
        return measure({"yours": partial(function, *inputs)})["yours"].median_us
    except RuntimeError:
        return None
