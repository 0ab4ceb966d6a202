"""Watch an interpreted kernel: which program stores where, and whether it leaves its tensors.

Triton's interpreter runs program after program, and every load and store of a kernel goes through
two of its functions. They are wrapped while a `Trace` is open. An access outside the tensors of the
launch is stopped before it happens, for in the interpreter as on a GPU it would read what happens
to lie there, or overwrite it, or end the process.
"""

import ctypes
import linecache
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
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
from triton.tools.tensor_descriptor import TensorDescriptor

from ..interpreter.bf16 import as_fp32
from .lanes import Lanes
from .launched import constants_of

NOBODY = -1
_RELEASED_EARLY = (
    "and released its lock before all its warps had stored: write tl.debug_barrier() between the "
    "store and the release"
)
_TRITON = str(Path(triton.__file__).parent)
# Each may be a barrier: it moves numbers from lane to lane.
_MOVES = [
    *((InterpreterBuilder, f"create_{name}") for name in ("dot", "histogram")),
    *((InterpreterBuilder, f"create_{name}") for name in ("reshape", "trans", "gather")),
    *((InterpreterBuilder, f"create_{name}") for name in ("cat", "join", "split")),
    *((kind, "apply_impl") for kind in (interpreter.ReduceOps, interpreter.ScanOps)),
]
_WARPS = 4  # of a program, where a launch doesn't say
_LANES_OF_A_WARP = 32
_BF16_NAN = 0x7FC0  # the interpreter keeps the bits of bf16 as integers


class LeftItsTensors(Exception):
    """A program touched memory that is none of the launch's."""

    def __init__(self, program: tuple, does: str, where: str) -> None:
        super().__init__(f"{name_of(program)} {does} {where}")
        self.program, self.does = program, does


class Memory:
    """The storage of a tensor that was passed to a kernel, and who stored there."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        """`name`: of the kernel's argument."""
        self.name = name
        self.tensor = tensor  # kept alive: an address is not used twice
        size = tensor.untyped_storage().nbytes()
        self.begin = tensor.untyped_storage().data_ptr()
        self.end = self.begin + size
        # of each byte: number of the program that was the last to store or load, or in a launch the
        # first to add atomically
        self.writer = np.full(size, NOBODY, dtype=np.int64)
        self.reader = np.full(size, NOBODY, dtype=np.int64)
        self.adder = np.full(size, NOBODY, dtype=np.int64)
        self.has_atomics = False
        self.shared = np.zeros(size, dtype=bool)  # have several programs of a launch loaded it?
        self.loaded_by, self.stored_by = Lanes(size), Lanes(size)  # of the program that runs
        # the same, before numbers moved between its lanes
        self.loaded_earlier, self.stored_earlier = Lanes(size), Lanes(size)
        # Of each byte: has the program that stored it done nothing after that to tell others so?
        # That is a barrier, and then an atomic operation.
        self.untold = np.zeros(size, dtype=bool)
        self.before_a_barrier: list[np.ndarray] = []  # places that the program has stored
        self.after_it: list[np.ndarray] = []
        # the bytes themselves, as they are now
        self.content = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self.begin))
        # "loaded" and "stored" -> bytes; what is masked off moves none
        self.moved: Counter[str] = Counter()
        # "loaded", "stored": was it once in another order than the lanes?
        self.out_of_order: set[str] = set()


@dataclass(frozen=True)
class Event:
    """What the first program did, in its order."""

    kind: str  # 'L' for a load, 'E' for a sine or a cosine, 'S' for a store
    line: str  # of the candidate's source
    of: str  # the tensor that is loaded or stored; of an evaluation, the shape of its block


@dataclass
class Trace:
    """What happened in all launches while it was open."""

    goes_on: bool = False  # past an access outside the tensors: it loads NaN, and stores nothing
    backwards: bool = False  # from the last program of a launch to the first one
    launches: int = 0
    waits: bool = False  # may a program wait for another one? By atomic_cas, or a volatile load
    undefined: bool = False  # whether a load without `other` had elements masked off
    programs: list[tuple[int, int, int]] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    races: list[str] = field(default_factory=list)
    # What would be races or collisions, if no lock orders these programs. Whether one does is not
    # known: a lock, or a counter, is an integer on which both did an atomic operation.
    locks: list[str] = field(default_factory=list)
    # where a lane meets what another lane of its program loads or stores, with no barrier between
    lane_races: list[str] = field(default_factory=list)
    # the same where it does no harm: in a program of one warp, or in a block that one warp stores
    in_one_warp: list[str] = field(default_factory=list)
    # `constants_of` a launch -> the same where numbers move between lanes meanwhile, which may be a
    # barrier
    moves_between: dict[tuple, str] = field(default_factory=dict)
    reread: list[str] = field(default_factory=list)  # what a program reads after it has stored it
    stored_twice: list[str] = field(default_factory=list)  # in one launch
    # another value where the launch has stored one: right only in the order of here
    collisions: list[str] = field(default_factory=list)
    stores: Counter = field(default_factory=Counter)  # number of a program -> its stores
    evaluations: Counter = field(default_factory=Counter)  # of "sin" and "cos", element by element
    events: list[Event] = field(default_factory=list)  # of the first program
    _evaluated: dict = field(default_factory=dict)  # in this program
    _first_of_launch: int = 0
    _constants: tuple = ()
    _warps: int = _WARPS
    _met: dict[int, int] = field(default_factory=dict)  # address of a lock -> first program there
    _is_ordered: bool = False  # may a lock order this program after earlier ones?
    functions: ClassVar[tuple[str, ...]] = ("sin", "cos")  # whose calls are watched

    def owner_of(self, tensor: Tensor, index: tuple[int, ...]) -> str:
        """'program 3', which stored an element last, or 'no program'; '' if no kernel got it."""
        if (found := self._bytes_of(tensor)) is None:
            return ""
        memory, at = found
        writer = memory.writer[at].reshape(*tensor.shape, -1)[index][0]
        return "no program" if writer == NOBODY else name_of(self.programs[writer])

    def stored_in(self, tensor: Tensor) -> Tensor | None:
        """Which of its elements programs stored; None if no kernel got its memory."""
        if (found := self._bytes_of(tensor)) is None:
            return None
        memory, at = found
        stored = (memory.writer[at] != NOBODY) | (memory.adder[at] != NOBODY)
        return torch.from_numpy(stored).view(*tensor.shape, -1).all(-1)

    def _bytes_of(self, tensor: Tensor) -> tuple[Memory, np.ndarray] | None:
        """The memory that a kernel got, and which of its bytes are the tensor's."""
        begin = tensor.untyped_storage().data_ptr()
        memory = next((memory for memory in self.memories if memory.begin == begin), None)
        if memory is None:
            return None
        elements = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size())
        own = elements.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        first = own.flatten().numpy() * tensor.element_size()
        return memory, (first[:, None] + np.arange(tensor.element_size())).ravel()

    def __enter__(self) -> "Trace":
        self._undo = [
            wrap(GridExecutor, "__call__", self._at_launch),
            wrap(InterpreterBuilder, "set_grid_idx", self._at_program),
            wrap(InterpreterBuilder, "create_masked_load", self._at_load),
            wrap(InterpreterBuilder, "create_masked_store", self._at_store),
            wrap(InterpreterBuilder, "create_atomic_rmw", self._at_atomic),
            wrap(InterpreterBuilder, "create_atomic_cas", self._at_exchange),
            wrap(InterpreterBuilder, "create_barrier", self._at_barrier),
            wrap(interpreter, "_patch_lang_tensor", convert_as_compiled),
        ]
        for owner, name in _MOVES:
            if hasattr(owner, name):  # not every Triton has each
                self._undo.append(wrap(owner, name, self._at_move))
        for name in self.functions:
            around = partial(self._at_function, name)
            self._undo.append(wrap(InterpreterBuilder, f"create_{name}", around))
        return self

    def __exit__(self, *_) -> None:
        for undo in self._undo:
            undo()

    def _at_launch(self, original: Callable, executor, *args, **kwargs):
        self.launches += 1
        self._first_of_launch = len(self.programs)
        self._met.clear()
        for memory in self.memories:
            memory.shared[:] = False  # programs of two launches don't race
            memory.untold[:] = False
        named = dict(zip(executor.arg_names, args, strict=False)) | kwargs
        self._constants = constants_of(executor.fn, named)
        self._warps = named.get("num_warps") or _WARPS
        known = {memory.begin for memory in self.memories}
        for name, value in tensors_in(named):
            begin = value.untyped_storage().data_ptr()
            if begin not in known and value.untyped_storage().nbytes():
                known.add(begin)
                self.memories.append(Memory(name, value))
        with _disable_current_modes():  # what Triton copies is no work of PyTorch's
            return original(executor, *args, **kwargs)

    def _at_program(self, original: Callable, builder, x, y, z):
        if self.backwards:
            last = (size - 1 for size in builder.grid_dim)
            x, y, z = (end - here for end, here in zip(last, (x, y, z), strict=True))
        self.programs.append((x, y, z))
        self._evaluated.clear()
        self._is_ordered = False
        self._forget_lanes()
        for memory in self.memories:
            memory.before_a_barrier.clear()
            memory.after_it.clear()
        return original(builder, x, y, z)

    def _at_barrier(self, original: Callable, *args, **kwargs):
        self._forget_lanes()
        self._order_stores()
        return original(*args, **kwargs)

    def _at_move(self, original: Callable, *args, **kwargs):
        self._move()
        return original(*args, **kwargs)

    def _move(self) -> None:
        for memory in self.memories:
            memory.loaded_by.hand_over(memory.loaded_earlier)
            memory.stored_by.hand_over(memory.stored_earlier)
        self._order_stores()

    def _forget_lanes(self) -> None:
        for memory in self.memories:
            memory.loaded_by.forget()
            memory.stored_by.forget()
            memory.loaded_earlier.forget()
            memory.stored_earlier.forget()

    def _order_stores(self) -> None:
        for memory in self.memories:
            memory.before_a_barrier += memory.after_it
            memory.after_it.clear()

    def _tell_others(self) -> None:
        """An atomic operation of one thread: who meets it knows of what was before a barrier."""
        for memory in self.memories:
            for at in memory.before_a_barrier:
                memory.untold[at] = False
            memory.before_a_barrier.clear()

    def _note_lanes(self, does: str, memory: Memory, at: np.ndarray, size: int, which: np.ndarray):
        """Whether another lane has stored there or, where this one stores, has loaded."""
        by, earlier = memory.loaded_by, memory.loaded_earlier
        if does == "loads":
            by, earlier = memory.stored_by, memory.stored_earlier

        def words(met: tuple[int, str, str]) -> str:
            place, lane, other = met
            did = "stored" if does == "loads" else "loaded"
            where = f"element {place // size} of {memory.name}"
            who = f"in {name_of(self.programs[-1])}, {lane}"
            return f"{who} {does} {where}, which {other} has {did}, without a barrier between"

        is_in_one_warp = self._is_in_one_warp(which)
        found = self.in_one_warp if is_in_one_warp else self.lane_races
        if not found and (met := by.meet(at, which)):  # one is enough
            found.append(words(met))
        is_new = self._constants not in self.moves_between and not is_in_one_warp
        if is_new and (met := earlier.meet(at, which)):
            self.moves_between[self._constants] = words(met)

    def _is_in_one_warp(self, which: np.ndarray) -> bool:
        return self._warps == 1 or which.size <= _LANES_OF_A_WARP

    def _at_load(self, original: Callable, builder, pointers, mask, other, *rest, **named):
        is_volatile = named.get("is_volatile", rest[-1:] == (True,))
        for memory, at, size, which in self._touched(pointers, mask, "reads"):
            if is_volatile:
                self.waits = True
                self._meet(memory, at)
            self._count("loaded", memory, at, size, memory.reader)
            self._note("L", memory.name)
            self._note_where_others_update("reads", memory, at, size)
            self._note_lanes("loads", memory, at, size, which)
            memory.loaded_by.add(at, which)
            others = memory.writer[at]
            mine = len(self.programs) - 1
            memory.shared[at] |= self._by_others(memory.reader[at])
            memory.reader[at] = mine
            is_race = self._by_others(others).any()
            late = self._by_others(others) if is_race else others == mine
            if not late.any():
                continue
            element, writer = at[late][0] // size, self.programs[others[late][0]]
            reads = f"{name_of(self.programs[mine])} reads element {element} of {memory.name}"
            if is_race:
                words = f"{reads} after {name_of(writer)} has overwritten it"
                self._note_a_conflict(words, memory, at[late])
            else:
                self.reread.append(f"{reads} after it has overwritten it itself")
        if other is None:
            self.undefined |= not np.all(mask.data)
            other = _anything(pointers)
        if self.goes_on:
            other = self._nan_outside(pointers, mask, other)
            mask = self._inside(pointers, mask)
        return original(builder, pointers, mask, other, *rest, **named)

    def _at_store(self, original: Callable, builder, pointers, value, mask, *rest, **named):
        is_bf16 = pointers.get_element_ty().is_bf16()
        for memory, at, size, which in self._touched(pointers, mask, "writes"):
            stored = np.broadcast_to(value.data, pointers.data.shape)[which]
            self._note_a_second_store(memory, at, stored, is_bf16)
            self._note_a_store_where_others_load(memory, at, size)
            self._note_where_others_update("stores", memory, at, size)
            self._note_lanes("stores", memory, at, size, which)
            memory.stored_by.add(at, which)
            if not self._is_in_one_warp(which):
                memory.untold[at] = True
                memory.after_it.append(at)
            self._count("stored", memory, at, size, memory.writer)
            self._note("S", memory.name)
            self.stores[len(self.programs) - 1] += 1
            memory.writer[at[:, None] + np.arange(size)] = len(self.programs) - 1
        if self.goes_on:
            mask = self._inside(pointers, mask)
        return original(builder, pointers, value, mask, *rest, **named)

    def _count(self, kind: str, memory: Memory, at: np.ndarray, size: int, by: np.ndarray) -> None:
        """`by`: of each byte of the memory, which program was the last to do the same."""
        memory.moved[kind] += at.size * size
        if (np.diff(at) < 0).any():
            memory.out_of_order.add(kind)

    @property
    def scatters(self) -> bool:
        """Whether lanes load one after the other, and store in another order."""
        kinds = {kind for memory in self.memories for kind in memory.out_of_order}
        return kinds == {"stored"}

    def _by_others(self, programs: np.ndarray) -> np.ndarray:
        """Which of these programs are of this launch, and not the one that runs."""
        return (programs >= self._first_of_launch) & (programs != len(self.programs) - 1)

    def _note(self, kind: str, of: str) -> None:
        """Of the first program, what it does."""
        if len(self.programs) == 1:
            self.events.append(Event(kind, _line_of_the_candidate(), of))

    def _note_a_store_where_others_load(self, memory: Memory, at: np.ndarray, size: int) -> None:
        """Programs run in any order: had this one been first, another one would load its result."""
        late = self._by_others(memory.reader[at]) | memory.shared[at]
        if late.any():
            element = at[late][0] // size
            mine = name_of(self.programs[-1])
            words = f"{mine} overwrites element {element} of {memory.name}"
            self._note_a_conflict(f"{words}, which another program loads: before or after?")

    def _at_function(self, name: str, original: Callable, builder, x):
        """Of a block that a program has evaluated the compiler takes the result again.

        Where a load was masked off is NaN, or the 0 of `other=0.0`: no angle of a case is 0.
        """
        angles = x.data
        if name in Trace.functions and (name, id(angles)) not in self._evaluated:
            self._evaluated[name, id(angles)] = angles  # kept, for its id is not to be used again
            self._note("E", str(angles.shape))
            self.evaluations[name] += int((np.isfinite(angles) & (angles != 0)).sum())
        return original(builder, x)

    def _at_atomic(self, original: Callable, builder, op, pointers, value, mask, *rest):
        if self.goes_on:
            mask = self._inside(pointers, mask)
        self._at_update(pointers, mask, may_lock=pointers.data.size == 1)
        return original(builder, op, pointers, value, mask, *rest)

    def _at_exchange(self, original: Callable, builder, pointers, *rest):
        """`tl.atomic_cas` takes no mask, so past an access outside the tensors it can't go on."""
        everywhere = TensorHandle(np.ones(pointers.data.shape, dtype=bool), tl.int1)
        if self.goes_on and not self._inside(pointers, everywhere).data.all():
            raise LeftItsTensors(self.programs[-1], "writes", "elsewhere")
        self.waits = True
        self._at_update(pointers, everywhere, may_lock=True)
        return original(builder, pointers, *rest)

    def _at_update(self, pointers, mask, *, may_lock: bool) -> None:
        """Atomic operations of two programs at one place don't race, other accesses there do."""
        for memory, at, size, which in self._touched(pointers, mask, "writes"):
            self._note_lanes("updates", memory, at, size, which)
            memory.stored_by.add(at, which)
            self._note_a_store_where_others_load(memory, at, size)
            others = self._by_others(memory.writer[at])
            self._note_others("atomically updates", memory, at[others], size, "stores")
            if may_lock:
                self._meet(memory, at)
            self._count("stored", memory, at, size, memory.adder)
            memory.has_atomics = True
            first = at[~self._by_others(memory.adder[at])]
            memory.adder[first[:, None] + np.arange(size)] = len(self.programs) - 1
        if pointers.data.size == 1:
            self._tell_others()
            self._move()  # one thread does it, and hands the result to all of them

    def _meet(self, memory: Memory, at: np.ndarray) -> None:
        """At an integer that an earlier program has met, too, this one may have waited for it."""
        if not memory.tensor.is_floating_point():
            mine = len(self.programs) - 1
            addresses = (memory.begin + at).tolist()
            firsts = [self._met.setdefault(address, mine) for address in addresses]
            self._is_ordered |= any(first != mine for first in firsts)

    def _note_where_others_update(self, does: str, memory: Memory, at: np.ndarray, size: int):
        if memory.has_atomics:
            others = self._by_others(memory.adder[at])
            self._note_others(does, memory, at[others], size, "updates atomically")

    def _note_others(self, does: str, memory: Memory, at: np.ndarray, size: int, did: str) -> None:
        """`at`: where this program does something, and another one `did` something else."""
        if at.size:
            words = f"{name_of(self.programs[-1])} {does} element {at[0] // size} of {memory.name}"
            by = memory.adder if did == "updates atomically" else memory.writer
            other = name_of(self.programs[by[at[0]]])
            self._note_a_conflict(f"{words}, which {other} {did}: before or after?")

    def _note_a_conflict(
        self, words: str, memory: Memory | None = None, stored: np.ndarray | int = 0
    ) -> None:
        """Of this program with an earlier one of the launch, which has `stored` at some places."""
        if memory is not None and self._is_ordered and memory.untold[stored].any():
            self.races.append(f"{words}, {_RELEASED_EARLY}")
        else:
            (self.locks if self._is_ordered else self.races).append(words)

    def _note_a_second_store(
        self, memory: Memory, at: np.ndarray, values: np.ndarray, is_bf16: bool
    ) -> None:
        """An element that gets two values keeps one, and on a GPU nobody knows which.

        Programs run in any order, and within a program the threads of two stores may be different
        ones, of warps that do not wait for each other. Only the same value does no harm.
        """
        # of each lane: which program has stored at its place before it, and what
        writers = memory.writer[at]
        if (writers == len(self.programs) - 1).any():  # before a barrier no store is too late
            writers[(writers == len(self.programs) - 1) & ~memory.stored_by.has(at)] = NOBODY
        old = memory.content[at[:, None] + np.arange(values.itemsize)].view(values.dtype)[:, 0]
        before, again = lanes_that_repeat(at)
        writers[again] = len(self.programs) - 1
        old[again] = values[before]
        twice = writers >= self._first_of_launch
        if not twice.any():
            return
        new = values
        if is_bf16:  # NumPy has none, so the interpreter keeps its bits
            old, new = as_fp32(old), as_fp32(new)
        # NaN is the same as NaN
        differs = twice & (old != new) & ~((old != old) & (new != new))
        one = (differs if differs.any() else twice).argmax()
        who, mine = self.programs[writers[one]], self.programs[-1]
        place = f"element {at[one] // values.itemsize} of {memory.name}"
        words = f"{name_of(mine)} stores {place} twice"
        if who != mine:
            words = f"programs {_number(who)} and {_number(mine)} store {place}"
        both = f"{float(old[one]):.3g} and then {float(new[one]):.3g}"
        collision = f"{words}, {both}: which one stays is undefined on a GPU"
        if who != mine and self._is_ordered:
            self._note_a_conflict(collision, memory, at[one])
            return
        self.stored_twice.append(words)
        if differs.any():
            self.collisions.append(collision)

    def _touched(self, pointers, mask, does: str):
        """For each memory that an access touches: it, offsets in bytes, bytes an element, and
        which elements of the block these are."""
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        wanted = np.broadcast_to(mask.data, pointers.data.shape).astype(bool)  # one for all, too
        addresses = pointers.data[wanted].astype(np.int64)
        left = np.ones(addresses.shape, dtype=bool)
        for memory in self.memories:
            inside = (addresses >= memory.begin) & (addresses + size <= memory.end)
            if inside.any():
                left &= ~inside
                which = np.zeros(wanted.shape, dtype=bool)
                which[wanted] = inside
                yield memory, addresses[inside] - memory.begin, size, which
        if left.any() and not self.goes_on:
            program = self.programs[-1]
            raise LeftItsTensors(program, does, self._place(int(addresses[left][0]), size))

    def _inside(self, pointers, mask) -> TensorHandle:
        """The mask without lanes outside the tensors."""
        address = pointers.data.astype(np.int64)
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        inside = np.zeros(address.shape, dtype=bool)
        for memory in self.memories:
            inside |= (address >= memory.begin) & (address + size <= memory.end)
        return TensorHandle(inside & np.broadcast_to(mask.data, address.shape), tl.int1)

    def _nan_outside(self, pointers, mask, other) -> TensorHandle:
        """What a load gives where it is masked off; anything where it leaves the tensors."""
        inside = self._inside(pointers, mask).data
        left = np.broadcast_to(mask.data, inside.shape).astype(bool) & ~inside
        given = np.broadcast_to(other.data, inside.shape)
        return TensorHandle(np.where(left, _anything(pointers).data, given), other.dtype)

    def _place(self, address: int, size: int) -> str:
        """Where an address lies, seen from the nearest tensor of the launch."""
        if not self.memories:
            return f"memory at {address}, and the launch has no tensor"
        near = min(self.memories, key=lambda m: max(m.begin - address, address - m.end + 1))
        element, count = (address - near.begin) // size, (near.end - near.begin) // size
        return f"element {element} of {near.name}, whose memory has elements 0 to {count - 1}"


def lanes_that_repeat(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which lanes of a store go to the place of an earlier lane: those earlier ones, and these.

    Of lanes that store at 0, 4, 0, 8, 0, number 2 repeats number 0, and number 4 number 2:

        lanes_that_repeat(np.array([0, 4, 0, 8, 0]))  # (array([0, 2]), array([2, 4]))
    """
    order = np.argsort(at, kind="stable")  # lanes of one place are neighbors, the first one first
    lanes, next_lanes = order[:-1], order[1:]
    is_repeated = at[lanes] == at[next_lanes]
    return lanes[is_repeated], next_lanes[is_repeated]


def _line_of_the_candidate() -> str:
    """The line of a reader's kernel that is being interpreted; empty if it is not a candidate's."""
    frame = sys._getframe(1)
    while frame is not None and "candidate_" not in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None:
        return ""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


def name_of(program: tuple[int, int, int]) -> str:
    """'program 3', or 'program (3, 1)' of a grid with more dimensions."""
    return f"program {_number(program)}"


def _number(program: tuple[int, int, int]) -> int | tuple[int, ...]:
    while len(program) > 1 and program[-1] == 0:
        program = program[:-1]
    return program[0] if len(program) == 1 else program


def _anything(pointers) -> TensorHandle:
    """What a masked load without `other` gives where its mask is off: a GPU promises nothing."""
    zeros = np.zeros_like(pointers.data, dtype=_get_np_dtype(pointers.get_element_ty()))
    anything = np.nan if zeros.dtype.kind == "f" else np.iinfo(zeros.dtype).max // 3
    if pointers.get_element_ty().is_bf16():
        anything = _BF16_NAN
    return TensorHandle(np.full_like(zeros, anything), pointers.get_element_ty())


def convert_as_compiled(original: Callable, tensor, scope) -> None:
    """The interpreter takes a block for true; the compiler refuses it, or does something else."""
    original(tensor, scope)

    def truth(self) -> bool:
        if self.handle.data.size == 1:
            return bool(self.handle.data)
        if sys._getframe(1).f_code.co_filename.startswith(_TRITON):
            return True  # Triton's own code asks whether there is a block
        raise ValueError(
            "a block has no one truth value: for and, or, not, if write &, |, ~, where"
        )

    scope.set_attr(tensor, "__bool__", truth)
    # for `range(0, n)`: Triton 3.6 asks an array of one element, which NumPy 2.4 refuses
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))


def wrap(owner: object, name: str, around: Callable) -> Callable[[], None]:
    original = getattr(owner, name)
    setattr(owner, name, lambda *args, **options: around(original, *args, **options))
    return lambda: setattr(owner, name, original)


def tensors_in(arguments: dict[str, object]) -> list[tuple[str, Tensor]]:
    """The tensors of a launch by name, those in tuples and of descriptors too."""
    found = []
    for name, value in arguments.items():
        if isinstance(value, TensorDescriptor):
            value = value.base
        if isinstance(value, Tensor):
            found.append((name, value))
        elif isinstance(value, tuple):
            fields = getattr(value, "_fields", range(len(value)))
            inside = {f"{name}.{field}": item for field, item in zip(fields, value, strict=True)}
            found += tensors_in(inside)
    return found
