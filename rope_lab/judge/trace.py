"""Trace interpreted launches: which program stored where, and what races.

The interpreter runs programs one by one, and the lanes of a program together. So results may be
right by luck if two programs or lanes access the same element.
"""

import ctypes
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..interpreter.bf16 import as_fp32
from ..interpreter.tuners import Tuning, has_a_choice
from .hooks import (
    Access,
    Hooks,
    Memory,
    Part,
    line_of_the_kernel,
    name_of,
    number_of,
    tensors_in,
)
from .lanes import Lanes

NOBODY = -1
_WARPS = 4  # of a program, where a launch doesn't say
_LANES_OF_A_WARP = 32
_OFF_BY_TF32 = 0.01  # of the largest result: an error that is larger has another cause
IN_TF32 = (
    "on a GPU, tl.dot takes fp32 as TF32, with 10 of the 23 bits of a mantissa; "
    'input_precision="ieee" takes all, and is slower'
)


class OwnedMemory(Memory):
    """A memory, and which programs have loaded and stored which of its bytes."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        super().__init__(name, tensor)
        size = self.end - self.begin
        # of each byte: number of the program that was the last to store or load, or in a launch the
        # first to add atomically
        self.writer = np.full(size, NOBODY, dtype=np.int64)
        self.reader = np.full(size, NOBODY, dtype=np.int64)
        self.adder = np.full(size, NOBODY, dtype=np.int64)
        self.has_atomics = False
        self.shared = np.zeros(size, dtype=bool)  # have several programs of a launch loaded it?
        self.loaded_by, self.stored_by = Lanes(size), Lanes(size)  # of the program that runs
        # the bytes themselves, as they are now
        self.content = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self.begin))
        # "loaded" and "stored" -> bytes; what is masked off moves none
        self.moved: Counter[str] = Counter()


@dataclass(frozen=True)
class Event:
    """One thing that the first program did."""

    kind: str  # 'L' for a load, 'E' for a sine or a cosine, 'S' for a store
    line: str  # of the candidate's source
    of: str  # the tensor that is loaded or stored; of an evaluation, the shape of its block


class Trace(Hooks):
    """What happened in all launches while it was open.

    Attributes:
        launches: how many.
        races: in words; between programs.
        locks: what would be races or collisions if no lock orders these programs. It isn't known
            whether one does: a lock, or a counter, is an integer that one lane of a program
            updates atomically, or a volatile load.
        lane_races: where two lanes of a program access the same element, at least one of them
            stores, and there is no barrier between the two.
        in_one_warp: the same where it is harmless: in a program of one warp, or in a block that
            one warp stores.
        reread: what a program reads after it has stored it.
        stored_twice: elements that one launch stores twice.
        collisions: the same with different values: right only in the interpreter's order.
        tuned_in_place: tensors of an autotuned kernel that its tuner doesn't restore.
        stores: number of a program -> its stores.
        evaluations: of "sin" and "cos", element by element.
        events: of the first program.
        tf32: the line of the first `tl.dot` of fp32 whose last bits a GPU drops; '' if none.
    """

    functions = ("sin", "cos")
    memory_of = OwnedMemory
    memories: list[OwnedMemory]

    def __init__(self) -> None:
        super().__init__()
        self.launches = 0
        self.races: list[str] = []
        self.locks: list[str] = []
        self.lane_races: list[str] = []
        self.in_one_warp: list[str] = []
        self.reread: list[str] = []
        self.stored_twice: list[str] = []
        self.collisions: list[str] = []
        self.tuned_in_place: list[str] = []
        self.stores: Counter[int] = Counter()
        self.evaluations: Counter[str] = Counter()
        self.events: list[Event] = []
        self.tf32 = ""
        self._evaluated: dict = {}  # in this program
        self._first_of_launch = 0
        self._warps = _WARPS
        self._has_locks = False  # may a lock order the programs of this launch?

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

    def _bytes_of(self, tensor: Tensor) -> tuple[OwnedMemory, np.ndarray] | None:
        """The memory that a kernel got, and which of its bytes are the tensor's."""
        begin = tensor.untyped_storage().data_ptr()
        memory = next((memory for memory in self.memories if memory.begin == begin), None)
        if memory is None:
            return None
        elements = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size())
        own = elements.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        first = own.flatten().numpy() * tensor.element_size()
        return memory, (first[:, None] + np.arange(tensor.element_size())).ravel()

    # launches, programs, and barriers in them

    def at_launch(self, kernel, named) -> None:
        self.launches += 1
        self._first_of_launch = len(self.programs)
        self._has_locks = False
        for memory in self.memories:
            memory.shared[:] = False  # programs of two launches don't race
        self._warps = named.get("num_warps") or _WARPS

    def at_end(self, named) -> None:
        """To measure, a tuner on a GPU runs its kernel many times on the same tensors."""
        tuner = Tuning.tuner
        if not has_a_choice() or tuner.user_defined_pre_hook or tuner.best_config.pre_hook:
            return
        kept = {*tuner.restore_value, *tuner.reset_to_zero}
        begins = {x.untyped_storage().data_ptr() for name, x in tensors_in(named) if name in kept}
        for memory in self.memories:
            loaded = memory.reader >= self._first_of_launch
            changed = loaded & (memory.writer >= self._first_of_launch)
            if (
                memory.begin not in begins
                and (changed | (memory.adder >= self._first_of_launch)).any()
            ):
                words = f"the tuner runs the kernel many times, and each run changes {memory.name}"
                cure = f"give @triton.autotune restore_value=['{memory.name}']"
                self.tuned_in_place.append(f"{words}, on which its result depends: {cure}")

    def at_program(self) -> None:
        self._evaluated.clear()
        self.at_barrier()

    def at_barrier(self) -> None:
        for memory in self.memories:
            memory.loaded_by.forget()
            memory.stored_by.forget()

    def _note_lanes(self, does: str, part: Part) -> None:
        """Note if another lane has stored there or, for a store, has loaded there."""
        by, did = part.memory.loaded_by, "loaded"
        if does == "loads":
            by, did = part.memory.stored_by, "stored"
        is_in_one_warp = self._warps == 1 or part.which.size <= _LANES_OF_A_WARP
        found = self.in_one_warp if is_in_one_warp else self.lane_races
        if not found and (met := by.meet(part.at, part.which)):  # one is enough
            place, lane, other = met
            words = f"in {name_of(self.programs[-1])}, {lane} {does} {part.element(place)}"
            found.append(f"{words}, which {other} has {did}, without a barrier between")

    # loads, stores and atomic updates

    def at_part(self, access: Access, part: Part) -> None:
        if access.does == "loads":
            self._note_load(access, part)
        elif access.does == "stores":
            self._note_store(access, part)
        else:
            self._note_update(access, part)

    def _note_load(self, access: Access, part: Part) -> None:
        memory, at = part.memory, part.at
        if access.may_wait:
            self._note_lock(memory)
        self._count("loaded", part)
        self._note_event("L", memory.name)
        self._note_where_others_update("reads", part)
        self._note_lanes("loads", part)
        memory.loaded_by.add(at, part.which)
        others, mine = memory.writer[at], len(self.programs) - 1
        memory.shared[at] |= self._by_others(memory.reader[at])
        memory.reader[at] = mine
        is_race = self._by_others(others).any()
        late = self._by_others(others) if is_race else others == mine
        if not late.any():
            return
        writer = self.programs[others[late][0]]
        reads = f"{name_of(self.programs[mine])} reads {part.element(at[late][0])}"
        if is_race:
            self._note_conflict(f"{reads} after {name_of(writer)} has overwritten it")
        else:
            self.reread.append(f"{reads} after it has overwritten it itself")

    def _note_store(self, access: Access, part: Part) -> None:
        memory, at = part.memory, part.at
        self._note_second_store(part, access.values[part.which], access.has_bf16)
        self._note_store_where_others_load(part)
        self._note_where_others_update("stores", part)
        self._note_lanes("stores", part)
        memory.stored_by.add(at, part.which)
        self._count("stored", part)
        self._note_event("S", memory.name)
        self.stores[len(self.programs) - 1] += 1
        memory.writer[at[:, None] + np.arange(part.size)] = len(self.programs) - 1

    def _note_update(self, access: Access, part: Part) -> None:
        """Two programs' atomic operations at one place don't race; other accesses there do."""
        memory, at = part.memory, part.at
        is_of_one_lane = access.addresses.size == 1
        self._note_lanes("updates", part)
        memory.stored_by.add(at, part.which)
        self._note_store_where_others_load(part)
        others = self._by_others(memory.writer[at])
        self._note_others("atomically updates", part, at[others], "stores")
        if is_of_one_lane or access.may_wait:
            self._note_lock(memory)
        self._count("stored", part)
        memory.has_atomics = True
        first = at[~self._by_others(memory.adder[at])]
        memory.adder[first[:, None] + np.arange(part.size)] = len(self.programs) - 1
        if is_of_one_lane:
            self.at_barrier()  # one thread does it, and passes the result to all threads

    def _count(self, kind: str, part: Part) -> None:
        part.memory.moved[kind] += part.at.size * part.size

    def _by_others(self, programs: np.ndarray) -> np.ndarray:
        """Which of these are other programs of this launch."""
        return (programs >= self._first_of_launch) & (programs != len(self.programs) - 1)

    def _note_event(self, kind: str, of: str) -> None:
        """Note what the first program does."""
        if len(self.programs) == 1:
            self.events.append(Event(kind, line_of_the_kernel(), of))

    def at_function(self, name: str, block: np.ndarray) -> None:
        """Count a block once per program: the compiler reuses the result.

        Elements of masked lanes aren't counted. They are NaN, or 0 with `other=0.0`; no angle of a
        case is 0.
        """
        if name in Trace.functions and (name, id(block)) not in self._evaluated:
            self._evaluated[name, id(block)] = block  # kept alive, so that its id isn't used again
            self._note_event("E", str(block.shape))
            self.evaluations[name] += int((np.isfinite(block) & (block != 0)).sum())

    def at_dot(self, flops: int, takes_tf32: bool) -> None:
        if takes_tf32 and not self.tf32:
            self.tf32 = line_of_the_kernel()

    def by_tf32(self, got: Tensor, wanted: Tensor) -> str:
        """Why a result is inexact, if `tl.dot` explains an error as small as this one."""
        if not self.tf32:
            return ""
        error = (got.double() - wanted.double()).abs().max()
        is_small = bool(error <= _OFF_BY_TF32 * wanted.abs().max())
        return f"{IN_TF32}, at: {self.tf32}" if is_small else ""

    # where programs meet

    def _note_store_where_others_load(self, part: Part) -> None:
        """Programs run in any order: another one may load this one's result instead."""
        late = self._by_others(part.memory.reader[part.at]) | part.memory.shared[part.at]
        if late.any():
            mine = name_of(self.programs[-1])
            words = f"{mine} overwrites {part.element(part.at[late][0])}"
            self._note_conflict(f"{words}, which another program loads: before or after?")

    def _note_lock(self, memory: OwnedMemory) -> None:
        """A lock, or a counter, is an integer: programs may wait there for others."""
        self._has_locks |= not memory.tensor.is_floating_point()

    def _note_where_others_update(self, does: str, part: Part) -> None:
        if part.memory.has_atomics:
            others = self._by_others(part.memory.adder[part.at])
            self._note_others(does, part, part.at[others], "updates atomically")

    def _note_others(self, does: str, part: Part, at: np.ndarray, did: str) -> None:
        """`at`: where this program does something, and another one `did` something else."""
        if at.size:
            memory = part.memory
            by = memory.adder if did == "updates atomically" else memory.writer
            other = name_of(self.programs[by[at[0]]])
            words = f"{name_of(self.programs[-1])} {does} {part.element(at[0])}"
            self._note_conflict(f"{words}, which {other} {did}: before or after?")

    def _note_conflict(self, words: str) -> None:
        """Of this program with an earlier one of the launch."""
        (self.locks if self._has_locks else self.races).append(words)

    def _note_second_store(self, part: Part, values: np.ndarray, is_bf16: bool) -> None:
        """An element that gets two values keeps one of them; on a GPU it is undefined which.

        Programs run in any order, and within a program two stores may use different threads, in
        warps that do not wait for each other. Only equal values are harmless.
        """
        memory, at = part.memory, part.at
        # of each lane: which program has stored at its place before it, and what
        writers = memory.writer[at]
        if (writers == len(self.programs) - 1).any():  # a store before a barrier is ordered
            writers[(writers == len(self.programs) - 1) & ~memory.stored_by.has(at)] = NOBODY
        old = memory.content[at[:, None] + np.arange(values.itemsize)].view(values.dtype)[:, 0]
        before, again = lanes_that_repeat(at)
        writers[again] = len(self.programs) - 1
        old[again] = values[before]
        twice = writers >= self._first_of_launch
        if not twice.any():
            return
        new = values
        if is_bf16:  # NumPy has no bf16, so the interpreter keeps its bits
            old, new = as_fp32(old), as_fp32(new)
        # NaN is the same as NaN
        differs = twice & (old != new) & ~((old != old) & (new != new))
        one = (differs if differs.any() else twice).argmax()
        who, mine = self.programs[writers[one]], self.programs[-1]
        place = part.element(at[one])
        words = f"{name_of(mine)} stores {place} twice"
        if who != mine:
            words = f"programs {number_of(who)} and {number_of(mine)} store {place}"
        both = f"{float(old[one]):.3g} and then {float(new[one]):.3g}"
        collision = f"{words}, {both}: which one stays is undefined on a GPU"
        if who != mine and self._has_locks:
            self._note_conflict(collision)
            return
        self.stored_twice.append(words)
        if differs.any():
            self.collisions.append(collision)


def lanes_that_repeat(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lanes of a store that write to an earlier lane's place: the earlier lanes, and these.

    Of lanes that store at 0, 4, 0, 8, 0, number 2 repeats number 0, and number 4 number 2:

        lanes_that_repeat(np.array([0, 4, 0, 8, 0]))  # (array([0, 2]), array([2, 4]))
    """
    order = np.argsort(at, kind="stable")  # lanes of one place are neighbors, the first one first
    lanes, next_lanes = order[:-1], order[1:]
    is_repeated = at[lanes] == at[next_lanes]
    return lanes[is_repeated], next_lanes[is_repeated]
