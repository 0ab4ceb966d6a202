"""Every test runs on the GPU where there is one, else in Triton's interpreter on the CPU."""

import os
import zlib

import pytest
import torch

import pairwise
from rope_lab.interpreter import speed_up

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before anything loads Triton
    speed_up()


@pytest.fixture
def device() -> str:
    return "cuda" if HAS_GPU else "cpu"


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(20261120)


# What `--slices` leaves of a test with many cases. Which ones depends on the test's name, so that
# of four formats each is seen by many tests.
SMALL = 2  # cases: all of them
LARGE = 6  # up to here every second case
ONE_IN = 13  # above, one in so many: no size of an axis, so a slice has all of its values


def pytest_addoption(parser):
    parser.addoption(
        "--slices",
        action="store_true",
        help=f"run half the cases of a test with more than {SMALL}, 1 in {ONE_IN} above {LARGE}",
    )
    parser.addoption(
        "--every",
        action="store_true",
        help="run every combination of a test's parameters, not only every pair of two values",
    )


def pytest_configure(config):
    pairwise.EVERY = config.getoption("every")


def slices(items):
    """Every test, but not all cases of one that has many."""
    cases = {}
    for item in items:
        cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    chosen = {id(item) for name, every in cases.items() for item in slice_of(name, every)}
    return [item for item in items if id(item) in chosen]


def slice_of(name, cases):
    """Some cases of a test; which ones, is decided by its name, of a large one by its file's.

    Large tests of one file often have the same cases, and share what is made for them. The
    room decides nothing, so a file that moves to another one keeps its slice.
    """
    if len(cases) <= SMALL:
        return cases
    name = "tests/" + name.rpartition("/")[2]
    step, by = (2, name) if len(cases) <= LARGE else (ONE_IN, name.split("::")[0])
    return cases[zlib.adler32(by.encode()) % min(step, len(cases)) :: step]


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
def needs_triton():
    """For what only a kernel does: without Triton, plain PyTorch takes its calls."""
    pytest.importorskip("triton", reason="needs Triton")


@pytest.fixture
def whole_way(monkeypatch, needs_triton):
    """Every call is checked and planned, and launched by `launch.run`: the fast path is off."""
    from rope_kernels.launch import fastpath

    monkeypatch.setattr(fastpath, "ENABLED", False)
