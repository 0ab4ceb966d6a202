"""Hooks for what interpreted launches do: programs, loads, stores and functions, in order.

Triton's interpreter runs programs one by one, and everything that a kernel does goes through a few
of its functions. They are wrapped while `Hooks` are open. The wrappers call the methods `at_...`,
which a subclass overrides: `Trace` finds owners and races, `Watch` counts, `Accesses` keeps
lanes for a picture, and offsets.py looks for numbers that wrap around. An access outside the
tensors of the launch is stopped before it happens. In the interpreter, as on a GPU, it would read
or overwrite arbitrary memory, or crash the process.
"""

import linecache
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import triton
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from triton import language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import (
    GridExecutor,
    InterpreterBuilder,
    TensorHandle,
    _get_np_dtype,
)

from ..interpreter.as_compiled import takes_tf32
from ..run import ONE_AT_A_TIME, tensors_in
from . import on_a_gpu
from .verdict import Fault

_TRITON = str(Path(triton.__file__).parent)
_LAB = Path(__file__).parents[1]
# no kernel is in these
_TOOLS = (_TRITON, *(str(_LAB / name) for name in ("judge", "interpreter", "run.py")))
# Each moves elements between lanes, which wait for each other then.
_MOVES = [
    *((InterpreterBuilder, f"create_{name}") for name in ("dot", "histogram")),
    *((InterpreterBuilder, f"create_{name}") for name in ("reshape", "trans", "gather")),
    *((InterpreterBuilder, f"create_{name}") for name in ("cat", "join", "split")),
    *((kind, "apply_impl") for kind in (interpreter.ReduceOps, interpreter.ScanOps)),
]
_BF16_NAN = 0x7FC0  # the interpreter keeps the bits of bf16 as integers


class LeftItsTensors(Exception):
    """A program accessed memory outside the tensors of the launch."""

    def __init__(self, program: tuple, does: str, where: str) -> None:
        super().__init__(f"{name_of(program)} {does} {where}")
        self.program, self.does = program, does


class DiffersOnAGpu(Exception):
    """The interpreter runs what a GPU does in another way, or refuses (`on_a_gpu.py`)."""


class Memory:
    """The storage of a tensor that was passed to a kernel."""

    def __init__(self, name: str, tensor: Tensor, begin: int | None = None) -> None:
        """`name`: of the kernel's argument. `begin`: an address to use instead of its own."""
        self.name = name
        self.tensor = tensor  # kept alive: an address is not used twice
        storage = tensor.untyped_storage()
        self.begin = storage.data_ptr() if begin is None else begin
        self.end = self.begin + storage.nbytes()


@dataclass(frozen=True)
class Access:
    """A load, a store or an atomic update of a block; it has not happened yet.

    Attributes:
        does: "loads", "stores" or "updates".
        addresses: one for each lane.
        wanted: for each lane, whether its mask is true.
        size: bytes of an element.
        values: what each lane stores; None for loads and updates.
        has_bf16: whether elements are bf16.
        has_other: whether a load has a value for lanes that are masked off.
        may_wait: whether its program may wait for another one with it: volatile loads, atomic_cas.
        through: the address of the argument to which an index was added; None if it isn't known.
    """

    does: str
    addresses: np.ndarray
    wanted: np.ndarray
    size: int
    values: np.ndarray | None = None
    has_bf16: bool = False
    has_other: bool = True
    may_wait: bool = False
    through: int | None = None

    @classmethod
    def of(cls, does: str, pointers: TensorHandle, mask: TensorHandle | None, **more) -> "Access":
        """From the interpreter's block of pointers, and its mask; None means no mask."""
        addresses, element = pointers.data.astype(np.int64), pointers.get_element_ty()
        wanted = np.broadcast_to(True if mask is None else mask.data, addresses.shape).astype(bool)
        size = max(1, element.primitive_bitwidth // 8)
        more |= {"has_bf16": element.is_bf16(), "through": _origin(pointers)}
        return cls(does, addresses, wanted, size, **more)

    def inside(self, memory: Memory) -> np.ndarray:
        """For each lane, whether its element is there."""
        return (self.addresses >= memory.begin) & (self.addresses + self.size <= memory.end)


@dataclass(frozen=True)
class Part:
    """What an access touches of one memory.

    Attributes:
        at: the beginning of each element, in bytes from the beginning of the memory.
        size: bytes of an element.
        which: for each lane of the block, whether its element is one of these.
    """

    memory: Memory
    at: np.ndarray
    size: int
    which: np.ndarray

    def element(self, at: int) -> str:
        """'element 3 of x_ptr', which begins there."""
        return f"element {at // self.size} of {self.memory.name}"


class Hooks:
    """Called for everything that launches do while the hooks are open.

    Attributes:
        programs: all that have run, in order; the last one is running.
        memories: the tensors' memories in all launches.
    """

    functions: ClassVar[tuple[str, ...]] = ()  # the ones that call `at_function`
    memory_of: ClassVar[Callable[[str, Tensor], Memory]] = Memory

    def __init__(self) -> None:
        self.programs: list[tuple[int, int, int]] = []
        self.memories: list[Memory] = []

    def hooks(self) -> list[tuple[object, str, Callable]]:
        """Functions of the interpreter, each with its wrapper."""
        return [
            (GridExecutor, "__call__", self._launch),
            (InterpreterBuilder, "set_grid_idx", self._program),
            (InterpreterBuilder, "create_masked_load", self._load),
            (InterpreterBuilder, "create_masked_store", self._store),
            (InterpreterBuilder, "create_atomic_rmw", self._update),
            (InterpreterBuilder, "create_atomic_cas", self._exchange),
            (InterpreterBuilder, "create_barrier", self._then(self.at_barrier)),
            (interpreter, "_patch_lang_tensor", convert_as_compiled),
            (interpreter, "_implicit_cvt", self._argument),
            (InterpreterBuilder, "create_select", self._select),
            (InterpreterBuilder, "create_dot", self._dot),
            (TensorHandle, "set_attr", self._hint),
            *(
                (InterpreterBuilder, f"create_{name}", self._refused(words, when))
                for name, words, when in (
                    ("cat", on_a_gpu.CAT, lambda *blocks: True),
                    ("reshape", on_a_gpu.RESHAPE, lambda block, shape, can_reorder: can_reorder),
                    ("assume", on_a_gpu.ASSUMED, lambda condition: not condition.data.all()),
                    ("make_tensor_descriptor", on_a_gpu.NO_ALLOCATOR, self._needs_an_allocator),
                )
            ),
            *((owner, name, self._then(self.at_barrier)) for owner, name in _MOVES),
            *((InterpreterBuilder, f"create_{f}", self._function(f)) for f in self.functions),
        ]

    def __enter__(self):
        ONE_AT_A_TIME.acquire()  # launches of other threads aren't this one's
        # some versions of Triton lack some of them
        self._undo = [wrap(*hook) for hook in self.hooks() if hasattr(*hook[:2])]
        return self

    def __exit__(self, *_) -> None:
        try:
            for undo in reversed(self._undo):
                undo()
        finally:
            ONE_AT_A_TIME.release()

    # what a subclass may override

    def at_launch(self, kernel: Callable, named: dict[str, object]) -> None:
        """`named`: its arguments and options, by their names."""

    def at_end(self, named: dict[str, object]) -> None:
        """All programs of a launch have run. `named`: as in `at_launch`."""

    def at_program(self) -> None:
        """The last one of `programs` begins."""

    def at_access(self, access: Access) -> None:
        """Called before `at_part`."""

    def at_part(self, access: Access, part: Part) -> None:
        """The part of an access that is in one memory."""

    def at_barrier(self) -> None:
        """Lanes of the program wait for each other."""

    def at_function(self, name: str, block: np.ndarray) -> None:
        """One of `functions` is called with a block."""

    def at_dot(self, flops: int, takes_tf32: bool) -> None:
        """A product of matrices. `takes_tf32`: of fp32, and a GPU drops the last bits of both."""

    def differs(self, words: str) -> None:
        """A GPU does in another way what the kernel's line says."""
        raise DiffersOnAGpu(f"{Fault.ON_A_GPU.value}: {words}, at: {line_of_the_kernel()}")

    def program_of(self, program: tuple, grid: tuple) -> tuple:
        """Which program runs instead of this one."""
        return program

    def what_runs(self, access: Access, outside: np.ndarray) -> np.ndarray:
        """For each lane, whether its access happens; those in `outside` would leave the tensors."""
        if outside.any():
            does = "reads" if access.does == "loads" else "writes"
            first = int(access.addresses[outside][0])
            where = self.place_of(first, access.size, access.through)
            raise LeftItsTensors(self.programs[-1], does, where)
        return access.wanted

    def not_loaded(self, pointers: TensorHandle) -> TensorHandle:
        """What a load without `other` returns for a masked lane; on a GPU it is undefined."""
        zeros = np.zeros_like(pointers.data, dtype=_get_np_dtype(pointers.get_element_ty()))
        anything = np.nan if zeros.dtype.kind == "f" else np.iinfo(zeros.dtype).max // 3
        if pointers.get_element_ty().is_bf16():
            anything = _BF16_NAN
        return TensorHandle(np.full_like(zeros, anything), pointers.get_element_ty())

    # what the interpreter does

    def _launch(self, original: Callable, executor, *args, **kwargs):
        named = dict(zip(executor.arg_names, args, strict=False)) | kwargs
        known = {memory.begin for memory in self.memories}
        for name, value in tensors_in(named):
            begin = value.untyped_storage().data_ptr()
            if begin not in known and value.untyped_storage().nbytes():
                known.add(begin)
                self.memories.append(self.memory_of(name, value))
        self._is_in_a_program = False
        self.at_launch(executor.fn, named)
        with _disable_current_modes():  # Triton's copies don't count as PyTorch's work
            original(executor, *args, **kwargs)
        self.at_end(named)

    def _program(self, original: Callable, builder, *program):
        self._is_in_a_program = True
        self.programs.append(self.program_of(program, builder.grid_dim))
        self.at_program()
        return original(builder, *self.programs[-1])

    def _at_lanes(self, access: Access) -> np.ndarray:
        """For each lane of an access, whether it happens."""
        self.at_access(access)
        outside = access.wanted.copy()
        for memory in self.memories:
            which = access.inside(memory) & access.wanted
            if which.any():
                outside &= ~which
                at = access.addresses[which] - memory.begin
                self.at_part(access, Part(memory, at, access.size, which))
        return self.what_runs(access, outside)

    def _load(self, original: Callable, builder, pointers, mask, other, *rest, **named):
        is_volatile = named.get("is_volatile", rest[-1:] == (True,))
        has_other = other is not None
        access = Access.of("loads", pointers, mask, has_other=has_other, may_wait=is_volatile)
        runs = self._at_lanes(access)
        given = other if has_other else self.not_loaded(pointers)
        left = access.wanted & ~runs
        if left.any():
            data = np.where(left, self.not_loaded(pointers).data, given.data)
            given = TensorHandle(data, given.dtype)
        return original(builder, pointers, TensorHandle(runs, tl.int1), given, *rest, **named)

    def _store(self, original: Callable, builder, pointers, value, mask, *rest, **named):
        values = np.broadcast_to(value.data, pointers.data.shape)
        runs = self._at_lanes(Access.of("stores", pointers, mask, values=values))
        return original(builder, pointers, value, TensorHandle(runs, tl.int1), *rest, **named)

    def _update(self, original: Callable, builder, op, pointers, value, mask, *rest):
        runs = self._at_lanes(Access.of("updates", pointers, mask))
        return original(builder, op, pointers, value, TensorHandle(runs, tl.int1), *rest)

    def _exchange(self, original: Callable, builder, pointers, *rest):
        """`tl.atomic_cas` has no mask, so an access outside the tensors can't be skipped."""
        access = Access.of("updates", pointers, None, may_wait=True)
        if not self._at_lanes(access).all():
            raise LeftItsTensors(self.programs[-1], "writes", "elsewhere")
        return original(builder, pointers, *rest)

    def _argument(self, original: Callable, argument: object) -> object:
        """Give a pointer a type of its own, which its blocks keep: it tells where they are from."""
        result = original(argument)
        if hasattr(argument, "data_ptr"):
            result.handle.dtype = copy(result.handle.dtype)
            result.handle.dtype.address = argument.data_ptr()
        return result

    def _select(self, original: Callable, builder, condition, x, y):
        chosen = original(builder, condition, x, y)
        if _origin(x) != _origin(y):  # of pointers
            chosen.dtype = tl.pointer_type(chosen.get_element_ty())
        return chosen

    def _dot(self, original: Callable, builder, a, b, total, precision, *rest):
        self.at_dot(2 * a.data.size * b.data.shape[-1], takes_tf32(a, precision))
        return original(builder, a, b, total, precision, *rest)

    def _refused(self, words: str, when: Callable[..., bool]) -> Callable:
        """Refuse a call of the builder with arguments that a GPU takes in another way."""

        def around(original: Callable, builder, *given, **named):
            if when(*given):
                self.differs(words)
            return original(builder, *given, **named)

        return around

    def _needs_an_allocator(self, *descriptor) -> bool:
        """One that is passed to a kernel, and so made before its first program, does not."""
        return self._is_in_a_program and not on_a_gpu.allocator_is_set()

    def _hint(self, original: Callable, block, attribute, given):
        numbers, step = block.data.astype(np.int64), 1
        if isinstance(block.dtype, tl.pointer_type):
            near = self._memory_of(int(numbers.flat[0]), _origin(block))
            numbers -= near.begin if near else 0
            step = max(1, block.get_element_ty().primitive_bitwidth // 8)
        if words := on_a_gpu.untrue_hint(attribute, given, numbers, step):
            self.differs(words)
        return original(block, attribute, given)

    def _function(self, name: str) -> Callable:
        def around(original: Callable, builder, x):
            self.at_function(name, x.data)
            return original(builder, x)

        return around

    def _then(self, tell: Callable[[], None]) -> Callable:
        def around(original: Callable, *args, **kwargs):
            tell()
            return original(*args, **kwargs)

        return around

    def _memory_of(self, address: int, through: int | None) -> Memory | None:
        """The memory of the argument at `through`; the nearest to the address if it isn't known."""
        at = address if through is None else through
        return min(self.memories, key=lambda m: max(m.begin - at, at - m.end + 1), default=None)

    # in words

    def place_of(self, address: int, size: int, through: int | None) -> str:
        """Where an address is, relative to the tensor that it was meant for."""
        near = self._memory_of(address, through)
        if near is None:
            return f"memory at {address}, and the launch has no tensor"
        element, count = (address - near.begin) // size, (near.end - near.begin) // size
        return f"element {element} of {near.name}, whose memory has elements 0 to {count - 1}"


def _origin(pointers: TensorHandle) -> int | None:
    """The address of the argument that pointers are from; None if it isn't known."""
    return getattr(pointers.dtype, "address", None)


def line_of_the_kernel() -> str:
    """The kernel's line that is being interpreted; '' if there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_TOOLS):
        frame = frame.f_back
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() if frame else ""


def name_of(program: tuple[int, int, int]) -> str:
    """'program 3', or 'program (3, 1)' of a grid with more dimensions."""
    return f"program {number_of(program)}"


def number_of(program: tuple[int, int, int]) -> int | tuple[int, ...]:
    """3, or (3, 1)."""
    while len(program) > 1 and program[-1] == 0:
        program = program[:-1]
    return program[0] if len(program) == 1 else program


def convert_as_compiled(original: Callable, tensor, scope) -> None:
    """Refuse a block as a truth value: the interpreter treats it as true, the compiler doesn't."""
    original(tensor, scope)

    def truth(self) -> bool:
        if self.handle.data.size == 1:
            return bool(self.handle.data)
        if sys._getframe(1).f_code.co_filename.startswith(_TRITON):
            return True  # Triton's own code checks whether there is a block
        raise ValueError(
            "a block has no one truth value: for and, or, not, if write &, |, ~, where"
        )

    scope.set_attr(tensor, "__bool__", truth)
    # for `range(0, n)`: Triton 3.6 converts an array of one element, which NumPy 2.4 refuses
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))


def wrap(owner: object, name: str, around: Callable) -> Callable[[], None]:
    """Call `around(original, ...)` instead of a function; returns a function that undoes this."""
    original = getattr(owner, name)
    setattr(owner, name, lambda *args, **options: around(original, *args, **options))
    return lambda: setattr(owner, name, original)
