"""Do a kernel's offsets fit into their integers at a size whose tensors don't fit in memory here?

At that size, a large tensor has an address but no memory: its elements are 0, and nothing is
stored. Small tensors have their values. Some programs of each launch run in Triton's interpreter,
whose 32-bit integers wrap around as on a GPU. An offset that doesn't fit is off by 2^32 elements.
Tensors are so far apart that such an offset never points into another tensor.
"""

import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle

from ...compiler.launches import Launch, launches_of
from ...run import interpreting, replaced
from ..climb.targets import number
from ..hooks import Access, Hooks, Memory, line_of_the_kernel, name_of
from ..verdict import cause_of, raised

_LARGE = 2**30  # bytes of a tensor; with fewer, every offset fits
_APART = 2**48  # bytes between two tensors
_FIRST = 2**56  # beyond all addresses of a process
_AROUND = 2**32  # a wrapped offset is off by a multiple of so many elements
_A_BLOCK = 2**20  # elements: a lane that is masked off is at most so far past its tensor
_ACCESSES = 1000  # per program
_MORE_PROGRAMS = 12  # along the longest side of a grid
_SECONDS = 8.0  # for all of them
# The largest tensors with values, in bytes: slots of tokens, beginnings of sequences.
_MOST_FLOATS, _MOST_INTEGERS = 2**20, 2**28


class _Enough(Exception):
    """A program has made as many accesses as are checked."""


class _Wrapped(Exception):
    """An offset has wrapped around; the message says what it leads to."""


def wrapped_offset(function: Callable, make: Callable, size: int) -> dict[str, str]:
    """What is `wrong` with the offsets of a function's launches at that size.

    Empty if nothing is wrong; `unchecked` with a reason if that isn't known.
    """
    try:
        launches = _launches(function, lambda: make(size, "meta"))
    except Exception:  # whatever a function may raise; `inspect` gets the same error and reports it
        return {}
    if not any(place.nbytes >= _LARGE for one in launches for place in _FarTensors(one).memories):
        return {}
    try:
        try:
            with _LargeOnMeta():
                launches = _launches(function, lambda: make(size, "cpu"))
        except Exception:  # it has read a tensor without memory, or mixed devices
            pass  # then all values are 0
        late = time.monotonic() + _SECONDS
        for far in [_FarTensors(launch, late) for launch in launches]:
            for program in far.some_programs():
                if found := far.wrapped(program):
                    kernel = far.launch.kernel.fn.__name__
                    return {"wrong": f"at size {size}: {name_of(program)} of {kernel} {found}"}
            if far.unchecked:
                return {"unchecked": far.unchecked}
    except Exception as error:
        return {"unchecked": f"it {raised(cause_of(error))}"}
    return {}


def _launches(function: Callable, make: Callable) -> list[Launch]:
    torch.manual_seed(0)
    inputs = make()
    return launches_of(lambda: function(*inputs))


class _LargeOnMeta(TorchDispatchMode):
    """In this mode, PyTorch creates large tensors on the meta device, not the requested one."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        if any(x.is_meta for x in tensors) or _makes_too_much(func, tensors, args, kwargs):
            return _without_memory(func, args, kwargs)
        return func(*args, **kwargs)


def _makes_too_much(func: Callable, tensors: list[Tensor], args: tuple, kwargs: dict) -> bool:
    if any(result.alias_info for result in func._schema.returns):
        return False  # a view, or an input that is overwritten
    try:
        made = tree_leaves(_without_memory(func, args, kwargs))
    except (NotImplementedError, RuntimeError):
        if not tensors:
            raise
        return False  # its size depends on values, which are here
    return any(
        x.nbytes > (_MOST_FLOATS if x.is_floating_point() else _MOST_INTEGERS)
        for x in made
        if isinstance(x, Tensor)
    )


def _without_memory(func: Callable, args: tuple, kwargs: dict) -> object:
    def on_meta(x: object) -> object:
        if isinstance(x, Tensor):
            return x.to("meta")
        return torch.device("meta") if isinstance(x, torch.device) else x

    kwargs = kwargs | dict.fromkeys({"generator", "pin_memory"} & kwargs.keys())
    return func(*tree_map(on_meta, args), **tree_map(on_meta, kwargs))


class _Place(Memory):
    """A tensor of a launch, and its made-up address."""

    @property
    def nbytes(self) -> int:
        return self.end - self.begin

    @property
    def first(self) -> int:
        """The address of its first element."""
        return self.begin + self.tensor.storage_offset() * self.tensor.element_size()

    # what Triton reads of a tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    def data_ptr(self) -> int:
        return self.first


class _FarTensors(Hooks):
    """A launch whose large tensors have addresses but no memory.

    Attributes:
        unchecked: why it isn't known whether its offsets fit; '' if it is.
    """

    memories: list[_Place]

    def __init__(self, launch: Launch, late: float = 0.0) -> None:
        """`late`: when to stop."""
        super().__init__()
        self.launch, self.late, self.unchecked = launch, late, ""
        self.arguments = replaced(launch.named, self._placed)
        self._program_here = (0, 0, 0)
        # of this program: its accesses; the first line whose number wraps around; and whether a
        # load or a store of it is masked off as a whole
        self._accesses, self._too_large, self._is_idle = 0, "", False

    def _placed(self, name: str, tensor: Tensor) -> _Place:
        begins = {one.tensor.untyped_storage()._cdata: one.begin for one in self.memories}
        fresh = _FIRST + len(self.memories) * _APART if tensor.is_meta else None
        begin = begins.get(tensor.untyped_storage()._cdata, fresh)
        self.memories.append(_Place(name, tensor, begin))
        return self.memories[-1]

    def some_programs(self) -> Iterator[tuple[int, int, int]]:
        """Those at the ends and in the middle of a grid, then more along its longest side.

        Among them are the positions of the largest integers in small tensors, which may be indices.
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
        """What a program accesses by an offset that has wrapped around; '' if none has."""
        self._program_here = program
        self._accesses, self._too_large, self._is_idle = 0, "", False
        with self, interpreting(), np.errstate(all="ignore"):
            try:
                self.launch.kernel.run(grid=(1, 1, 1), warmup=False, **self.arguments)
            except Exception as error:
                cause = cause_of(error)
                if isinstance(cause, _Wrapped):
                    return str(cause)
                if not isinstance(cause, _Enough):
                    raise
                self.unchecked = f"a program loads and stores more than {_ACCESSES} times"
        if self._too_large and (self._is_idle or not self._accesses):
            words = "a number wraps around in 32 bits, and nothing is loaded or stored then"
            self.unchecked = f"{words}, at: {self._too_large}"
        return ""

    def hooks(self) -> list[tuple[object, str, Callable]]:
        grid = (*self.launch.grid, 1, 1)[:3]
        return [
            *super().hooks(),
            (GridExecutor, "_init_args_hst", lambda _, executor, args, named: (args, named)),
            (GridExecutor, "_restore_args_dev", lambda *_: None),
            (InterpreterBuilder, "set_grid_dim", lambda set, builder, *_: set(builder, *grid)),
            (InterpreterBuilder, "binary_op", self._operation),
            (interpreter, "_implicit_cvt", _converted),
        ]

    def program_of(self, program: tuple, grid: tuple) -> tuple:
        return self._program_here

    def at_access(self, access: Access) -> None:
        if time.monotonic() > self.late:
            raise TimeoutError(f"it takes more than {_SECONDS:.0f} s")
        self._accesses += 1
        self._is_idle |= not access.wanted.any()
        if self._accesses == _ACCESSES:
            raise _Enough

    def what_runs(self, access: Access, outside: np.ndarray) -> np.ndarray:
        for address in access.addresses[outside].tolist():
            if where := self._where(address, access):
                line = self._too_large or line_of_the_kernel()
                why = f"a number beyond 2^31 wraps around in 32 bits, at: {line}; widen an index "
                why += "before it is multiplied, as tl.program_id(0).to(tl.int64)"
                raise _Wrapped(f"{where}: {why}")
        there = [access.inside(place) for place in self.memories if not place.tensor.is_meta]
        return access.wanted & np.any(there, axis=0)

    def differs(self, words: str) -> None:
        """Small sizes tell it. Here, what a kernel loads isn't known."""

    def not_loaded(self, pointers: TensorHandle) -> TensorHandle:
        kind = pointers.get_element_ty()
        return TensorHandle(np.zeros_like(pointers.data, interpreter._get_np_dtype(kind)), kind)

    def _operation(self, original: Callable, builder, left, right, operation) -> TensorHandle:
        result = original(builder, left, right, operation)
        if not self._too_large and result.data.dtype == np.int32:
            exact = operation(left.data.astype(np.int64), right.data.astype(np.int64))
            if (exact != result.data).any():
                self._too_large = line_of_the_kernel()
        return result

    def _where(self, address: int, access: Access) -> str:
        """What a wrapped offset accesses; '' if unknown values, not an overflow, lead there."""
        near = min(self.memories, key=lambda place: abs(address - place.begin))
        around = _AROUND * access.size
        meant = address + around * max(1, -((address - near.begin) // around))
        if not near.tensor.is_meta or meant >= near.end + _A_BLOCK * access.size:
            return ""
        # two may share a storage
        before = [place for place in self.memories if place.first <= meant]
        place = max(before, key=lambda place: place.first)
        got, element = (number((at - place.first) // access.size) for at in (address, meant))
        touched = f"{'reads' if access.does == 'loads' else 'writes'} element {got} of {place.name}"
        if meant >= near.end:
            return f"{touched}, which its mask leaves out in 64 bits"
        is_sure = meant + around >= near.end
        return f"{touched}, where {element} is meant" if is_sure else f"{touched}, outside of it"


def _converted(original: Callable, argument: object) -> object:
    result = original(argument)
    if isinstance(argument, int):  # Triton treats some 64-bit integers as unsigned 32-bit ones
        result.handle.data = np.array([argument], interpreter._get_np_dtype(result.dtype))
    return result
