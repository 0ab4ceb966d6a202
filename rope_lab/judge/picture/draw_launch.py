"""`lab.draw_launch`: which program stores which element, in one launch of a kernel of your own."""

from collections.abc import Callable

from torch import Tensor

from ...compiler.launches import Launch, launches_of
from ...interpreter import run_as_compiled
from ...run import tensors_in
from ...standalone import is_kernel
from ..verdict import HOW_TO_BEGIN, printable, raised
from .accesses import LanesOfAnAccess, accesses_of
from .drawing import Panel, draw_panels
from .sheet import HIGHEST, WIDEST, Sheet, offsets_of

MOST_PROGRAMS = 256


class NotDrawn(Exception):
    """Why a launch can't be drawn, as a sentence."""


def draw_launch(
    call: Callable,
    /,
    *arguments: object,
    of: str | None = None,
    loads: str | None = None,
    **options: object,
) -> None:
    """Draw which program stores which element of a tensor, in one launch of a kernel of your own.

    Pass what you would call, then the arguments of the call:

        lab.draw_launch(copy_kernel[(3,)], x, out, 10, BLOCK=4)  # copy_kernel[(3,)](x, ...)
        lab.draw_launch(my_rope, t, freqs, loads="t_ptr")  # my_rope(t, freqs)

    The picture has a cell for each element, with the number of the program that stores it. It marks
    elements that no program stores, elements that are stored more than once, and lanes that are
    masked off. The last dimension goes across, and the others go down.

    The launch runs in Triton's interpreter on copies, even on a machine with a GPU, so your tensors
    don't change. Output of its kernel is printed.

    Args:
        call: a function that launches one kernel, or `kernel[grid]`.
        arguments, options: the arguments of the call. Tensors may have up to 32 rows of up to 32
            columns each, and a vector up to 1024 elements. The grid may have up to 256 programs.
        of: the name of the kernel's argument to draw; in a tuple, `outs.1` or `outs.x`. By default,
            the tensor that it stores to.
        loads: the name of an argument whose loads are drawn, too.

    If the launch can't be drawn, it prints why: it is too large, out of bounds, not the only one,
    or raises an error. For a stub that raises `NotImplementedError`, it prints that it isn't done.

    Raises:
        ValueError: the kernel has no tensor argument with the name `of` or `loads`.
    """
    try:
        launch = _only_launch(call, arguments, options)
        tensors = _tensors_of(launch)
        for name in (of, loads):
            if name is not None and name not in tensors:
                raise ValueError(f"{name!r} is not a tensor of the launch; accepted: {[*tensors]}")
        panels, printed = _panels(launch, of, loads)
    except NotDrawn as refused:
        print(refused)
        return
    print(printable(printed), end="")
    draw_panels(panels, launch.kernel.fn.__name__)


def _only_launch(call: Callable, arguments: tuple, options: dict) -> Launch:
    if is_kernel(call):
        raise NotDrawn("Not drawn: a kernel needs its grid: lab.draw_launch(kernel[grid], ...)")
    launches: list[Launch] = []
    try:
        launches = launches_of(lambda: call(*arguments, **options))
    except NotImplementedError as stub:
        raise NotDrawn(f"NOT YET: {str(stub) or HOW_TO_BEGIN}") from None
    except Exception as error:  # whatever a reader's function may raise
        raise NotDrawn(f"Not drawn: it {raised(error)}") from error
    if len(launches) != 1:
        count = len(launches) or "no"
        words = "a picture has one: lab.draw_launch(kernel[grid], ...) draws it by itself"
        raise NotDrawn(f"Not drawn: there are {count} launches, and {words}")
    (launch,) = launches
    if launch.programs > MOST_PROGRAMS:
        words = f"{launch.programs} programs, and a picture has at most {MOST_PROGRAMS}"
        raise NotDrawn(f"Not drawn: the launch has {words}: draw it with smaller tensors")
    return launch


def _named(launch: Launch) -> dict[str, object]:
    """The arguments of a launch by name."""
    return {name: x for name, x in launch.named.items() if name in launch.kernel.arg_names}


def _tensors_of(launch: Launch) -> dict[str, Tensor]:
    """By name, as `outs.1` or `outs.x` where the argument is a tuple."""
    return dict(tensors_in(_named(launch)))


def _panels(launch: Launch, of: str | None, loads: str | None) -> tuple[list[Panel], str]:
    """What is to be drawn, and what the kernel printed."""
    tensors = _tensors_of(launch)
    for name in filter(None, (of, loads)):
        _refuse_large(name, tensors[name])
    found = _answer(launch)
    of_storages = [x.untyped_storage().data_ptr() for x in tensors.values()]
    storages = [*dict.fromkeys(of_storages)]
    numbers_of = {name: storages.index(at) for name, at in zip(tensors, of_storages, strict=True)}
    numbers = [",".join(map(str, at[: len(launch.grid)])) for at in found["programs"]]

    def panel(name: str, does: str) -> Panel:
        _refuse_large(name, tensors[name])
        sheet = Sheet(tensors[name], numbers_of[name], does)
        sheet.add(found["accesses"])
        return Panel(sheet, name, numbers)

    of = of or _stored_in(tensors, numbers_of, found["accesses"])
    panels = [panel(loads, "loads")] if loads else []
    return [*panels, panel(of, "stores")], found["printed"]


def _refuse_large(name: str, tensor: Tensor) -> None:
    columns = tensor.shape[-1] if tensor.dim() > 1 else WIDEST
    if tensor.numel() == 0:
        raise NotDrawn(f"Not drawn: {name} has no elements")
    if columns > WIDEST or tensor.numel() > HIGHEST * columns:
        words = f"and a picture has at most {HIGHEST} rows of {WIDEST} elements"
        shape = tuple(tensor.shape)
        raise NotDrawn(f"Not drawn: {name} has the shape {shape}, {words}: draw a smaller one")


def _answer(launch: Launch) -> dict:
    """What a launch loads and stores, on copies of its tensors."""
    run_as_compiled()
    found = accesses_of(launch.kernel, launch.grid, _named(launch))
    if "refused" in found:
        print(printable(found["printed"]), end="")
        raise NotDrawn(f"Not drawn: {found['refused']}")
    return found


def _stored_in(
    tensors: dict[str, Tensor], numbers_of: dict[str, int], accesses: list[LanesOfAnAccess]
) -> str:
    """The tensor that a kernel stores in; of two names for the same elements, the last."""
    stored: dict[int, set[int]] = {}
    for access in (access for access in accesses if access.does == "stores"):
        for storage, offset in zip(
            access.storage[access.wanted].tolist(),
            access.offset[access.wanted].tolist(),
            strict=True,
        ):
            stored.setdefault(storage, set()).add(offset)
    by_place = {}
    for name, tensor in tensors.items():
        own = set((offsets_of(tensor) * tensor.element_size()).reshape(-1).tolist())
        if own & stored.get(numbers_of[name], set()):
            by_place[tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()] = name
    names = [*by_place.values()]
    if len(names) == 1:
        return names[0]
    if not names:
        raise NotDrawn("Not drawn: no program stores in a tensor: name one, as of='out_ptr'")
    raise NotDrawn(f"Not drawn: it stores in {' and '.join(names)}: name one, as of={names[0]!r}")
