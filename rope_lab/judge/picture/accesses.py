"""Interpret one launch for a picture, and note the lanes of its loads and stores.

Storages are numbered in the order of the launch's arguments.
"""

import contextlib
import io
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...compiler.compile_here import kernel_in
from ...interpreter.functions import cannot_be_interpreted
from ...run import replaced, tensors_in
from ..errors import failure_of
from ..guests import MAX_PRINTED, TookTooLong, a_guest, settled
from ..hooks import Access, Hooks

# Bytes around a storage, so that the address of a masked lane is nearest to its own storage.
_GAP = 1 << 16
MOST_LANES = 1 << 18  # in all loads and stores


class TooManyLanes(Exception):
    """A launch loads and stores more than can be drawn."""


@dataclass(frozen=True)
class LanesOfAnAccess:
    """A load or a store of one program.

    Attributes:
        does: "loads" or "stores"; an atomic operation stores.
        program: its number in the order in which the interpreter runs programs.
        storage: for each lane, the number of the storage at its address, or nearest to it.
        offset: for each lane, its address in bytes from the beginning of that storage.
        wanted: for each lane, whether its mask is true.
    """

    does: str
    program: int
    storage: np.ndarray
    offset: np.ndarray
    wanted: np.ndarray


class Accesses(Hooks):
    """Keeps the lanes of every access."""

    def __init__(self, begins: list[int], sizes: list[int]) -> None:
        """`begins`, `sizes`: the storages' addresses, and their sizes in bytes."""
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
        # a masked lane belongs to the storage that the others access
        own = nearest[wanted][0] if wanted.any() else nearest.flat[0]
        storage = np.where(wanted, nearest, own)
        does = "loads" if access.does == "loads" else "stores"
        offset, program = address - self.begins[storage], len(self.programs) - 1
        self.found.append(LanesOfAnAccess(does, program, storage, offset, wanted))


def accesses_of(kernel: object, grid: tuple[int, ...], arguments: dict[str, object]) -> dict:
    """What a launch loads and stores: `programs`, each with its place in the grid, and `accesses`.

    Or why it is `refused`. Also what the kernel `printed`. It runs on copies of its tensors.
    """
    with settled(), contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            with a_guest():
                found = _accesses(kernel_in(kernel), grid, arguments)
        except TookTooLong as late:
            found = {"refused": f"the launch {late}"}
        except (Exception, SystemExit) as error:  # whatever a reader's kernel may raise
            found = {"refused": cannot_be_interpreted(error) or failure_of(error).reason}
    return found | {"printed": said.getvalue()[:MAX_PRINTED]}


def _accesses(kernel: object, grid: tuple[int, ...], arguments: dict[str, object]) -> dict:
    memories: dict[int, Tensor] = {}  # by the address of a storage
    for _, tensor in tensors_in(arguments):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in memories:
            content = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            memories[storage.data_ptr()] = _apart(content.cpu())

    def moved(name: str, tensor: Tensor) -> Tensor:
        memory = memories[tensor.untyped_storage().data_ptr()].untyped_storage()
        place = tensor.storage_offset(), tensor.shape, tensor.stride()
        return torch.empty(0, dtype=tensor.dtype).set_(memory, *place)

    arguments = replaced(arguments, moved)
    begins = [memory.data_ptr() for memory in memories.values()]
    sizes = [len(memory) for memory in memories.values()]
    with Accesses(begins, sizes) as kept:
        try:
            kernel[grid](**arguments)
        except Exception:
            if kept.lanes <= MOST_LANES:
                raise
            words = f"more than {MOST_LANES} elements: take smaller blocks, or fewer programs"
            return {"refused": f"its programs load and store {words}"}
    return {"programs": kept.programs, "accesses": kept.found}


def _apart(content: Tensor) -> Tensor:
    """The same bytes, far from all other tensors."""
    room = np.zeros(len(content) + 2 * _GAP, dtype=np.uint8)
    return torch.from_numpy(room[_GAP : _GAP + len(content)]).copy_(content)
