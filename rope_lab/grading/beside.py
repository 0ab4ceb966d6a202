"""Who computed: a candidate's kernel, or PyTorch beside it?

While a candidate runs, every operator of PyTorch is seen. The inputs and what kernels store are
followed through them, memory by memory: a copy is said, and whatever else makes what a kernel loads
is the kernel's own work. Allocations, constants and views are free, and what Triton does itself.

Elements may leave PyTorch for Python or NumPy, as by `item`, `tolist` and `numpy`. Then whatever is
made of numbers later may be made of theirs.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:  # it imports Triton, which a reader may not have
    from .trace import Trace

STORED = "what your kernel stored"
# operators of ATen that only copy; and those that write over a memory without a look at it
_COPIES = {"clone", "_to_copy", "copy_"}
_OVERWRITE = {"copy_", "fill_", "zero_"}
_OF_NUMBERS = {"fill_", "full", "full_like", "new_full", "scalar_tensor"}
_LIKE_ANOTHER = {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"}
_TO_PYTHON = {"_local_scalar_dense", "equal", "is_nonzero"}
_OUT_OF_PYTORCH = {"numpy", "tolist", "__array__", "__dlpack__"}
_NAMES = {"_to_copy": "to", "_local_scalar_dense": "item", "__array__": "numpy"}
_TORCH = f"{Path(torch.__file__).parent}/"
_TRITON = f"{Path(torch.__file__).parents[1]}/triton/"


@dataclass(frozen=True)
class Content:
    """What a memory holds: elements of what, and by which operators."""

    of: tuple[str, ...] = ()  # names of inputs, and `STORED`
    operators: tuple[str, ...] = ()  # as the reader calls them, each once
    is_computed: bool = False  # if not, they only copied
    moved: int = 0  # bytes that they read and wrote

    def __or__(self, other: "Content") -> "Content":
        return Content(
            tuple(dict.fromkeys(self.of + other.of)),
            tuple(dict.fromkeys(self.operators + other.operators)),
            self.is_computed or other.is_computed,
            max(self.moved, other.moved),
        )

    def by(self, name: str, is_computed: bool, moved: int = 0) -> "Content":
        """After another operator."""
        return self | Content((), (name,), is_computed, self.moved + moved)

    @property
    def words(self) -> str:
        """'neg and cat of t'."""
        return f"{listed(self.operators)} of {listed(self.of)}"

    @property
    def when(self) -> str:
        return "after a launch" if STORED in self.of else "before the launch"


_NOTHING = Content()


class Beside(TorchDispatchMode):
    """PyTorch's operators while it is open, and what they made.

    Attributes:
        done: all that was done with elements of the inputs or of results.
    """

    def __init__(self, given: dict[str, object], overwrites=(), allowed=()) -> None:
        """
        Args:
            given: the inputs by name.
            overwrites: names of those that the candidate is to overwrite.
            allowed: operators of ATen that may do a part of the work.
        """
        super().__init__()
        self.done = _NOTHING
        self.trace: Trace | None = None
        self._allowed = allowed
        self._outside = _NOTHING  # what Python and NumPy know
        self._detours = _Detours(self)
        self._called = ""  # the function that the reader called
        self._memories = {}  # its storage's address -> (storage, content)
        self._constant = set()  # memories that have to stay as they are
        self._shared = set()  # memories that NumPy has, too
        for name, x in given.items():
            if isinstance(x, Tensor):
                self._note(x, Content((name,)))
                if name not in overwrites:
                    self._constant.add(x.untyped_storage()._cdata)

    def __enter__(self) -> "Beside":
        super().__enter__()
        self._detours.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._detours.__exit__(*error)
        super().__exit__(*error)

    def made(self, x: Tensor | torch.UntypedStorage) -> Content:
        """What operators made of a memory; what kernels did to it since is not in it."""
        address = (x.untyped_storage() if isinstance(x, Tensor) else x)._cdata
        _, content = self._memories.get(address, (None, _NOTHING))
        if address in self._shared or address not in self._memories:
            content |= self._outside  # of a memory that no operator made, NumPy may have
        return content

    def loaded(self) -> Iterator[Content]:
        """What operators made, and a kernel loaded."""
        for memory in self.trace.memories if self.trace else ():
            content = self.made(memory.storage)
            if content.operators and (memory.foreign or (STORED in content.of and memory.loaded)):
                yield content
        numbers = self.trace.numbers.values() if self.trace else ()
        if self._outside.operators and any(len(of_one) > 1 for of_one in numbers):
            yield self._outside

    def _content(self, x: Tensor) -> Content:
        """Of a tensor's memory, now."""
        stored = self.trace and self.trace.stored_in(x.untyped_storage())
        return self.made(x) | Content((STORED,)) if stored else self.made(x)

    def leaves(self, x: Tensor, name: str) -> None:
        """Its elements go to Python, or NumPy has its memory."""
        if _is_not_the_readers():
            return
        self._learn(self._content(x), _NAMES.get(name, name))
        storage = x.untyped_storage()
        if name != "tolist" and storage._cdata not in self._constant:
            self._note(x, self._content(x))
            self._shared.add(storage._cdata)

    def _learn(self, elements: Content, name: str) -> None:
        """Python has seen these elements."""
        if elements.of:
            self._outside |= elements.by(name, is_computed=True)
            self.done |= self._outside

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not _is_not_the_readers():
            self._follow(func, args, kwargs, result)
        return result

    def _follow(self, func, args: tuple, kwargs: dict, result: object) -> None:
        """Note what the operator made of what."""
        aten, schema = func.overloadpacket.__name__, func._schema
        given = dict(zip((one.name for one in schema.arguments), args, strict=False)) | kwargs
        outs = [one for one in schema.arguments if one.alias_info and one.alias_info.is_write]
        written = [x for one in outs for x in _tensors(given.get(one.name))]
        read = [x for x in _tensors([*given.values()]) if not any(x is out for out in written)]
        if aten not in _OVERWRITE and not any(one.kwarg_only for one in outs):
            read += written
        known = {x.untyped_storage()._cdata for x in _tensors([*given.values()])}
        made = [x for x in _tensors(result) if x.untyped_storage()._cdata not in known]
        elements = _NOTHING
        for x in () if aten in _LIKE_ANOTHER or aten.startswith("new_") else read:
            elements |= self._content(x)
        if aten in _TO_PYTHON:
            self._learn(elements, self._name(aten))
        if aten in _OF_NUMBERS:
            elements |= self._outside
        if torch.Tag.inplace_view in func.tags or not (made or written):
            return
        if elements.of and aten not in self._allowed:
            is_computed = elements.is_computed or aten not in _COPIES
            moved = sum(x.nbytes for x in (*read, *(made or written)))
            elements = elements.by(self._name(aten), is_computed, moved)
            self.done |= elements
        for x in made:
            self._note(x, elements)
        for x in written:
            self._note(x, self._content(x) | elements)

    def _name(self, aten: str) -> str:
        """As the reader called it, where that has a name."""
        is_name = self._called.isidentifier() and not self._called.startswith("__")
        return self._called if is_name else _NAMES.get(aten, aten)

    def _note(self, x: Tensor, content: Content) -> None:
        storage = x.untyped_storage()
        self._memories[storage._cdata] = storage, content  # kept alive: no address is used twice


class _Detours(TorchFunctionMode):
    """Functions of PyTorch as they are called; some of them are no operators."""

    def __init__(self, beside: Beside) -> None:
        super().__init__()
        self._beside = beside

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in _OUT_OF_PYTORCH and args:
            self._beside.leaves(args[0], name)
        self._beside._called = name
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self._beside._called = ""


def _is_not_the_readers() -> bool:
    """Triton's own work, for an autotuner or a launch; or a tensor is printed."""
    frame = sys._getframe(1)
    own = frame.f_code.co_filename
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith("_tensor_str.py") or file.startswith(_TRITON):
            return True
        if file != own and not file.startswith(_TORCH):
            return False
        frame = frame.f_back
    return False


def has_a_memory(x: Tensor) -> bool:
    """A sparse tensor has several."""
    return not x.is_nested and x.layout is torch.strided


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value] if has_a_memory(value) else []
    if isinstance(value, tuple | list):
        return [x for item in value for x in _tensors(item)]
    return []


def listed(names: tuple[str, ...]) -> str:
    """'a, b and c'."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
