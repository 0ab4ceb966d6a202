"""What tests of the package share: launches counted, and memory that shows what is not written."""

import gc

import pytest
import torch

from counted import Interpreter
from rope_kernels import launch


@pytest.fixture
def interpreter(device, needs_triton):
    """Notes launches; None on a GPU, where later calls are launched by what Triton returns."""
    if device != "cpu":
        yield None
        return
    with Interpreter().launching() as launching:
        yield launching
    launch.forget()  # A call that looks alike would find a launch of this test's.


@pytest.fixture
def new_memory_is_nan(device):
    """So that an element that is not written, or is read before that, is seen in the result."""
    torch.use_deterministic_algorithms(True)  # which fills new memory
    assert torch.empty(3, device=device).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def memory_is_given_back():
    """Gigabytes, which cycles would keep. A process that has more than the machine can't fork."""
    yield
    gc.collect()


@pytest.fixture
def nothing_compiled_before():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
