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
    """Every call is checked and planned, and launched by `launch.run`: the fast path is off."""
    from rope_kernels import fastpath

    monkeypatch.setattr(fastpath, "ENABLED", False)
