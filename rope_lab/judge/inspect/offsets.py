"""Do a kernel's offsets fit into their integers, at a size whose tensors no memory here holds?

At that size every tensor has an address and no memory. Some programs of each launch run twice in
Triton's interpreter: with integers of 32 bits that wrap around, as a GPU's do, and with 64 bits in
their place. Nothing is stored; an element is 0, but for small tensors, which have their values.
Where the two runs touch other elements, a number did not fit, whatever else is right or wrong.
"""

import itertools
import linecache
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle
from triton.tools.tensor_descriptor import TensorDescriptor

from ..climb.instruments import Launch, launches_of
from ..climb.targets import number
from ..trace import convert_as_compiled, name_of, wrap
from ..verdict import raised
from .hollow import Hollow

_LARGE = 2**30  # bytes of a tensor; with fewer, every offset fits
_APART = 2**48  # bytes between two tensors: no offset of 32 bits leads from one to another
_FIRST = 2**56  # beyond all addresses that a process has
_TURNS = 4  # of a long loop, the first and the last ones
_ACCESSES = 1000  # of a program
_MORE_PROGRAMS = 12  # along the longest side of a grid
_SECONDS = 8.0  # for all of them
_WIDENED = {"int16": np.int16, "int32": np.int32}  # by their names in Triton
_LAB = Path(__file__).parents[2]
_TOOLS = (  # how paths begin where no line of a kernel is
    str(Path(triton.__file__).parent),
    str(_LAB / "judge"),
    str(_LAB / "interpreter"),
)


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
    if not any(place.nbytes >= _LARGE for one in launches for place in _places(one)):
        return {}
    try:
        try:
            with Hollow():
                launches = _launches(function, lambda: make(size, "cpu"))
        except Exception:  # it has asked a tensor without memory, or mixed devices
            pass  # then all values are 0
        late = time.monotonic() + _SECONDS
        for far in [_Far(launch, late) for launch in launches]:
            for program in far.some_programs():
                if found := far.wrapped(program):
                    kernel = far.launch.kernel.fn.__name__
                    return {"wrong": f"at size {size}: {name_of(program)} of {kernel} {found}"}
            if far.has_more:
                return {"unchecked": f"a program loads and stores more than {_ACCESSES} times"}
    except Exception as error:
        return {"unchecked": f"it {raised(_cause(error))}"}
    return {}


def _launches(function: Callable, make: Callable) -> list[Launch]:
    torch.manual_seed(0)
    inputs = make()
    return launches_of(lambda: function(*inputs))


@dataclass
class _Place:
    """A tensor of a launch, and where it is said to be."""

    name: str
    tensor: Tensor
    begin: int = 0  # of its storage

    @property
    def nbytes(self) -> int:
        return self.tensor.untyped_storage().nbytes()

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


def _places(launch: Launch) -> list[_Place]:
    found = []
    _replaced(launch.named, lambda name, tensor: found.append(_Place(name, tensor)))
    return found


def _replaced(value: object, by: Callable[[str, Tensor], object], name: str = "") -> object:
    """An argument with something else for each of its tensors."""
    if isinstance(value, Tensor):
        return by(name, value)
    if isinstance(value, TensorDescriptor):
        base = by(name, value.base)
        return value if base is None else replace(value, base=base)
    if isinstance(value, dict):
        return {key: _replaced(item, by, key) for key, item in value.items()}
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", range(len(value)))
        items = [_replaced(x, by, f"{name}.{k}") for k, x in zip(fields, value, strict=True)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


@dataclass
class _Access:
    """A load or a store of a block."""

    does: str  # 'reads' or 'writes'
    line: str
    addresses: np.ndarray
    wanted: np.ndarray  # what its mask lets through
    size: int  # bytes of an element

    def is_like(self, other: "_Access") -> bool:
        return (
            self.addresses.shape == other.addresses.shape
            and np.array_equal(self.wanted, other.wanted)
            and np.array_equal(self.addresses[self.wanted], other.addresses[other.wanted])
        )


class _Far:
    """A launch whose tensors have addresses and no memory."""

    def __init__(self, launch: Launch, late: float) -> None:
        self.launch, self.late, self.places = launch, late, []
        self.arguments = _replaced(launch.named, self._placed)
        self.accesses: list[_Access] = []
        self.has_more = False  # a program has made more than are compared
        self.too_large = ""  # the first line whose number needs 64 bits

    def _placed(self, name: str, tensor: Tensor) -> _Place:
        storage = tensor.untyped_storage()
        begins = {one.tensor.untyped_storage()._cdata: one.begin for one in self.places}
        fresh = _FIRST + len(self.places) * _APART
        self.places.append(_Place(name, tensor, begins.get(storage._cdata, fresh)))
        return self.places[-1]

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
        for place in self.places:
            x = place.tensor
            if not (x.is_meta or x.is_floating_point() or x.is_complex()) and x.numel():
                yield int(x.argmax())

    def wrapped(self, program: tuple[int, int, int]) -> str:
        """What an offset of a program leads to that has wrapped around; '' if none has."""
        as_on_a_gpu = self._accesses(program, wide=False)
        exact = self._accesses(program, wide=True)
        for one, meant in zip(as_on_a_gpu, exact, strict=False):
            if not one.is_like(meant):
                return f"{self._difference(one, meant)}: {self._because(meant.line)}"
        if len(as_on_a_gpu) != len(exact):
            last = max(as_on_a_gpu, exact, key=len)[-1]
            return f"takes another branch: {self._because(last.line)}"
        return ""

    def _accesses(self, program: tuple[int, int, int], wide: bool) -> list[_Access]:
        self.accesses, self.too_large = [], ""
        grid = (*self.launch.grid, 1, 1)[:3]
        hooks = [
            (GridExecutor, "_init_args_hst", lambda _, executor, args, named: (args, named)),
            (GridExecutor, "_restore_args_dev", lambda *_: None),
            (InterpreterBuilder, "set_grid_dim", lambda set, builder, *_: set(builder, *grid)),
            (InterpreterBuilder, "set_grid_idx", partial(_at_program, program)),
            (InterpreterBuilder, "create_masked_load", self._at_load),
            (InterpreterBuilder, "create_masked_store", self._at_store),
            (InterpreterBuilder, "create_atomic_rmw", self._at_atomic),
            (InterpreterBuilder, "create_atomic_cas", self._at_exchange),
            (interpreter, "_implicit_cvt", _converted),
            (interpreter, "_patch_lang_tensor", convert_as_compiled),
            *(self._hooks_of_64_bits() if wide else ()),
        ]
        with ExitStack() as stack, np.errstate(all="ignore"):
            for hook in hooks:
                stack.callback(wrap(*hook))
            stack.callback(_shorten_loops(self.launch.kernel))
            try:
                self.launch.kernel.run(grid=(1, 1, 1), warmup=False, **self.arguments)
            except Exception as error:
                if not isinstance(_cause(error), _Enough):
                    raise
                self.has_more = True
        return self.accesses

    # what a program touches

    def _note(self, does: str, pointers: TensorHandle, mask: object) -> np.ndarray:
        if time.monotonic() > self.late:
            raise TimeoutError(f"it takes more than {_SECONDS:.0f} s")
        addresses = pointers.data.astype(np.int64)
        given = True if mask is None else np.asarray(mask.data)
        wanted = np.broadcast_to(given, addresses.shape).astype(bool)
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        self.accesses.append(_Access(does, _line(), addresses, wanted, size))
        if len(self.accesses) == _ACCESSES:
            raise _Enough
        return wanted

    def _at_load(self, _, builder, pointers, mask, other, *rest, **named) -> TensorHandle:
        wanted, kind = self._note("reads", pointers, mask), pointers.get_element_ty()
        data = self._values(pointers.data.astype(np.int64), kind)
        if other is not None:
            data = np.where(wanted, data, other.data).astype(data.dtype)
        return TensorHandle(data, kind)

    def _values(self, addresses: np.ndarray, kind: tl.dtype) -> np.ndarray:
        """What small tensors have there; 0 elsewhere."""
        data = np.zeros(addresses.shape, _dtype_in_memory(kind))
        for place in self.places:
            if place.tensor.is_meta:
                continue
            at = addresses - place.begin
            inside = (at >= 0) & (at + data.itemsize <= place.nbytes)
            if inside.any():
                memory = torch.empty(0, dtype=torch.uint8).set_(place.tensor.untyped_storage())
                bytes_of_each = memory.numpy()[at[inside][:, None] + np.arange(data.itemsize)]
                data[inside] = bytes_of_each.view(data.dtype)[:, 0]
        return data.astype(interpreter._get_np_dtype(kind))

    def _at_store(self, _, builder, pointers, value, mask, *rest, **named) -> None:
        self._note("writes", pointers, mask)

    def _at_atomic(self, _, builder, op, pointers, value, mask, *rest) -> TensorHandle:
        self._note("writes", pointers, mask)
        return TensorHandle(np.zeros_like(value.data), value.dtype.scalar)

    def _at_exchange(self, _, builder, pointers, compared, *rest) -> TensorHandle:
        self._note("writes", pointers, None)
        return TensorHandle(compared.data.copy(), compared.dtype.scalar)  # it is as was hoped

    # integers of 64 bits under the names of shorter ones

    def _hooks_of_64_bits(self) -> Iterator[tuple[object, str, Callable]]:
        yield interpreter, "_get_np_dtype", _wide_dtype
        if hasattr(interpreter, "_validate_np_data_size"):  # since Triton 3.6
            yield interpreter, "_validate_np_data_size", _has_a_size_that_fits
        for name in ("get_program_id", "get_num_programs", "make_range", "histogram"):
            yield InterpreterBuilder, f"create_{name}", _widened
        yield InterpreterBuilder, "create_bitcast", _bits_as_they_are
        yield InterpreterBuilder, "cast_impl", self._at_cast
        yield InterpreterBuilder, "binary_op", self._at_operation

    def _at_cast(self, original: Callable, builder, source, kind) -> TensorHandle:
        result = original(builder, source, kind)
        own = _own_dtype(kind)
        if own and source.dtype.scalar.is_int_unsigned():
            result.data = result.data.astype(own).astype(np.int64)
        return self._noted(result)

    def _at_operation(self, original: Callable, builder, *given) -> TensorHandle:
        return self._noted(original(builder, *given))

    def _noted(self, result: TensorHandle) -> TensorHandle:
        kind = _own_dtype(result.dtype)
        is_wide = kind and result.data.dtype == np.int64
        if is_wide and not self.too_large and (result.data != result.data.astype(kind)).any():
            self.too_large = _line()
        return result

    # in words

    def _because(self, line: str) -> str:
        return (
            f"a number beyond 2^31 wraps around in 32 bits, at: {self.too_large or line}; "
            "widen an index before it is multiplied, as tl.program_id(0).to(tl.int64)"
        )

    def _difference(self, one: _Access, meant: _Access) -> str:
        kinds = [(access.does, access.size, access.addresses.shape) for access in (one, meant)]
        if kinds[0] != kinds[1]:
            return "takes another branch"
        moved = meant.wanted & (one.addresses != meant.addresses)
        lane = tuple(axis[0] for axis in np.nonzero(moved | (one.wanted != meant.wanted)))
        place = self._place_of(int(meant.addresses[lane]))
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

    def _place_of(self, address: int) -> _Place:
        """The tensor that begins last before an address: two may share a storage."""
        before = [place for place in self.places if place.first <= address]
        return max(before or self.places, key=lambda place: place.first)


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


def _at_program(program: tuple, original: Callable, builder, *_) -> None:
    original(builder, *program)
    tl.range = _some_turns_of_triton  # it is the interpreter's own until this launch is over


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


def _line() -> str:
    """The line of the kernel that is being interpreted."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_TOOLS):
        frame = frame.f_back
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() if frame else ""


def _cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
