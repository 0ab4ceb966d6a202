"""Every test runs on the GPU where there is one, else in Triton's interpreter on the CPU."""

import gc
import logging
from collections import Counter

import hypothesis
import pytest
import torch

import pairwise
from rope_kernels import paths
from rope_kernels.paths import compiler_is_installed
from rope_lab.interpreter import run_as_compiled

HAS_GPU = torch.cuda.is_available()
run_as_compiled()

# Files whose tests are all slow: they test tools and benchmarks, or start Sphinx, mypy or ranks in
# processes of their own.
SLOW = (
    "test_benchmark_run.py",
    "test_compare.py",
    "test_dry_run.py",
    "test_environment.py",
    "test_on_ranks.py",
    "test_readers_copies.py",
    "test_site.py",
    "test_types.py",
)


@pytest.fixture
def device() -> str:
    return "cuda" if HAS_GPU else "cpu"


@pytest.fixture(autouse=True)
def fixed_seed(pytestconfig):
    torch.manual_seed(pytestconfig.getoption("seed"))


def pytest_addoption(parser):
    parser.addoption(
        "--every",
        action="store_true",
        help="run every combination of parameters, not a choice of them",
    )
    parser.addoption("--seed", type=int, default=20261120, help="of random numbers")


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads its seed
def pytest_configure(config):
    pairwise.EVERY = every = config.getoption("every")
    hypothesis.settings.register_profile(
        "ours",
        max_examples=100 if every else 20,
        deadline=None,
        database=None,  # a run depends on its seed alone
        # without `Phase.explain`, whose lines of other libraries are noise
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    hypothesis.settings.load_profile("ours")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(config.getoption("seed"))


@pytest.hookimpl(tryfirst=True)  # before pytest looks at marks
def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.path.name in SLOW:
            item.add_marker("slow")
    # What takes longest begins first, or one process would end long after the others.
    items.sort(key=lambda item: not item.path.name.startswith("test_answers_in"))
    if not compiler_is_installed():
        for item in items:
            if item.get_closest_marker("needs_compiler"):
                item.add_marker(pytest.mark.skip(reason="needs Triton's compiler"))
    if not HAS_GPU:
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


def pytest_collection_finish():
    """Python looks for cycles less often, and not among what is loaded by now."""
    gc.freeze()
    if not HAS_GPU:  # whose memory cycles would keep
        gc.set_threshold(10_000)


def pytest_terminal_summary(terminalreporter):
    """What was skipped, by reason: a green run may have looked at little."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture
def kept_here(monkeypatch, tmp_path):
    """The folder of rungs that a test climbs. A reader's own are not seen in it."""
    from rope_lab.rungs import kept

    monkeypatch.setenv(kept.FOLDER, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def plain_pytorch(monkeypatch):
    """What a CPU takes without the lab: no kernel, not even an interpreted one."""
    monkeypatch.setattr(paths, "_INTERPRETS_ON_A_CPU", False)
    monkeypatch.setenv("TRITON_INTERPRET", "0")


@pytest.fixture
def needs_triton():
    """For what only a kernel does: without Triton, plain PyTorch takes its calls."""
    pytest.importorskip("triton", reason="needs Triton")


@pytest.fixture
def shown(monkeypatch):
    """Figures and their alternative texts, in place of a notebook that shows them."""
    import matplotlib
    from matplotlib import pyplot

    from rope_lab.figures import style

    figures = []
    matplotlib.use("agg")
    monkeypatch.setattr(
        style,
        "display",
        lambda figure, metadata: figures.append((figure, metadata["image/png"]["alt"])),
    )
    with matplotlib.rc_context():
        style.style()
        yield figures
        pyplot.close("all")


@pytest.fixture
def no_allocator():
    """None is set for descriptors before and after a test."""
    from triton.runtime._allocation import NullAllocator, set_allocator

    yield
    set_allocator(NullAllocator())


@pytest.fixture
def log(caplog, monkeypatch):
    """Returns what the package has logged since, as in a process that had logged nothing."""
    monkeypatch.setattr(paths, "_logged", set())
    caplog.set_level(logging.INFO, "rope_kernels")
    return lambda: [x.getMessage() for x in caplog.records if x.name == "rope_kernels"]


@pytest.fixture
def whole_way(monkeypatch, needs_triton):
    """Nothing is remembered: every call is checked and planned, and goes through Triton's JIT."""
    from rope_kernels import launch

    monkeypatch.setattr(launch, "known_by", lambda *signature: launch.Known())
