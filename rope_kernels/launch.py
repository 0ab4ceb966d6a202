"""Plan and launch kernels, and cache both by call signature.

The signature of a call is everything but the elements and addresses of its tensors. Calls with the
same signature are checked and planned once: `known_of` returns their cache entry, a `Known`. The
first call goes through Triton's JIT, which inspects every argument and returns the compiled kernel.
Later calls launch that kernel directly, `compiled[grid](...)`, in a fraction of the time.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from threading import Lock
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter

from .arguments import Constants, Tensors, WideConstants
from .paths import interpreter_is_on, is_compiled_for_nvidia, is_eager, log, stream_of
from .rotation import Options, Rotation, len_of_table
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

Strides = tuple[int, ...]
X = TypeVar("X")


class OfKernel(Protocol):
    """The tensors of a kernel: a named tuple with at least these fields."""

    @property
    def k(self) -> Tensor | None: ...

    @property
    def table(self) -> Tensor: ...


AllTensors = TypeVar("AllTensors", bound=OfKernel)
# The fields of `Tensors` and of the norms' tensors that kernels read, and write, row by row.
READ, WRITTEN = ("q", "k", "v", "q_grad", "k_grad"), ("q_out", "k_out", "v_out")

# The arguments that the public functions take for these fields.
_ARGUMENTS = {
    "table": "freqs",
    "sin": "freqs",
    "starts": "start_positions",
    "slots": "slot_mapping",
}

# Triton's interpreter stores the grid of a launch in globals, so threads must take turns.
_INTERPRETING = Lock()

# The cache of calls


@dataclass(slots=True, eq=False)
class Known:
    """The cache entry of a call signature."""

    options: Options | None = None  # of the rotation; None until `check_call` has passed
    is_checked: bool = False  # whether a subpackage's own checks have passed, too
    launch: Callable[..., None] | None = None  # the compiled kernel, with its grid
    arguments: tuple[object, ...] = ()  # the kernel's last arguments, equal for this signature


# typed=True: 1 and 1.0 must not reuse the entry of True, which is the only one of the three that
# the checks accept. It doesn't apply inside tuples, so unchecked values are passed one by one.
@lru_cache(4096, typed=True)
def known_by(*signature: object) -> Known:
    """The cache entry of this signature, created at its first use."""
    return Known()


def known_of(
    shared: Sequence[object], first_position: int | None, *options: object
) -> Known | None:
    """The cache entry of an eager call.

    Args:
        shared: the call's tensors, or None for a missing one, and options between them. A tensor
            counts by its shape, strides, dtype, device and alignment.
        first_position: only its width in bits counts, because the kernel takes the number itself
            as an argument.
        options: all other options.

    Returns:
        None if the call has no signature, because a tensor is of a subclass, or an option can't be
        hashed.
    """
    width = 0 if first_position is None else _width_of(first_position)
    signature = [len(shared), width, *options]
    try:
        for x in shared:  # This runs in every call, and a function or a generator would be slower.
            # Subclasses may behave differently with equal shapes, so they have no signature.
            if type(x) is Tensor or type(x) is Parameter:
                address = x.data_ptr()
                rest = address % 16 if address else None  # None: a kernel must not read it
                of_tensor = x.shape, x.stride(), x.dtype, x.device, rest, x.is_neg()
                signature.append(of_tensor)
            elif x is None or not isinstance(x, Tensor):
                signature.append(x)
            else:
                return None
        return known_by(*signature)
    except (RuntimeError, TypeError):  # A tensor has no strides or memory, or x isn't hashable.
        return None


def known_of_rotation(
    shared: Sequence[object], rotation: Rotation, *options: object
) -> Known | None:
    """The cache entry of a call whose `Rotation` exists already: in a backward, or an operator.

    None if the call isn't eager.
    """
    if not is_eager():
        return None
    signature = rotation.transpose, rotation.options, *options
    return known_of((*shared, *rotation.tensors), rotation.first_position, *signature)


def _width_of(number: int) -> int:
    """The bits of the integer type that Triton gives this number: it compiles a kernel for each."""
    return 32 if -(2**31) <= number < 2**31 else 64


def forget() -> None:
    """Clear the cache of calls."""
    known_by.cache_clear()


@contextmanager
def checking() -> Iterator[None]:
    """Clear the cache of calls if a check in this context raises.

    The refused call is already a key of the cache. It may hold any object, such as a module that
    was passed as a weight, and the cache would keep that alive. Accepted calls hold no tensors.
    """
    try:
        yield
    except BaseException:
        forget()
        raise


# Launches


class Compiled(Protocol):
    """What a launch through Triton's JIT returns. The interpreter returns None instead."""

    def __getitem__(self, grid: tuple[int, int, int], /) -> Callable[..., None]: ...


class Kernel(Protocol):
    """A function decorated with `triton.jit`."""

    __name__: str
    arg_names: list[str]

    def __getitem__(self, grid: tuple[int], /) -> Callable[..., Compiled | None]: ...


class Launch(NamedTuple):
    """A kernel and everything that its launch needs."""

    kernel: str  # "module.function" in this package
    tensors: tuple[Tensor | None, ...]  # its first argument, a named tuple
    programs: int
    arguments: dict[str, object]  # all others, by name
    compiler: dict[str, object]  # options of the compiler


def q_and_k(items: Sequence[X]) -> tuple[X, X | None]:
    """Unpack the items of q and of k. The second is None if there is only q."""
    return (items[0], items[1]) if len(items) == 2 else (items[0], None)


def has_elements(tensors: Sequence[Tensor | None]) -> bool:
    """Whether any tensor has elements. Otherwise there is nothing to launch."""
    return any([x is not None and x.numel() for x in tensors])


def run(
    known: Known | None,
    given: Sequence[Tensor | None],
    make_launch: Callable[[], Launch | None],
    first_position: tuple[int | None] | tuple[()] = (),
) -> None:
    """Launch the cached kernel of a call, or plan, compile and cache it first.

    Args:
        known: the call's cache entry from `known_of`; None: it isn't cached.
        given: the kernel's tensors as the caller passed them, all on the first one's device.
        make_launch: plans the launch. It may replace a tensor by a copy, such as a contiguous one.
            It returns None if there is nothing to do.
        first_position: the kernel's second argument, which differs between calls with the same
            signature; () for a kernel that has none.
    """
    t = given[0]
    assert t is not None, "the first tensor is always there"
    device = t.get_device()  # -1: a CPU
    if t.is_cuda and device != torch.cuda.current_device():
        with torch.cuda.device(device):  # Triton launches on the current device.
            run(known, given, make_launch, first_position)
        return
    addresses = tuple([None if x is None else x.data_ptr() for x in given])
    if known is not None and known.launch is not None:
        # Without `stream`, Triton looks up the device and then its stream, four times as slowly.
        stream = None if device < 0 else stream_of(device)
        known.launch(addresses, *first_position, *known.arguments, stream=stream)
        return
    # The first call: launch through Triton's JIT, and cache the compiled kernel.
    launch = make_launch()
    if launch is None:
        return
    kernel = kernel_of(launch.kernel)
    values = in_order(launch.arguments, kernel.arg_names[1:], kernel.__name__)
    with _INTERPRETING if interpreter_is_on() else nullcontext():
        compiled = kernel[(launch.programs,)](launch.tensors, *values, **launch.compiler)
    # A launch that read a copy isn't cached: later calls would pass the caller's tensors instead.
    copied = addresses != tuple([None if x is None else x.data_ptr() for x in launch.tensors])
    if known is not None and compiled is not None and not copied:
        # Another thread may launch as soon as `launch` is set, so set the arguments first.
        known.arguments = values[len(first_position) :]
        known.launch = compiled[(launch.programs, 1, 1)]


def in_order(arguments: dict[str, object], names: Sequence[str], kernel: str) -> tuple[object, ...]:
    """The arguments of a kernel in its own order.

    A misspelt or forgotten name raises `TypeError`. Passing None instead would silently launch
    another map, because kernels take None for an absent argument.
    """
    unknown, missing = arguments.keys() - set(names), set(names) - arguments.keys()
    if unknown or missing:
        faults = f"it has no {sorted(unknown)}, and {sorted(missing)} were not planned"
        raise TypeError(f"{kernel} is planned with other arguments than it takes: {faults}")
    return tuple(map(arguments.__getitem__, names))


def kernel_of(name: str) -> Kernel:
    """Import a Triton kernel by name, "module.function" in this package.

    So the first launch imports Triton, and `import rope_kernels` doesn't.
    """
    module, _, function = name.rpartition(".")
    kernel: Kernel = getattr(import_module(f".{module}", __package__), function)
    return kernel


# Plans


class Sbhd(NamedTuple):
    """Sizes and strides of a tensor, in the order (s, b, h, d)."""

    sizes: Strides
    strides: Strides

    @property
    def heads_are_even(self) -> bool:
        """Whether the heads of all batch entries are evenly spaced in memory."""
        return self.strides[1] == self.sizes[2] * self.strides[2]

    @property
    def with_batch_as_heads(self) -> "Sbhd":
        """(s, 1, b * h, d). The heads of all entries must be evenly spaced."""
        (s, b, h, d), (of_s, _, of_h, of_d) = self
        return Sbhd((s, 1, b * h, d), (of_s, 0, of_h, of_d))


def as_sbhd(sizes: Strides, strides: Strides, tensor_format: str) -> Sbhd:
    """The sizes and strides of `view_as_sbhd`, which is an operator."""
    if tensor_format == "thd":
        (t, h, d), (of_t, of_h, of_d) = sizes, strides
        return Sbhd((t, 1, h, d), (of_t, 0, of_h, of_d))
    s, b, h, d = map(tensor_format.index, "sbhd")
    return Sbhd(
        (sizes[s], sizes[b], sizes[h], sizes[d]), (strides[s], strides[b], strides[h], strides[d])
    )


class Plan(NamedTuple, Generic[AllTensors]):
    """The parts of a launch that all kernels need."""

    tile: Tile | WideTile
    programs: int
    tensors: AllTensors  # as kernels read them
    arguments: dict[str, object]  # the arguments of all kernels, except tensors and constants
    constants: Constants
    compiler: dict[str, object]  # options of the compiler


def plan(
    tensors: AllTensors,
    rotation: Rotation,
    *,
    choose: Callable[[Case], Tile | WideTile],
    inplace: bool = False,
    whole_rows: bool = False,
    groups: tuple[int, int] = (0, 0),
    out_format: str | None = None,
) -> Plan[AllTensors]:
    """Plan a launch, from sizes and strides. Tensors may be on the meta device.

    It runs no operator, except copies of tensors that a kernel can't read as they are.

    Args:
        tensors: the kernel's first argument: `Tensors`, or the norms' tensors. If it has `slots`,
            k_out and v_out are caches.
        rotation: positions, angles and options.
        choose: the rule that chooses the tile.
        inplace: results overwrite the inputs.
        whole_rows: even in place, the kernel reads elements outside the rotary slice.
        groups: for packed qkv, how many heads of q come before a head of k and one of v: in the
            tensor that is read, and in the one that is written. 0: all heads of q are together.
        out_format: the format of a forward's results, if it differs from `tensor_format`. A
            backward reads gradients in `out_format` and writes them in `tensor_format`.
    """
    given = _as_read(tensors, rotation, inplace)
    reads = [x for name in READ if (x := getattr(given, name, None)) is not None]
    writes = [x for name in WRITTEN if (x := getattr(given, name, None)) is not None]
    options, per_batch = rotation.options, rotation.per_batch
    reads_interleaved, writes_interleaved = rotation.pairings
    read, written = options.tensor_format, out_format or options.tensor_format
    if rotation.transpose:
        read, written = written, read
    of_reads = [as_sbhd(x.shape, x.stride(), read) for x in reads]
    caches = 0 if getattr(given, "slots", None) is None else 2
    of_writes = [as_sbhd(x.shape, x.stride(), written) for x in writes[: len(writes) - caches]]

    rows_outer, stretch = order_of_programs(
        read, reads[0].stride(), per_batch, has_table=not options.on_the_fly
    )
    # With one batch entry, there is nothing to merge, but programs save a division to find theirs.
    seq_len, batch = of_reads[0].sizes[:2]
    merged = batch == 1 or (
        stretch == 1 and not per_batch and all([x.heads_are_even for x in (*of_reads, *of_writes)])
    )
    if merged:
        of_reads = [x.with_batch_as_heads for x in of_reads]
        of_writes = [x.with_batch_as_heads for x in of_writes]
    # A cache has dimensions of its own: (blocks, page, h, d).
    of_writes += [Sbhd(x.shape, x.stride()) for x in writes[len(writes) - caches :]]

    q_heads = of_reads[0].sizes[2]
    k_heads = 0 if given.k is None else of_reads[1].sizes[2]
    case = _case_of(
        rotation,
        q=reads[0],
        of_q=of_reads[0],
        k_heads=k_heads,
        rows_outer=rows_outer,
        inplace=inplace and not whole_rows,
    )
    tile = choose(case)
    # With rows_outer, half-empty tiles would run one after the other, and SMs would
    # idle. So then programs take all rows of a position first.
    rows_outer = rows_outer and case.empty(tile.rows) <= MOST_EMPTY
    blocks_of_stretch = None
    if stretch is not None and (rows_outer or not merged):
        # The heads of merged batch entries are contiguous in memory, so they need no stretch.
        blocks_of_stretch = max(1, stretch // tile.positions)
    row_blocks = cdiv(q_heads, tile.rows)
    row_blocks += cdiv(k_heads, tile.rows) * (1 if getattr(given, "v", None) is None else 2)
    table_strides, table_unit = _strides_of_table(given.table)
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
        aligned=alignment_of(reads),
        out_aligned=alignment_of(writes),
        table_unit=table_unit,
        on_the_fly=options.on_the_fly,
        one_per_pair=rotation.one_per_pair,
        attention_factor=None if options.attention_factor == 1 else options.attention_factor,
        cp_order=options.cp_order if options.cp_size > 1 else None,
        inverse=options.inverse,
        transpose=rotation.transpose,
        rounding=options.rounding,
        fast_sine=is_compiled_for_nvidia(reads[0]) and case.element_bytes < 8,
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
            in_place=inplace,
        )
    arguments = {
        **_arguments_of(rotation),
        "table_strides": table_strides,
        "read_strides": tuple([kernel_strides(*x) for x in of_reads]),
        "written_strides": tuple([kernel_strides(*x) for x in of_writes]) or None,
        "seq_len": seq_len,
        "batch": None if merged else batch,
        "q_heads": q_heads,
        "k_heads": k_heads,
    }
    # FMA changes last bits, so this is never left to the compiler's default.
    compiler: dict[str, object] = {
        "num_warps": tile.num_warps,
        "enable_fp_fusion": options.rounding == "once",
    }
    return Plan(
        tile=tile,
        programs=(1 if merged else batch) * row_blocks * cdiv(seq_len, tile.positions),
        tensors=given,
        arguments=arguments,
        constants=constants,
        compiler=compiler,
    )


def _as_read(given: AllTensors, rotation: Rotation, inplace: bool) -> AllTensors:
    """Copy tensors where a kernel can't read them as they are.

    `cu_seqlens`, starts, slots, weights and frequencies become contiguous, cos and sin get equal
    strides, and negative bits are resolved. A negative bit may stay on tensors rotated in place:
    the map is linear, so -x becomes minus the result.
    """
    copied: dict[str, Tensor] = {}
    table, sin = rotation.table, rotation.sin
    if sin is not None and (table.stride() != sin.stride() or table.is_neg() or sin.is_neg()):
        copied["table"] = table.resolve_neg().contiguous()
        copied["sin"] = sin.resolve_neg().contiguous()
    elif table.is_neg() or (rotation.options.on_the_fly and not table.is_contiguous()):
        copied["table"] = table.resolve_neg().contiguous()
    for name in ("cu_seqlens", "starts", "slots", "q_weight", "k_weight"):
        x = getattr(given, name, None)
        if x is not None and (x.is_neg() or not x.is_contiguous()):
            copied[name] = x.resolve_neg().contiguous()
    for name in () if inplace else READ:
        x = getattr(given, name, None)
        if x is not None and x.is_neg():
            copied[name] = x.resolve_neg()
    if not copied:
        return given
    why = "it isn't contiguous, its negative bit is set, or cos and sin have different strides"
    for name in copied:
        came = _ARGUMENTS.get(name, name)
        log(f"{came} is copied in every call, which is then planned like a first one: {why}")
    replaced: AllTensors = given._replace(**copied)  # type: ignore[attr-defined]  # a named tuple
    return replaced


def _case_of(
    rotation: Rotation,
    *,
    q: Tensor,
    of_q: Sbhd,
    k_heads: int,
    rows_outer: bool,
    inplace: bool,
) -> Case:
    """The properties of a call on which its tile depends."""
    q_heads, head_dim = of_q.sizes[2:]
    options, table = rotation.options, rotation.table
    table_bytes = 0
    if not options.on_the_fly:
        columns = table.shape[-1] * (1 if rotation.sin is None else 2)
        table_bytes = columns * table.element_size()
    return Case(
        rows=q_heads,
        k_rows=k_heads,
        head_dim=head_dim,
        half=options.rotary_dim // 2,
        tail=0 if inplace else head_dim - options.rotary_dim,
        start=options.rotary_start,
        element_bytes=q.element_size(),
        interleaved=options.interleaved,
        rows_outer=rows_outer,
        inplace=inplace,
        packed=rotation.cu_seqlens is not None,
        shared=options.cp_size > 1,
        looks_up=rotation.looks_up_positions,
        on_the_fly=options.on_the_fly,
        cos_bytes=0 if rotation.sin is None else table.element_size(),
        table_bytes=table_bytes,
    )


def _arguments_of(rotation: Rotation) -> dict[str, object]:
    """The kernels' arguments, by name, that determine positions and angles."""
    options, ids, cu_seqlens = rotation.options, rotation.position_ids, rotation.cu_seqlens
    is_shared = options.cp_size > 1
    ids_strides = None
    if ids is not None:
        ids_strides = kernel_strides(ids.shape, ids.stride())
        if ids.dim() == 1:
            ids_strides = 0, *ids_strides
    return {
        "first_position": rotation.first_position,
        "ids_strides": ids_strides,
        "table_len": None if options.on_the_fly else len_of_table(rotation.table),
        "sequences": None if cu_seqlens is None else len(cu_seqlens) - 1,
        "cp_size": options.cp_size if is_shared else None,
        "cp_rank": options.cp_rank if is_shared else None,
    }


def kernel_strides(sizes: Strides, strides: Strides) -> Strides:
    """Strides in elements, with 0 for a dimension of size 1.

    There the stride has no effect. PyTorch may report 1, which would look unaligned to Triton.
    """
    return tuple([0 if n == 1 else step for n, step in zip(sizes, strides, strict=True)])


def _strides_of_table(table: Tensor) -> tuple[Strides | None, int]:
    """Strides of (b, s2, columns), those of b and s in units, and the unit in elements.

    A kernel multiplies by the unit, a constant, so Triton sees that it divides each row's offset.
    The unit is 1 if 16 divides the strides, which Triton notices without help. Frequencies that
    are given instead of a table need neither.
    """
    if table.dim() == 1:  # frequencies
        return None, 1
    strides = kernel_strides(table.shape, table.stride())
    if table.dim() != 3:  # (s2, 1, 1, w) or (s2, w)
        strides = 0, strides[0], strides[-1]
    unit = 1
    if any(step % 16 for step in strides[:-1]):
        unit = math.gcd(16, *strides[:-1])
    return (strides[0] // unit, strides[1] // unit, strides[2]), unit


def alignment_of(tensors: Iterable[Tensor]) -> int:
    """The bytes, up to 16, that divide every row's address; 0 if Triton sees 16 without help.

    Triton knows only whether 16 divides a stride in elements. Rows of 72 elements of 2 bytes start
    every 144 bytes, so they are aligned to 16 bytes, but Triton would load 2 bytes at a time.
    """
    aligned, is_seen = 16, True
    for x in tensors:
        strides = [step for step in kernel_strides(x.shape, x.stride())[:-1] if step]
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

    `known` is the call's cache entry from `known_of`. `plan` explains the keywords.
    """

    def make_launch() -> Launch | None:
        if not has_elements((tensors.q, tensors.k, tensors.v)):
            return None
        planned = plan(
            tensors,
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
            tensors=planned.tensors,
            programs=planned.programs,
            arguments=arguments,
            compiler=planned.compiler,
        )

    run(known, tensors, make_launch, (rotation.first_position,))


def rotate_by_kernel(
    tensors: tuple[Tensor, ...], rotation: Rotation, inplace: bool, known: Known | None = None
) -> tuple[Tensor, ...]:
    """Rotate one or two tensors of a checked call in one launch.

    Returns new tensors; or with `inplace` the same ones, whose rotary slice is overwritten.
    """
    outs = tensors if inplace else memory_for(tensors, rotation)
    q, k = q_and_k(tensors)
    q_out, k_out = q_and_k(outs)
    table, sin, cu_seqlens, starts, ids, *_ = rotation  # twice as fast as `rotation.tensors`
    launched = Tensors(q, k, None, q_out, k_out, None, table, sin, cu_seqlens, starts, ids)
    launch_rotation(launched, rotation, known, inplace=inplace)
    return outs


def memory_for(tensors: Sequence[Tensor], rotation: Rotation) -> tuple[Tensor, ...]:
    """Empty tensors for the results of rotating these, with the order of their strides."""
    options, dtype = rotation.options, tensors[0].dtype
    if options.promoted_from is not None:
        dtype = rotation.returned_dtype(tensors[0])
    is_contiguous = options.contiguous_gradients and rotation.transpose
    kind = torch.contiguous_format if is_contiguous else torch.preserve_format
    return tuple([torch.empty_like(t, dtype=dtype, memory_format=kind) for t in tensors])
