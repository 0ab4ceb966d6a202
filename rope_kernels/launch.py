"""From tensors to the kernel's arguments, and what is remembered of a launch.

Calls that look alike, in all but elements and addresses, are checked and planned once: `known_of`
finds what is remembered of them, a `Known`. The first call goes through Triton's JIT, which looks
at every argument, and returns the compiled kernel. The next ones launch that: `compiled[grid](...)`
takes a fraction of the time.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from threading import Lock
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter

from .arguments import Constants, Tensors, WideConstants
from .modes import (
    interpreter_is_on,
    is_compiled_for_nvidia,
    is_eager,
    is_watched,
    stream_of,
    unwatched,
)
from .rotation import Options, Rotation, view_as_sbhd
from .tiles import (
    MOST_EMPTY,
    Case,
    Tile,
    WideTile,
    cdiv,
    choose_cache_tile,
    choose_tile,
    order_of_programs,
)

Views = dict[str, Tensor]  # each (s, b, h, d)
Named = dict[str, Tensor | None]
Strides = tuple[int, ...]
X = TypeVar("X")
# What is read and written, by the names of `Tensors` and of the norms' tensors.
ROWS = "q", "k", "v", "q_grad", "k_grad", "q_out", "k_out", "v_out"

# Triton's interpreter keeps the grid of a launch in globals, which threads would share.
_INTERPRETING = Lock()

# What is remembered


@dataclass(slots=True, eq=False)
class Known:
    """What is remembered of calls that look alike."""

    options: Options | None = None  # the rotation's; there if `check_call` has passed
    is_checked: bool = False  # whether what a room checks besides has passed, too
    launch: Callable[..., None] | None = None  # the compiled kernel, with its grid
    arguments: tuple[object, ...] = ()  # the kernel's last ones, which are equal in all these calls


# Without `typed`, True, 1 and 1.0 would be one signature, and a check accepts one of the three. It
# doesn't look into a tuple, so one that has not been checked comes field by field.
@lru_cache(4096, typed=True)
def known_by(*signature: object) -> Known:
    """What is remembered of calls with this signature."""
    return Known()


def known_of(
    shared: Sequence[object], first_position: int | None, *options: object
) -> Known | None:
    """What is remembered of eager calls that look like this one.

    Args:
        shared: the tensors of the call, of which shapes, strides, dtypes, devices and alignment
            count; None where one isn't there; and options between them.
        first_position: of which its width alone counts: a kernel takes the number from each call.
        options: all others.

    Returns:
        None for what has no signature: a tensor of another class, or what can't be hashed.
    """
    width = 0 if first_position is None else _width_of(first_position)
    signature = [len(shared), width, *options]
    try:
        for x in shared:  # Every call comes here, and a function or a generator is slower.
            # Subclasses may behave differently with equal shapes, so they have no signature.
            if type(x) is Tensor or type(x) is Parameter:
                address = x.data_ptr()
                rest = address % 16 if address else None  # None: a kernel must not read it
                looks = x.shape, x.stride(), x.dtype, x.device, rest, x.is_neg()
                signature.append(looks)
            elif x is None or not isinstance(x, Tensor):
                signature.append(x)
            else:
                return None
        return known_by(*signature)
    except (RuntimeError, TypeError):  # A tensor has no strides or memory; or this isn't hashable.
        return None


def known_of_rotation(
    shared: Sequence[object], rotation: Rotation, *options: object
) -> Known | None:
    """The same where the rotation is complete already: of gradients, and in operators.

    None, too, for a call that isn't eager.
    """
    if not is_eager():
        return None
    signature = rotation.transpose, rotation.options, *options
    return known_of((*shared, *rotation.tensors), rotation.first_position, *signature)


def _width_of(number: int) -> int:
    """Bits of the integer that Triton compiles a kernel for."""
    return 32 if -(2**31) <= number < 2**31 else 64


def forget() -> None:
    """Forget all calls."""
    known_by.cache_clear()


# Launches


class Compiled(Protocol):
    """What Triton returns of a launch by its JIT, or None from the interpreter."""

    def __getitem__(self, grid: tuple[int, int, int], /) -> Callable[..., None]: ...


class Kernel(Protocol):
    """A function that `triton.jit` has taken."""

    __name__: str
    arg_names: list[str]

    def __getitem__(self, grid: tuple[int], /) -> Callable[..., Compiled | None]: ...


class Launch(NamedTuple):
    """What a kernel is launched with."""

    kernel: str  # "module.function" in this package
    tensors: tuple[Tensor | None, ...]  # its first argument, a named tuple
    programs: int
    arguments: dict[str, object]  # all others, by name
    compiler: dict[str, object]  # its options


def q_and_k(items: Sequence[X]) -> tuple[X, X | None]:
    """What belongs to q, and what belongs to k. Of one item the second is None: there is no k."""
    return (items[0], items[1]) if len(items) == 2 else (items[0], None)


def has_elements(tensors: Sequence[Tensor | None]) -> bool:
    """Whether a launch has anything to do: one of several tensors may be empty."""
    return any([x is not None and x.numel() for x in tensors])


def run(
    known: Known | None,
    given: Sequence[Tensor | None],
    make_launch: Callable[[], Launch | None],
    first_position: tuple[int | None] | tuple[()] = (),
) -> None:
    """Launch what is remembered of a call, or what `make_launch` finds.

    Args:
        known: what `known_of` has found for the call.
        given: the kernel's tensors as they came, all on the first one's device.
        make_launch: makes it, with tensors as the kernel reads them, some of them copies. None:
            there is nothing to do.
        first_position: what follows the tensors and differs between calls that look alike, if the
            kernel has it.
    """
    t = given[0]
    assert t is not None, "what is read comes first"
    device = t.get_device()  # -1: a CPU
    if t.is_cuda and device != torch.cuda.current_device():
        with torch.cuda.device(device):  # Triton launches on the current device.
            run(known, given, make_launch, first_position)
        return
    addresses = tuple([None if x is None else x.data_ptr() for x in given])
    if known is not None and known.launch is not None:
        # Without a stream Triton asks for the device and then for its stream, in four times the
        # time that this takes.
        stream = None if device < 0 else stream_of(device)
        known.launch(addresses, *first_position, *known.arguments, stream=stream)
        return
    # Modes should see the same here as in later calls, which plan nothing.
    with unwatched() if is_watched() else nullcontext():
        _run_first(known, addresses, make_launch, first_position)


def _run_first(
    known: Known | None,
    addresses: tuple[int | None, ...],
    make_launch: Callable[[], Launch | None],
    first_position: tuple[int | None] | tuple[()],
) -> None:
    """Launch through Triton's JIT, and remember the compiled kernel."""
    launch = make_launch()
    if launch is None:
        return
    kernel = kernel_of(launch.kernel)
    values = in_order(launch.arguments, kernel.arg_names[1:], kernel.__name__)
    with _INTERPRETING if interpreter_is_on() else nullcontext():
        compiled = kernel[(launch.programs,)](launch.tensors, *values, **launch.compiler)
    # A launch that read a copy is not remembered: later calls launch with the tensors that came.
    copied = addresses != tuple([None if x is None else x.data_ptr() for x in launch.tensors])
    if known is not None and compiled is not None and not copied:
        # Another thread may launch as soon as it sees `launch`, so the arguments are there first.
        known.arguments = values[len(first_position) :]
        known.launch = compiled[(launch.programs, 1, 1)]


def in_order(arguments: dict[str, object], names: Sequence[str], kernel: str) -> tuple[object, ...]:
    """The arguments of a kernel by position.

    None is a kernel's word for what is not there. So a name that is misspelt or forgotten would
    launch another map, silently: it raises `TypeError`.
    """
    unknown, missing = arguments.keys() - set(names), set(names) - arguments.keys()
    if unknown or missing:
        faults = f"it has no {sorted(unknown)}, and {sorted(missing)} were not planned"
        raise TypeError(f"{kernel} is planned with other arguments than it takes: {faults}")
    return tuple(map(arguments.__getitem__, names))


def kernel_of(name: str) -> Kernel:
    """The Triton kernel of that name, "module.function" in this package.

    The first launch loads Triton, not `import rope_kernels`.
    """
    module, _, function = name.rpartition(".")
    kernel: Kernel = getattr(import_module(f".{module}", __package__), function)
    return kernel


# Plans


class Plan(NamedTuple):
    """What all kernels share of a launch."""

    tile: Tile | WideTile
    programs: int
    tensors: Named  # as kernels read them
    arguments: dict[str, object]  # those that kernels have in common, but for tensors
    constants: Constants
    compiler: dict[str, object]  # its options


def plan(
    tensors: Named,
    rotation: Rotation,
    *,
    choose: Callable[[Case], Tile | WideTile],
    inplace: bool = False,
    whole_rows: bool = False,
    groups: tuple[int, int] = (0, 0),
    out_format: str | None = None,
) -> Plan:
    """Plan a launch, without a GPU: no value is read, and tensors may be on the meta device.

    Args:
        tensors: what the kernel is given, by the names of `Tensors` or of the norms' tensors. A
            name with "out" is of what is written. With slots, k_out and v_out are caches.
        rotation: by which angles.
        choose: the rule that finds the tile.
        inplace: results overwrite what is read.
        whole_rows: the kernel reads elements beyond the rotary slice in place, too.
        groups: after how many heads of q a head of k and one of v follow, in a packed tensor that
            is read, and in one that is written. 0: the heads of q follow each other.
        out_format: of a forward's results, if it is not that of the rotation, which a forward's
            tensors have. Where gradients go back, they are read in that and written in this.
    """
    given = _as_read(tensors, rotation, inplace)
    rows = {name: x for name in ROWS if (x := given.get(name)) is not None}
    options = rotation.options
    read, written = options.tensor_format, out_format or options.tensor_format
    if rotation.transpose:
        read, written = written, read
    # A cache has slots, not the positions of the call.
    caches = () if given.get("slots") is None else ("k_out", "v_out")
    views = {
        name: view_as_sbhd(x, written if "out" in name else read)
        for name, x in rows.items()
        if name not in caches
    }
    has_table = not rotation.on_the_fly
    rows_outer, stretch = order_of_programs(read, rows["q"].stride(), rotation.per_batch, has_table)
    # Of one batch entry there is nothing to merge: then programs don't divide to find theirs.
    has_one_entry = views["q"].shape[1] == 1
    may_merge = not rotation.per_batch and _batch_may_count_as_heads(views, stretch)
    merged = has_one_entry or may_merge
    if merged:
        views = {name: x.flatten(1, 2).unsqueeze(1) for name, x in views.items()}

    case = _case_of(views, rotation, rows_outer, inplace and not whole_rows)
    tile = choose(case)
    # Half-empty tiles in a row would leave SMs idle, so a position's programs run together.
    rows_outer = rows_outer and case.empty(tile.rows) <= MOST_EMPTY
    blocks_of_stretch = None
    if stretch is not None and (rows_outer or not merged):
        # Heads of merged batch entries follow each other in memory, so they need no stretch.
        blocks_of_stretch = max(1, stretch // tile.positions)
    seq_len, batch, q_heads, _ = views["q"].shape
    row_blocks = cdiv(q_heads, tile.rows)
    row_blocks += cdiv(case.k_rows, tile.rows) * (2 if "v" in rows else 1)
    reads_interleaved, writes_interleaved = rotation.pairings
    table_strides, table_unit = _strides_of_table(rotation, given["table"])
    strides = {name: kernel_strides(views.get(name, x)) for name, x in rows.items()}
    constants = Constants(
        half=case.half,
        start=case.start,
        tail=case.tail,
        reads_interleaved=reads_interleaved,
        writes_interleaved=writes_interleaved,
        positions=tile.positions,
        rows=tile.rows,
        rows_outer=rows_outer,
        stretch=blocks_of_stretch,
        aligned=alignment_of([x for name, x in rows.items() if "out" not in name]),
        out_aligned=alignment_of([x for name, x in rows.items() if "out" in name]),
        table_unit=table_unit,
        on_the_fly=rotation.on_the_fly,
        one_per_pair=rotation.one_per_pair,
        attention_factor=None if options.attention_factor == 1 else options.attention_factor,
        cp_order=options.cp_order if options.cp_size > 1 else None,
        inverse=options.inverse,
        transpose=rotation.transpose,
        rounding=options.rounding,
        fast_sine=is_compiled_for_nvidia(rows["q"]) and case.element_bytes < 8,
        read_group=groups[0],
        write_group=groups[1],
    )
    if isinstance(tile, WideTile):
        constants = WideConstants(
            **vars(constants),
            lines=tile.lines,
            columns=tile.columns,
            side_by_side=tile.side_by_side,
            over_positions=tile.over_positions,
            in_place=rows["q"] is rows["q_out"],
        )
    arguments = {
        **_arguments_of(rotation),
        "table_strides": table_strides,
        "read_strides": tuple([x for name, x in strides.items() if "out" not in name]),
        "written_strides": tuple([x for name, x in strides.items() if "out" in name]) or None,
        "seq_len": seq_len,
        "batch": None if merged else batch,
        "q_heads": q_heads,
        "k_heads": case.k_rows,
    }
    # Fusion decides last bits, so it is never left to the compiler's default.
    compiler: dict[str, object] = {
        "num_warps": tile.num_warps,
        "enable_fp_fusion": options.rounding == "once",
    }
    return Plan(
        tile=tile,
        programs=batch * row_blocks * cdiv(seq_len, tile.positions),
        tensors=given,
        arguments=arguments,
        constants=constants,
        compiler=compiler,
    )


def _as_read(given: Named, rotation: Rotation, inplace: bool) -> Named:
    """Tensors as a kernel reads them.

    Lists are contiguous, cosines and sines have the same strides, and no view has a pending sign.
    In place one may stay: the map is linear, so minus x becomes minus the result.
    """
    table, sin = rotation.table, rotation.sin
    if sin is not None and (table.stride() != sin.stride() or table.is_neg() or sin.is_neg()):
        table, sin = table.resolve_neg().contiguous(), sin.resolve_neg().contiguous()
    read = given | {"table": table.resolve_neg(), "sin": sin}
    for name, x in given.items():
        if x is not None and name in ("cu_seqlens", "starts", "slots"):
            read[name] = x.contiguous()
        elif x is not None and name in ROWS and not ("out" in name or inplace):
            read[name] = x.resolve_neg()
    return read


def _case_of(views: Views, rotation: Rotation, rows_outer: bool, inplace: bool) -> Case:
    """What the tile of a call depends on."""
    q, k = views["q"], views.get("k")
    options, table = rotation.options, rotation.table
    table_bytes = 0
    if not rotation.on_the_fly:
        columns = table.shape[-1] * (1 if rotation.sin is None else 2)
        table_bytes = columns * table.element_size()
    return Case(
        rows=q.shape[2],
        k_rows=0 if k is None else k.shape[2],
        head_dim=q.shape[3],
        half=options.rotary_dim // 2,
        tail=0 if inplace else q.shape[3] - options.rotary_dim,
        start=options.rotary_start,
        element_bytes=q.element_size(),
        interleaved=any(rotation.pairings),
        rows_outer=rows_outer,
        inplace=inplace,
        packed=rotation.cu_seqlens is not None,
        shared=options.cp_size > 1,
        looks_up=rotation.looks_up_positions,
        on_the_fly=rotation.on_the_fly,
        cos_bytes=0 if rotation.sin is None else table.element_size(),
        table_bytes=table_bytes,
    )


def _arguments_of(rotation: Rotation) -> dict[str, object]:
    """The sizes that say which positions and angles tokens have, by the kernels' names."""
    options, ids, cu_seqlens = rotation.options, rotation.position_ids, rotation.cu_seqlens
    is_shared = options.cp_size > 1
    ids_strides = None
    if ids is not None:
        ids_strides = kernel_strides(ids if ids.dim() == 2 else ids[None])
    return {
        "first_position": rotation.first_position,
        "ids_strides": ids_strides,
        "table_len": None if rotation.on_the_fly else rotation.table_len,
        "sequences": None if cu_seqlens is None else len(cu_seqlens) - 1,
        "cp_size": options.cp_size if is_shared else None,
        "cp_rank": options.cp_rank if is_shared else None,
    }


def _batch_may_count_as_heads(views: Views, stretch: int | None) -> bool:
    """Whether views (s, b, h, d) may become (s, 1, b * h, d).

    Then rows of several batch entries, which turn by the same angles, share a tile. They may where
    the heads of all entries are evenly spaced in memory, and programs take them in that order.
    """
    return stretch == 1 and all(x.stride(1) == x.shape[2] * x.stride(2) for x in views.values())


def kernel_strides(x: Tensor) -> Strides:
    """Strides in elements, as kernels get them.

    That of a dimension of one index is 0, for it doesn't matter. A stride of 1, which PyTorch may
    say there, would look unaligned to the compiler.
    """
    return tuple([0 if n == 1 else step for n, step in zip(x.shape, x.stride(), strict=True)])


def _strides_of_table(rotation: Rotation, table: Tensor | None) -> tuple[Strides | None, int]:
    """Strides of (b, s2, columns), those of b and s in units, and the unit in elements.

    A kernel multiplies by the unit, a constant, so Triton sees that it divides each row's offset.
    It is 1 where 16 divides the strides, which Triton finds by itself. Turns need neither.
    """
    if table is None or rotation.on_the_fly:
        return None, 1
    strides = kernel_strides(table if table.dim() == 3 else table.flatten(1)[None])
    unit = 1
    if any(step % 16 for step in strides[:-1]):
        unit = math.gcd(16, *strides[:-1])
    return (strides[0] // unit, strides[1] // unit, strides[2]), unit


def alignment_of(tensors: Iterable[Tensor]) -> int:
    """Bytes, up to 16, that divide the address of every row; 0 if Triton finds them by itself.

    Triton knows of a stride only whether 16 divides it. Rows of 72 elements of 2 bytes are 144
    bytes apart, so 16 bytes are always aligned, yet Triton would load 2 at a time.
    """
    aligned, is_seen = 16, True
    for x in tensors:
        strides = [step for step in kernel_strides(x)[:-1] if step]
        is_seen &= math.gcd(16, x.data_ptr(), *strides) == 16
        aligned = math.gcd(aligned, x.data_ptr(), *[step * x.element_size() for step in strides])
    return 0 if is_seen else aligned


# Rotations


def launch_rotation(
    tensors: Tensors,
    rotation: Rotation,
    known: Known | None,
    *,
    inplace: bool = False,
    groups: tuple[int, int] = (0, 0),
    out_format: str | None = None,
) -> None:
    """Rotate q and k of a checked call, and copy v, in one launch.

    `known` is what `known_of` has found for the call. All else is as in `plan`.
    """

    def make_launch() -> Launch | None:
        if not has_elements((tensors.q, tensors.k, tensors.v)):
            return None
        planned = plan(
            tensors._asdict(),
            rotation,
            choose=choose_tile if tensors.slots is None else choose_cache_tile,
            inplace=inplace,
            groups=groups,
            out_format=out_format,
        )
        kernel, arguments = "wide_kernel.wide_kernel", planned.arguments | {"C": planned.constants}
        if not isinstance(planned.tile, WideTile):
            kernel = "kernel.rope_kernel"
            arguments |= {"listed": None, "cache_slots": None, "page": None}
        if tensors.slots is not None:
            assert tensors.k_out is not None, "it is a cache"
            blocks, page, _, _ = tensors.k_out.shape
            arguments |= {"listed": len(tensors.slots), "cache_slots": blocks * page, "page": page}
        return Launch(
            kernel=kernel,
            tensors=Tensors._make(planned.tensors.values()),
            programs=planned.programs,
            arguments=arguments,
            compiler=planned.compiler,
        )

    run(known, tensors, make_launch, (rotation.first_position,))


def rotate_by_kernel(
    tensors: tuple[Tensor, ...], rotation: Rotation, inplace: bool, known: Known | None = None
) -> tuple[Tensor, ...]:
    """Rotate one or two tensors of a checked call in one launch.

    The results are new; or with `inplace` the tensors themselves, of which only the rotary slice is
    touched.
    """
    outs = tensors if inplace else memory_for(tensors, rotation)
    q, k = q_and_k(tensors)
    q_out, k_out = q_and_k(outs)
    table, sin, cu_seqlens, starts, ids, *_ = rotation  # `tensors`, in half the time
    launched = Tensors(q, k, None, q_out, k_out, None, table, sin, cu_seqlens, starts, ids)
    launch_rotation(launched, rotation, known, inplace=inplace)
    return outs


def memory_for(tensors: Sequence[Tensor], rotation: Rotation) -> tuple[Tensor, ...]:
    """Empty tensors for the results of rotating these."""
    options, dtype = rotation.options, tensors[0].dtype
    if options.promoted_from is not None:
        dtype = rotation.returned_dtype(tensors[0])
    keeps = options.keeps_strides and not rotation.transpose
    kind = torch.preserve_format if keeps else torch.contiguous_format
    return tuple([torch.empty_like(t, dtype=dtype, memory_format=kind) for t in tensors])
