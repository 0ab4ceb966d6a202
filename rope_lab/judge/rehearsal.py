"""Call a reader's function with tensors as large as in practice, which have no memory.

No kernel runs. What the function launches shows what small tensors on a CPU can't: a tensor that
was made on the CPU, a grid that a GPU refuses, blocks that are too large for its compiler.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses import fake_tensor
from torch.utils._pytree import tree_leaves
from triton.runtime import _allocation

from ..compiler.launch_limits import NotLaunched
from ..compiler.launches import Launch, launches_of
from ..profiling.traffic import Traffic, count_eager_traffic
from ..run import MAKE_IT_THERE, tensors_in
from .counts import COPIES
from .guests import TookTooLong, a_guest, device_of_the_lab
from .spec import MILLION, Case, Spec
from .verdict import raised

RESULT = "the result"
NOT_KNOWN = (  # a size or a branch depends on elements, or PyTorch can't do it without them
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedFakeTensorException,
    fake_tensor.UnsupportedOperatorException,
)
LONG = {"s": 2**17, "b": 2, "h": 8, "g": 2, "d": 64}


@dataclass(frozen=True)
class Rehearsal:
    """What a function would do on a GPU.

    Attributes:
        launches: in order.
        eager: PyTorch's own kernels.
        made: what it returned, and the memory that kernels with descriptors would get.
        device: where the inputs are.
    """

    launches: list[Launch]
    eager: Traffic
    made: list[tuple[str, Tensor]]
    device: str

    @property
    def work(self) -> list[str]:
        """What PyTorch does to elements, as a reader writes it."""
        return [COPIES.get(one.name, one.name) for one in self.eager.kernels if one.bytes_read]

    @property
    def passed(self) -> list[tuple[str, Tensor]]:
        """The tensors that kernels got, with their names."""
        named = [(one.name, tensors_in(one.named)) for one in self.launches]
        return [(f"{name} of {kernel}", x) for kernel, tensors in named for name, x in tensors]

    @property
    def misplaced(self) -> str:
        """Which tensor isn't where the inputs are; '' if all are there."""
        for name, x in (*self.passed, *self.made):
            if x.device.type not in (self.device, "cuda"):
                words = f"{name} is on the {x.device.type.upper()}, and the inputs are on the GPU"
                return f"{words}: {MAKE_IT_THERE}"
        return ""

    @property
    def lost(self) -> str:
        """Whether a result is in memory that no kernel got, because it was copied; in words.

        Nothing is said if no launch was seen: those of `rope_kernels` aren't.
        """
        known = {x.untyped_storage()._cdata for _, x in self.passed}
        results = [x for name, x in self.made if name == RESULT]
        if not known or all(x.untyped_storage()._cdata in known for x in results):
            return ""
        return "the result isn't what a kernel got: from a CPU to a GPU, .to(x.device) makes a copy"


def rehearsed(
    function: Callable,
    make: Callable[[str], Sequence],
    device: str,
    in_every_configuration: bool = False,
) -> Rehearsal:
    """Rehearse a call; raises what the function raises, or `TimeoutError`.

    Args:
        function: launches kernels.
        make: makes its inputs on a device.
        device: 'meta', or 'cuda' for tensors that claim to be there, which takes a second longer
            the first time. Only these tell a copy to the CPU from elements that are read.
        in_every_configuration: of a tuner; otherwise in its first one.
    """
    launches: list[Launch] = []
    returned: list[object] = []
    context = _on_a_gpu_without_memory() if device == "cuda" else contextlib.nullcontext()
    with context, device_of_the_lab(device, function):
        inputs = make(device)

        def call() -> None:
            launches.extend(
                launches_of(
                    lambda: returned.append(function(*inputs)),
                    in_every_configuration=in_every_configuration,
                )
            )

        try:
            with a_guest(device):
                eager = count_eager_traffic(call)
                made = [(RESULT, x) for x in tree_leaves(returned) if isinstance(x, Tensor)]
                with contextlib.suppress(Exception):  # there is none, or it needs a GPU
                    memory = _allocation._allocator.get()(128, 128, None)
                    made.append(("the allocator's memory", memory))
        except TookTooLong as late:
            raise TimeoutError(f"it {late}") from None
    return Rehearsal(launches, eager, made, device)


def rehearsed_exercise(candidate: Callable, wanted: Spec) -> tuple[str, list[Launch]]:
    """What is wrong with a right candidate on a GPU, and its launches.

    Nothing if the function depends on elements: then it isn't known what it launches.
    """
    is_long = any(case.name == MILLION for case in wanted.cases)
    case = Case("", LONG | {"n": 2**29 + 1 if is_long else 1000})

    def make(device: str) -> list[Tensor]:
        return wanted.without_memory(case, device)

    shapes = zip(wanted.names, (tuple(x.shape) for x in make("meta")), strict=True)
    words = ", ".join(f"{name} of shape {shape}" for name, shape in shapes)
    for device in ("meta", "cuda"):
        try:
            found = rehearsed(candidate, make, device, in_every_configuration=True)
        except NotLaunched as error:
            return f"for {words} {error}", []
        except NOT_KNOWN:
            return "", []
        except (Exception, SystemExit) as error:  # whatever a reader's function may raise
            stopped = f"for {words} it {raised(error)}"
        else:
            return found.misplaced or (found.lost if wanted.kernel else ""), found.launches
    return stopped, []


def programs_of(candidate: Callable, wanted: Spec, case: Case) -> float:
    """How many programs a candidate starts in a case; infinite if that isn't known."""
    try:
        found = rehearsed(candidate, lambda device: wanted.without_memory(case, device), "meta")
    except (Exception, SystemExit):  # whatever a reader's function may raise
        return math.inf
    return sum(launch.programs for launch in found.launches)


def mixes_devices(error: Exception) -> bool:
    """Whether an operator of PyTorch was called with tensors on two devices."""
    return any(words in str(error) for words in ("on the same device", "on the expected device"))


@contextlib.contextmanager
def _on_a_gpu_without_memory() -> Iterator[None]:
    """Make tensors on a GPU that have no memory: they only claim to be there."""
    with fake_tensor.FakeTensorMode(), contextlib.ExitStack() as stack:
        if not torch.cuda.is_available():
            stack.enter_context(patch.object(torch.cuda, "is_available", lambda: True))
            stack.enter_context(patch.object(fake_tensor, "init_gpu_context", lambda device: None))
        yield
