"""Count the kernels that eager PyTorch starts in a function, and the bytes they read and write.

Nothing is measured. Every operation counts that PyTorch dispatches while the function runs, except
views. So the count is the same on a CPU and on a GPU. Each input of an operation counts as
read once and each output as written once; a broadcast input counts its own bytes only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_NO_KERNEL = "empty", "new_empty"  # they allocate memory without writing it
_ONLY_WRITE = ("new_", "fill_", "zero_")  # they use their input only for its shape


@dataclass(frozen=True)
class Kernel:
    """One operation that starts a kernel."""

    name: str
    bytes_read: int
    bytes_written: int


class Traffic(TorchDispatchMode):
    """All kernels that PyTorch starts while this context is active."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[Kernel] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: to skip this class, the first operation would load PyTorch's compiler (a second)."""
        return False

    @property
    def total(self) -> Kernel:
        """All of them as one."""
        read = sum(kernel.bytes_read for kernel in self.kernels)
        written = sum(kernel.bytes_written for kernel in self.kernels)
        return Kernel(f"{len(self.kernels)} kernels", read, written)

    @property
    def bytes_moved(self) -> int:
        return self.total.bytes_read + self.total.bytes_written

    def __repr__(self) -> str:
        lines = [f"{'kernel':<12}{'bytes read':>16}{'bytes written':>16}"]
        for kernel in (*self.kernels, self.total):
            lines.append(f"{kernel.name:<12}{kernel.bytes_read:>16,}{kernel.bytes_written:>16,}")
        return "\n".join(lines)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.counted(func, args, kwargs)

    def counted(self, func: Callable, args: tuple, kwargs: dict | None) -> object:
        """Run an operation, and count it."""
        out = func(*args, **(kwargs or {}))
        if func.namespace == "rope_kernels":  # launches a kernel, as its calls do without a mode
            return out
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        outputs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        if not func._schema.is_mutable:  # a view of an input is not written
            memory = {_memory_of(tensor) for tensor in inputs}
            outputs = [tensor for tensor in outputs if _memory_of(tensor) not in memory]
        name = func.name().removeprefix("aten::").split(".")[0]
        written = sum(map(_own_bytes, outputs))
        if written and not name.startswith(_NO_KERNEL):
            only_writes = name.endswith("_like") or name.startswith(_ONLY_WRITE)
            read = 0 if only_writes else sum(map(_own_bytes, inputs))
            self.kernels.append(Kernel(name, read, written))
        return out


def count_eager_traffic(function: Callable[..., object], *args: object) -> Traffic:
    """Run `function(*args)` and count the kernels of eager PyTorch and their bytes."""
    with Traffic() as traffic:
        function(*args)
    return traffic


def _memory_of(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata  # its address would be 0 for a tensor without memory


def _own_bytes(tensor: Tensor) -> int:
    """Bytes of distinct elements: an expanded dimension (stride 0) is read from memory once."""
    if tensor.numel() == 0:
        return 0
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(size for size, stride in sizes if stride) * tensor.element_size()
