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


LARGE = 6  # cases of one test, above which `--slices` leaves some out
ONE_IN = 7  # no size of an axis, so a slice has all of its values


def pytest_addoption(parser):
    parser.addoption(
        "--slices",
        action="store_true",
        help=f"of a test with more than {LARGE} cases, run one in {ONE_IN}",
    )


def slices(items):
    """Every test, but only one in `ONE_IN` cases of a large one."""
    cases = {}
    for item in items:
        cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = [every if len(every) <= LARGE else every[::ONE_IN] for every in cases.values()]
    chosen = {id(item) for some in kept for item in some}
    return [item for item in items if id(item) in chosen]


def pytest_collection_modifyitems(config, items):
    if config.getoption("slices"):
        kept = slices(items)
        chosen = {id(item) for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
        items[:] = kept
    if not HAS_GPU:
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


@pytest.fixture
def whole_way(monkeypatch):
    """Every call is checked and planned, and launched by `launch.run`: the fast path is off."""
    from rope_kernels import fastpath

    monkeypatch.setattr(fastpath, "ENABLED", False)
