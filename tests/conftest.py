"""Every test runs on the GPU where there is one, else in Triton's interpreter on the CPU."""

import os

import pytest
import torch

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before anything loads Triton


@pytest.fixture
def device() -> str:
    return "cuda" if HAS_GPU else "cpu"


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(20261120)


def pytest_collection_modifyitems(items):
    if not HAS_GPU:
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


@pytest.fixture
def whole_way(monkeypatch):
    """Every launch goes through `launch.launch_rope` and the kernel's JIT, for tests that stand
    between them: what calls of the same kind have launched before is forgotten."""
    from rope_kernels import kinds, launch

    kinds.remembered.cache_clear()
    monkeypatch.setattr(launch, "shortest_launch", lambda *arguments: None)
    yield
    kinds.remembered.cache_clear()
