"""What several files here need of a test."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


@pytest.fixture
def in_a_fixed_order(monkeypatch, device):
    """Attention and sums that give a model the same bits twice; on a CPU no kernel at all."""
    pytest.importorskip("transformers", reason="needs transformers")
    if device == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "0")
        yield
        return
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    with sdpa_kernel(SDPBackend.MATH):
        yield
    torch.use_deterministic_algorithms(False)
