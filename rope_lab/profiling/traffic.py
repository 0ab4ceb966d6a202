"""What eager PyTorch does behind a function: its kernels, and the bytes they read and write.

Counted, not measured: every operation that PyTorch dispatches while the function runs and that is
no mere view. So the count is the same on a CPU and on a GPU. Each input of an operation counts as
read once and each output as written once; a broadcast input counts its own bytes only.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_NO_KERNEL = "empty", "new_empty"  # memory, and nothing in it
_ONLY_WRITE = ("new_", "fill_", "zero_")  # what they take says no more than a shape


@dataclass(frozen=True)
class Kernel:
    """One operation that starts a kernel."""

    name: str
    bytes_read: int
    bytes_written: int


@dataclass
class Traffic:
    """All kernels of one run of a function."""

    kernels: list[Kernel] = field(default_factory=list)

    @property
    def bytes_read(self) -> int:
        return sum(kernel.bytes_read for kernel in self.kernels)

    @property
    def bytes_written(self) -> int:
        return sum(kernel.bytes_written for kernel in self.kernels)

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written

    def __repr__(self) -> str:
        lines = [
            f"{kernel.name:<12}{kernel.bytes_read:>16,}{kernel.bytes_written:>16,}"
            for kernel in self.kernels
        ]
        head = f"{'kernel':<12}{'bytes read':>16}{'bytes written':>16}"
        total = (
            f"{f'{len(self.kernels)} kernels':<12}{self.bytes_read:>16,}{self.bytes_written:>16,}"
        )
        return "\n".join([head, *lines, total])


def count_eager_traffic(function: Callable[..., object], *args: object) -> Traffic:
    """Run `function(*args)` and count the kernels of eager PyTorch and their bytes."""
    with _Counter() as counter:
        function(*args)
    return counter.traffic


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.traffic = Traffic()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        outputs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        name = func.name().removeprefix("aten::").split(".")[0]
        in_place = func._schema.is_mutable
        written = sum(
            _own_bytes(tensor) for tensor in outputs if in_place or not _shares(tensor, inputs)
        )
        if written and not name.startswith(_NO_KERNEL):
            only_writes = name.endswith("_like") or name.startswith(_ONLY_WRITE)
            read = 0 if only_writes else sum(_own_bytes(tensor) for tensor in inputs)
            self.traffic.kernels.append(Kernel(name, read, written))
        return out


def _shares(tensor: Tensor, others: list[Tensor]) -> bool:
    """Is `tensor` a view of one of the others (then nothing was written)?"""
    storage = tensor.untyped_storage()._cdata  # its address is 0 where a tensor has no memory
    return any(storage == other.untyped_storage()._cdata for other in others)


def _own_bytes(tensor: Tensor) -> int:
    """Bytes of distinct elements: an expanded dimension (stride 0) is read from memory once."""
    if tensor.numel() == 0:
        return 0
    distinct = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        distinct *= size if stride else 1
    return distinct * tensor.element_size()
