"""Do a kernel's offsets fit into their integers, at a size whose tensors no memory here holds?

At that size every tensor has an address and no memory. Some programs of each launch run twice in
Triton's interpreter: with integers of 32 bits that wrap around, as a GPU's do, and with 64 bits in
their place. Nothing is stored; an element is 0, but for small tensors, which have their values.
Where the two runs touch other elements, a number did not fit, whatever else is right or wrong.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import torch
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle
from triton.tools.tensor_descriptor import TensorDescriptor

from ...compiler.launches import Launch, launches_of
from ..climb.targets import number
from ..recorder import Access, Memory, Recorder, line_of_the_kernel, name_of
from ..verdict import cause_of, raised
from .hollow import Hollow

_LARGE = 2**30  # bytes of a tensor; with fewer, every offset fits
_APART = 2**48  # bytes between two tensors: no offset of 32 bits leads from one to another
_FIRST = 2**56  # beyond all addresses that a process has
_TURNS = 4  # of a long loop, the first and the last ones
_ACCESSES = 1000  # of a program
_MORE_PROGRAMS = 12  # along the longest side of a grid
_SECONDS = 8.0  # for all of them
_WIDENED = {"int16": np.int16, "int32": np.int32}  # by their names in Triton


class _Enough(Exception):
    """A program has made as many accesses as are compared."""


def wrapped_offset(function: Callable, make: Callable, size: int) -> dict[str, str]:
    """What is `wrong` with the offsets of a function's launches at that size.

    Empty if nothing is; `unchecked` with a reason if that can't be known.
    """
    try:
        launches = _launches(function, lambda: make(size, "meta"))
    except Exception:  # whatever a function may raise; `inspect` runs into it, too, and says so
        return {}
    if not any(place.nbytes >= _LARGE for one in launches for place in _FarTensors(one).memories):
        return {}
    try:
        try:
            with Hollow():
                launches = _launches(function, lambda: make(size, "cpu"))
        except Exception:  # it has asked a tensor without memory, or mixed devices
            pass  # then all values are 0
        late = time.monotonic() + _SECONDS
        for far in [_FarTensors(launch, late) for launch in launches]:
            for program in far.some_programs():
                if found := far.wrapped(program):
                    kernel = far.launch.kernel.fn.__name__
                    return {"wrong": f"at size {size}: {name_of(program)} of {kernel} {found}"}
            if far.has_more:
                return {"unchecked": f"a program loads and stores more than {_ACCESSES} times"}
    except Exception as error:
        return {"unchecked": f"it {raised(cause_of(error))}"}
    return {}


def _launches(function: Callable, make: Callable) -> list[Launch]:
    torch.manual_seed(0)
    inputs = make()
    return launches_of(lambda: function(*inputs))


class _Place(Memory):
    """A tensor of a launch, and where it is said to be."""

    @property
    def nbytes(self) -> int:
        return self.end - self.begin

    @property
    def first(self) -> int:
        """The address of its first element."""
        return self.begin + self.tensor.storage_offset() * self.tensor.element_size()

    # what Triton asks a tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    def data_ptr(self) -> int:
        return self.first


def _replaced(value: object, by: Callable[[str, Tensor], object], name: str = "") -> object:
    """An argument with something else for each of its tensors."""
    if isinstance(value, Tensor):
        return by(name, value)
    if isinstance(value, TensorDescriptor):
        return replace(value, base=by(name, value.base))
    if isinstance(value, dict):
        return {key: _replaced(item, by, key) for key, item in value.items()}
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", range(len(value)))
        items = [_replaced(x, by, f"{name}.{k}") for k, x in zip(fields, value, strict=True)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


class _FarTensors(Recorder):
    """A launch whose tensors have addresses and no memory.

    Attributes:
        has_more: whether a program makes more accesses than are compared.
    """

    memories: list[_Place]

    def __init__(self, launch: Launch, late: float = 0.0) -> None:
        """`late`: when to stop."""
        super().__init__()
        self.launch, self.late, self.has_more = launch, late, False
        self.arguments = _replaced(launch.named, self._placed)
        # of one program: with 64 bits? Its accesses, with their lines; the first line whose number
        # needs them
        self._program_here, self._is_wide = (0, 0, 0), False
        self._accesses: list[tuple[Access, str]] = []
        self._too_large = ""

    def _placed(self, name: str, tensor: Tensor) -> _Place:
        begins = {one.tensor.untyped_storage()._cdata: one.begin for one in self.memories}
        fresh = _FIRST + len(self.memories) * _APART
        begin = begins.get(tensor.untyped_storage()._cdata, fresh)
        self.memories.append(_Place(name, tensor, begin))
        return self.memories[-1]

    def some_programs(self) -> Iterator[tuple[int, int, int]]:
        """Those at the ends and in the middle of a grid, then more along its longest side.

        Among these are the places of the largest integers in small tensors: of an index, perhaps.
        """
        grid = (*self.launch.grid, 1, 1)[:3]
        if 0 in grid:
            return
        ends = [sorted({n - 1, max(n - 2, 0), n // 2, 0}, reverse=True) for n in grid]
        yield from itertools.product(*ends)
        longest = max(range(3), key=lambda axis: grid[axis])
        largest = [at for at in self._of_largest_integers() if at < grid[longest]]
        for at in [*largest, *range(0, grid[longest], 1 + grid[longest] // _MORE_PROGRAMS)]:
            yield tuple(at if axis == longest else grid[axis] - 1 for axis in range(3))

    def _of_largest_integers(self) -> Iterator[int]:
        for place in self.memories:
            x = place.tensor
            if not (x.is_meta or x.is_floating_point() or x.is_complex()) and x.numel():
                yield int(x.argmax())

    def wrapped(self, program: tuple[int, int, int]) -> str:
        """What an offset of a program leads to that has wrapped around; '' if none has."""
        as_on_a_gpu = self._accesses_of(program, wide=False)
        exact = self._accesses_of(program, wide=True)
        for (one, _), (meant, line) in zip(as_on_a_gpu, exact, strict=False):
            if not _are_alike(one, meant):
                return f"{self._difference(one, meant)}: {self._because(line)}"
        if len(as_on_a_gpu) != len(exact):
            _, line = max(as_on_a_gpu, exact, key=len)[-1]
            return f"takes another branch: {self._because(line)}"
        return ""

    def _accesses_of(self, program: tuple, wide: bool) -> list[tuple[Access, str]]:
        self._program_here, self._is_wide = program, wide
        self._accesses, self._too_large = [], ""
        with ExitStack() as stack, self, np.errstate(all="ignore"):
            stack.callback(_shorten_loops(self.launch.kernel))
            try:
                self.launch.kernel.run(grid=(1, 1, 1), warmup=False, **self.arguments)
            except Exception as error:
                if not isinstance(cause_of(error), _Enough):
                    raise
                self.has_more = True
        return self._accesses

    def hooks(self) -> list[tuple[object, str, Callable]]:
        grid = (*self.launch.grid, 1, 1)[:3]
        hooks = [
            *super().hooks(),
            (GridExecutor, "_init_args_hst", lambda _, executor, args, named: (args, named)),
            (GridExecutor, "_restore_args_dev", lambda *_: None),
            (InterpreterBuilder, "set_grid_dim", lambda set, builder, *_: set(builder, *grid)),
            (interpreter, "_implicit_cvt", _converted),
        ]
        if self._is_wide:  # integers of 64 bits under the names of shorter ones
            numbers = ("get_program_id", "get_num_programs", "make_range", "histogram")
            hooks += [
                (interpreter, "_get_np_dtype", _wide_dtype),
                (interpreter, "_validate_np_data_size", _has_a_size_that_fits),  # since Triton 3.6
                *((InterpreterBuilder, f"create_{name}", _widened) for name in numbers),
                (InterpreterBuilder, "create_bitcast", _bits_as_they_are),
                (InterpreterBuilder, "cast_impl", self._cast),
                (InterpreterBuilder, "binary_op", self._operation),
            ]
        return hooks

    def program_of(self, program: tuple, grid: tuple) -> tuple:
        return self._program_here

    def at_program(self) -> None:
        tl.range = _some_turns_of_triton  # it is the interpreter's own until this launch is over

    def at_access(self, access: Access) -> None:
        if time.monotonic() > self.late:
            raise TimeoutError(f"it takes more than {_SECONDS:.0f} s")
        self._accesses.append((access, line_of_the_kernel()))
        if len(self._accesses) == _ACCESSES:
            raise _Enough

    # what an access gives, of memory that isn't there

    def _load(self, _, builder, pointers, mask, other, *rest, **named) -> TensorHandle:
        access, kind = Access.of("reads", pointers, mask), pointers.get_element_ty()
        self.at_access(access)
        data = self._values(access.addresses, kind)
        if other is not None:
            data = np.where(access.wanted, data, other.data).astype(data.dtype)
        return TensorHandle(data, kind)

    def _values(self, addresses: np.ndarray, kind: tl.dtype) -> np.ndarray:
        """What small tensors have there; 0 elsewhere."""
        data = np.zeros(addresses.shape, _dtype_in_memory(kind))
        for place in self.memories:
            if place.tensor.is_meta:
                continue
            at = addresses - place.begin
            inside = (at >= 0) & (at + data.itemsize <= place.nbytes)
            if inside.any():
                memory = torch.empty(0, dtype=torch.uint8).set_(place.tensor.untyped_storage())
                bytes_of_each = memory.numpy()[at[inside][:, None] + np.arange(data.itemsize)]
                data[inside] = bytes_of_each.view(data.dtype)[:, 0]
        return data.astype(interpreter._get_np_dtype(kind))

    def _store(self, _, builder, pointers, value, mask, *rest, **named) -> None:
        self.at_access(Access.of("writes", pointers, mask))

    def _update(self, _, builder, op, pointers, value, mask, *rest) -> TensorHandle:
        self.at_access(Access.of("writes", pointers, mask))
        return TensorHandle(np.zeros_like(value.data), value.dtype.scalar)

    def _exchange(self, _, builder, pointers, compared, *rest) -> TensorHandle:
        self.at_access(Access.of("writes", pointers, None))
        return TensorHandle(compared.data.copy(), compared.dtype.scalar)  # it is as was hoped

    # numbers of 64 bits

    def _cast(self, original: Callable, builder, source, kind) -> TensorHandle:
        result = original(builder, source, kind)
        own = _own_dtype(kind)
        if own and source.dtype.scalar.is_int_unsigned():
            result.data = result.data.astype(own).astype(np.int64)
        return self._noted(result)

    def _operation(self, original: Callable, builder, *given) -> TensorHandle:
        return self._noted(original(builder, *given))

    def _noted(self, result: TensorHandle) -> TensorHandle:
        kind = _own_dtype(result.dtype)
        is_wide = kind and result.data.dtype == np.int64
        if is_wide and not self._too_large and (result.data != result.data.astype(kind)).any():
            self._too_large = line_of_the_kernel()
        return result

    # in words

    def _because(self, line: str) -> str:
        return (
            f"a number beyond 2^31 wraps around in 32 bits, at: {self._too_large or line}; "
            "widen an index before it is multiplied, as tl.program_id(0).to(tl.int64)"
        )

    def _difference(self, one: Access, meant: Access) -> str:
        kinds = [(access.does, access.size, access.addresses.shape) for access in (one, meant)]
        if kinds[0] != kinds[1]:
            return "takes another branch"
        moved = meant.wanted & (one.addresses != meant.addresses)
        lane = tuple(axis[0] for axis in np.nonzero(moved | (one.wanted != meant.wanted)))
        address = int(meant.addresses[lane])
        # the tensor that begins last before it: two may share a storage
        before = [place for place in self.memories if place.first <= address]
        place = max(before or self.memories, key=lambda place: place.first)
        got, element = (
            number((int(access.addresses[lane]) - place.first) // one.size)
            for access in (one, meant)
        )
        if not one.wanted[lane]:
            return f"leaves out element {element} of {place.name}"
        touched = f"{one.does} element {got} of {place.name}"
        if not meant.wanted[lane]:
            return f"{touched}, which its mask leaves out in 64 bits"
        return f"{touched}, where {element} is meant"


def _are_alike(one: Access, meant: Access) -> bool:
    """Whether both touch the same elements."""
    return (
        one.addresses.shape == meant.addresses.shape
        and np.array_equal(one.wanted, meant.wanted)
        and np.array_equal(one.addresses[one.wanted], meant.addresses[meant.wanted])
    )


def _converted(original: Callable, argument: object) -> object:
    result = original(argument)
    if isinstance(argument, int):  # Triton takes some of 64 bits for unsigned ones of 32
        result.handle.data = np.array([argument], interpreter._get_np_dtype(result.dtype))
    return result


def _shorten_loops(kernel: object) -> Callable[[], None]:
    """Let long loops of a kernel, and of those it calls, take their first and last turns alone."""
    kinds, todo = [], [kernel.fn]
    while todo:
        names = todo.pop().__globals__
        if any(names is known for known in kinds):
            continue
        kinds.append(names)
        todo += [x.fn for x in names.values() if type(x) is type(kernel)]
    had = [(names, names.get("range")) for names in kinds]
    for names in kinds:
        if "range" not in names:
            names["range"] = _some_turns

    def undo() -> None:
        for names, before in had:
            if before is None:
                del names["range"]

    return undo


def _some_turns(*limits: object) -> Iterator[tl.tensor]:
    """Of a loop; the interpreter counts in Python's integers, a GPU in those of the limits."""
    as_tensor = interpreter.interpreter_semantic.to_tensor
    bits = [as_tensor(limit).dtype.int_bitwidth for limit in limits]
    kind, turns = (tl.int64 if 64 in bits else tl.int32), range(*limits)
    if len(turns) > 2 * _TURNS:
        turns = itertools.chain(turns[:_TURNS], turns[-_TURNS:])
    for turn in turns:
        yield tl.tensor(TensorHandle(np.array([turn], interpreter._get_np_dtype(kind)), kind), kind)


def _some_turns_of_triton(*limits: object, step: object = None, **options) -> Iterator[tl.tensor]:
    return _some_turns(*limits, *(() if step is None else (step,)))


def _own_dtype(kind: tl.dtype) -> type | None:
    """NumPy's, of what is widened; None of anything else."""
    return _WIDENED.get(kind.scalar.name)


def _dtype_in_memory(kind: tl.dtype) -> np.dtype:
    return np.dtype(_own_dtype(kind) or interpreter._get_np_dtype(kind))


def _wide_dtype(original: Callable, kind: tl.dtype) -> np.dtype:
    return np.dtype(np.int64) if _own_dtype(kind) else original(kind)


def _has_a_size_that_fits(original: Callable, data: np.ndarray, kind: tl.dtype) -> bool:
    return bool(_own_dtype(kind) and data.dtype == np.int64) or original(data, kind)


def _widened(original: Callable, *given) -> TensorHandle:
    result = original(*given)
    result.data = result.data.astype(np.int64)
    return result


def _bits_as_they_are(original: Callable, builder, source, kind) -> TensorHandle:
    bits = source.data.astype(_own_dtype(source.dtype) or source.data.dtype)
    data = bits.view(_dtype_in_memory(kind)).astype(interpreter._get_np_dtype(kind))
    return TensorHandle(data, kind.scalar)
