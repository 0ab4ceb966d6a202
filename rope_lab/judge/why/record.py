"""One run of a candidate with something changed in it, and a record of all that its kernels did."""

import linecache
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from types import FrameType

import numpy as np
import torch
from torch import Tensor
from triton import language as tl
from triton.runtime.interpreter import TensorHandle, _get_np_dtype

from ..hooks import Access, Hooks, line_of_the_kernel, name_of
from .changes import (
    Blocks,
    Budget,
    Changes,
    Index,
    Launched,
    Named,
    Noted,
    Setting,
    address_of,
)

_OF_NAMES = {"i": "index", "p": "pointer", "b": "mask"}
_OF_ACCESSES = {"loads": "load", "stores": "store"}


class Record(Hooks):
    """Notes all accesses. One that leaves the tensors loads NaN, and stores nothing.

    Attributes:
        noted: all accesses, in order.
        named: all that kernels have set, in order.
        launched: all launches.
        grid: of the last one.
        leaves: whether an access leaves the tensors.
    """

    def __init__(self, changes: Changes, names_in: frozenset[str], budget: Budget) -> None:
        """
        Args:
            changes: what is changed.
            names_in: the files of kernels whose names are noted.
            budget: from which each access takes one.
        """
        super().__init__()
        self.changes, self.files, self.budget = changes, names_in, budget
        self.noted: list[Noted] = []
        self.named: list[Named] = []
        self.launched: list[Launched] = []
        self.grid: Index = ()
        self.leaves = False

    def __enter__(self):
        super().__enter__()
        self._traced = sys.gettrace()
        if self.files:
            sys.settrace(self._at_call)
        return self

    def __exit__(self, *error) -> None:
        sys.settrace(self._traced)
        super().__exit__(*error)

    def name_of(self, program: int) -> str:
        """'program 3'."""
        return name_of(self.programs[program])

    def stores(self) -> list[Noted]:
        return [one for one in self.noted if not one.is_load]

    def loads(self) -> list[Noted]:
        return [one for one in self.noted if one.is_load]

    @cached_property
    def blocks(self) -> dict[str, dict[Setting, Blocks]]:
        """By kind: what each program sets once, or accesses at a line that it runs once."""
        named = (
            (_OF_NAMES.get(one.kind, ""), one.setting, one.program, one.block)
            for one in self.named
            if one.line
        )
        accessed = (
            (
                _OF_ACCESSES.get(one.access.does, ""),
                ("", one.line),
                one.program,
                one.access.addresses,
            )
            for one in self.noted
        )
        found: dict[str, dict[Setting, Blocks]] = defaultdict(dict)
        often = set()
        for kind, setting, program, block in (*named, *accessed):
            blocks = found[kind].setdefault(setting, {})
            if program in blocks:
                often.add((kind, setting))
            blocks[program] = block
        for kind, setting in often:
            del found[kind][setting]
        return found

    @cached_property
    def stored(self) -> np.ndarray:
        """The addresses that all stores have written to."""
        stores = [one.access for one in self.stores()]
        return np.concatenate([a.addresses[a.wanted] for a in stores] or [np.empty(0)])

    def stored_in(self, tensor: Tensor) -> Tensor:
        """Which of its elements are stored."""
        own = address_of(tensor, tuple(np.indices(tensor.shape)))
        return torch.from_numpy(np.isin(own, self.stored))

    # launches and accesses

    def _launch(self, original, executor, *args, **kwargs):
        named = dict(zip(executor.arg_names, args, strict=False)) | kwargs
        known = {name: x for name, x in self.changes.arguments.items() if name in named}
        if self.changes.grid or self.changes.only:
            executor.grid = self.changes.grid or (1,)
        self.launched.append(Launched(executor.fn, named))
        super()._launch(original, executor, **(named | known))

    def program_of(self, program: tuple, grid: tuple) -> tuple:
        return self.changes.only.place if self.changes.only else program

    def _program(self, original, builder, *program):
        if self.changes.only:
            builder.grid_dim = self.changes.only.grid
        self.grid = builder.grid_dim
        return super()._program(original, builder, *program)

    @property
    def number(self) -> int:
        """Of the program that runs."""
        return self.changes.only.number if self.changes.only else len(self.programs) - 1

    def at_access(self, access: Access) -> None:
        self.budget.spend()
        self.noted.append(Noted(access, self.number, line_of_the_kernel()))

    def what_runs(self, access: Access, outside: np.ndarray) -> np.ndarray:
        self.leaves |= bool(outside.any())
        return access.wanted & ~outside

    def _load(self, original, builder, pointers, mask, other, *rest, **named):
        pointers = self._moved(pointers)
        line, value = self.changes.fill or ("", None)
        is_float = _get_np_dtype(pointers.get_element_ty()).kind == "f"
        if value is not None and is_float and line in ("", line_of_the_kernel()):
            other = self.not_loaded(pointers)
            other.data[...] = value
        return super()._load(original, builder, pointers, mask, other, *rest, **named)

    def _store(self, original, builder, pointers, *rest, **named):
        return super()._store(original, builder, self._moved(pointers), *rest, **named)

    def _moved(self, pointers: TensorHandle) -> TensorHandle:
        if all(name for name, _ in self.changes.blocks):
            return pointers
        moved = self.changes.blocks.get(("", line_of_the_kernel()))
        if moved is None:
            return pointers
        return TensorHandle(self._moved_here(moved, pointers.data), pointers.dtype)

    def _moved_here(self, change: Callable, addresses: np.ndarray) -> np.ndarray:
        """Change addresses, which are given as in another run: memories are elsewhere now."""
        here = {memory.name: memory.begin for memory in self.memories}
        then = {memory.name: memory.begin for memory in self.changes.memories}
        own = addresses.astype(np.int64)
        changed = change(self.number, own).astype(np.int64)
        for memory in self.changes.memories:
            is_there = (changed != own) & (changed >= memory.begin) & (changed < memory.end)
            offset = here.get(memory.name, then[memory.name]) - then[memory.name]
            own = np.where(is_there, changed + offset, own)
        return own.astype(np.uint64)

    # names

    def _at_call(self, frame: FrameType, event: str, _: object) -> Callable | None:
        if frame.f_code.co_filename not in self.files:
            return None
        last: dict[str, object] = {}
        file, line = frame.f_code.co_filename, ""

        def at_line(frame: FrameType, event: str, _: object) -> Callable:
            nonlocal line
            names = frame.f_locals
            for name, value in names.items():
                if last.get(name) is not value:
                    if isinstance(value, tl.tensor) and isinstance(value.handle.data, np.ndarray):
                        names[name] = self._at_name((name, line), value)
                    last[name] = names[name]
            line = linecache.getline(file, frame.f_lineno).strip()
            return at_line

        return at_line

    def _at_name(self, setting: Setting, value: tl.tensor) -> tl.tensor:
        """Note what a name is set to; returns what it is from then on."""
        data = value.handle.data
        kind = "p" if value.type.scalar.is_ptr() else data.dtype.kind
        if (change := self.changes.blocks.get(setting)) and kind != "u":
            if kind == "p":
                data = self._moved_here(change, data)
            else:
                data = change(self.number, data).astype(data.dtype)
            # a new one, because another name may have the same
            value = tl.tensor(TensorHandle(data, value.handle.dtype), value.type)
        self.named.append(Named(self.number, setting, data, kind, str(value.type.scalar)))
        return value
