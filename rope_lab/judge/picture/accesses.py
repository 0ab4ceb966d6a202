"""The child's part of a picture: interpret one launch, and note the lanes of its loads and stores.

A job has no tensors but `Packed` ones and the bytes of their storages: pickled by itself, each
tensor would get a storage of its own, and an input that is overwritten would be two tensors.
"""

import contextlib
import io
import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from ...interpreter.functions import cannot_be_interpreted
from ...shipment import Shipped
from ..errors import failure_of
from ..judge_process import MAX_PRINTED
from ..recorder import Access, Recorder

_GAP = 1 << 16  # bytes between storages: where a lane is masked off, its address is next to its own
_ALIGNED = 64  # bytes
MOST_LANES = 1 << 18  # of all loads and stores


class TooManyLanes(Exception):
    """A launch loads and stores more than can be drawn."""


@dataclass(frozen=True)
class Packed:
    """A tensor without its memory.

    Attributes:
        storage: the number of its storage.
        first: the number of its first element in the storage.
    """

    storage: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def offsets(self) -> np.ndarray:
        """Of each element, in its shape: its number in the storage."""
        found = np.full(self.shape, self.first)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            behind = (1,) * (len(self.shape) - axis - 1)
            found += (stride * np.arange(size)).reshape(-1, *behind)
        return found


@dataclass(frozen=True)
class LanesOfAnAccess:
    """A load or a store of one program.

    Attributes:
        does: "loads" or "stores"; an atomic operation stores.
        program: its number in the order in which the interpreter runs programs.
        storage: of each lane, the number of the storage at its address, or next to it.
        offset: of each lane, its address in bytes from the begin of that storage.
        wanted: of each lane, whether its mask lets it load or store.
    """

    does: str
    program: int
    storage: np.ndarray
    offset: np.ndarray
    wanted: np.ndarray


class Accesses(Recorder):
    """Keeps the lanes of every access."""

    def __init__(self, begins: list[int], sizes: list[int]) -> None:
        """Of the storages: their addresses, which increase, and their sizes in bytes."""
        super().__init__()
        self.begins, self.ends = np.array(begins), np.array(begins) + np.array(sizes)
        self.found: list[LanesOfAnAccess] = []
        self.lanes = 0  # of all these

    def at_access(self, access: Access) -> None:
        address, wanted = access.addresses, access.wanted
        self.lanes += address.size
        if self.lanes > MOST_LANES:
            raise TooManyLanes
        before = self.begins - address[..., None]
        after = address[..., None] - (self.ends - 1)
        nearest = np.maximum(before, after).argmin(axis=-1)
        # a lane that is masked off belongs to what the others access
        own = nearest[wanted][0] if wanted.any() else nearest.flat[0]
        storage = np.where(wanted, nearest, own)
        does = "loads" if access.does == "loads" else "stores"
        offset, program = address - self.begins[storage], len(self.programs) - 1
        self.found.append(LanesOfAnAccess(does, program, storage, offset, wanted))


@dataclass(frozen=True)
class Draw:
    """A job: what one launch loads and stores, for a picture.

    Attributes:
        kernel: of the launch.
        arguments: by name; tensors are `Packed`.
        storages: bytes of each.
    """

    kernel: Shipped
    grid: tuple[int, ...]
    arguments: dict[str, object]
    storages: list[bytes]

    def answer(self, folder: Path, tell: Callable[[str], None]) -> dict:
        """`programs`, the place in the grid of each, and `accesses`; or why it is `refused`.

        And what the kernel `printed`.
        """
        with contextlib.redirect_stdout(io.StringIO()) as said:
            try:
                found = self._accesses(self.kernel.load(folder, "candidate"))
            except Exception as error:  # whatever a reader's kernel may raise
                found = {"refused": cannot_be_interpreted(error) or failure_of(error).reason}
        return found | {"printed": said.getvalue()[:MAX_PRINTED]}

    def _accesses(self, kernel: object) -> dict:
        while hasattr(getattr(kernel, "fn", None), "fn"):
            kernel = kernel.fn  # the job has what a tuner would choose
        sizes = [len(content) for content in self.storages]
        room = [-(-(size + _GAP) // _ALIGNED) * _ALIGNED for size in sizes]
        arena = np.zeros(_GAP + sum(room), dtype=np.uint8)
        places = [_GAP + sum(room[:number]) for number in range(len(sizes))]
        memories = []
        for content, place in zip(self.storages, places, strict=True):
            memory = arena[place : place + len(content)]
            memory[:] = np.frombuffer(content, dtype=np.uint8)
            memories.append(torch.from_numpy(memory))
        begins = [arena.ctypes.data + place for place in places]

        def unpacked(value: object) -> object:
            if isinstance(value, Packed):
                memory = memories[value.storage].untyped_storage()
                tensor = torch.empty(0, dtype=value.dtype)
                return tensor.set_(memory, value.first, value.shape, value.strides)
            if isinstance(value, SimpleNamespace):
                return TensorDescriptor(**{name: unpacked(x) for name, x in vars(value).items()})
            if isinstance(value, dict):
                return namedtuple("Given", value)(*map(unpacked, value.values()))
            return tuple(map(unpacked, value)) if isinstance(value, tuple) else value

        arguments = {name: unpacked(value) for name, value in self.arguments.items()}
        with Accesses(begins, sizes) as kept:
            try:
                kernel[self.grid](**arguments)
            except Exception:
                if kept.lanes <= MOST_LANES:
                    raise
                words = f"more than {MOST_LANES} elements: take smaller blocks, or fewer programs"
                return {"refused": f"its programs load and store {words}"}
        return {"programs": kept.programs, "accesses": kept.found}


def packed(value: object, storages: dict[int, bytes]) -> object:
    """An argument of a launch for a job; `storages`, by address, gets the bytes of its tensors.

    A named tuple becomes a dictionary: its class may be the notebook's, and unknown to the child.
    A descriptor becomes a namespace: it would refuse what is no tensor.
    """
    if isinstance(value, TensorDescriptor):
        return SimpleNamespace(**vars(value) | {"base": packed(value.base, storages)})
    if hasattr(value, "_fields"):
        return {name: packed(getattr(value, name), storages) for name in value._fields}
    if isinstance(value, tuple):
        return tuple(packed(item, storages) for item in value)
    if not isinstance(value, Tensor):
        return value
    storage = value.untyped_storage()
    if storage.data_ptr() not in storages:
        memory = torch.empty(0, dtype=torch.uint8, device=value.device).set_(storage)
        storages[storage.data_ptr()] = memory.cpu().numpy().tobytes()
    number = list(storages).index(storage.data_ptr())
    first = value.storage_offset()
    return Packed(number, value.dtype, tuple(value.shape), tuple(value.stride()), first)
