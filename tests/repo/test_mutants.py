"""The list of deliberate bugs fits the files of today, and the tool that applies them is right."""

import pytest

import mutants
from mutants import Mutant

LISTED = mutants.listed()
TEST = """
import pytest
from counted_here import two
def test_first(): pass
@pytest.mark.parametrize("wanted", [2], ids=["1 and 1"])
def test_two(wanted): assert two() == wanted
"""


def test_each_edit_fits_its_file_and_names_tests_that_exist():
    assert len({*LISTED}) == len(LISTED) >= 60
    for mutant in LISTED:
        assert mutant.applied((mutants.ROOT / mutant.file).read_text(encoding="utf-8"))
        assert mutant.wrong and mutant.tests, mutant
        for test in mutant.tests:
            file, _, name = test.split(" -")[0].partition("[")[0].partition("::")
            source = (mutants.ROOT / file).read_text(encoding="utf-8")
            assert f"def {name}(" in source or not name, test


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A bench for a tree of two files."""
    root = tmp_path / "root"
    (root / "tests").mkdir(parents=True)
    (root / "counted_here.py").write_text("def two():\n    return 1 + 1\n", encoding="utf-8")
    (root / "tests/test_code.py").write_text(TEST, encoding="utf-8")
    files = ["counted_here.py", "tests/test_code.py"]
    monkeypatch.setattr(mutants, "ROOT", root)
    monkeypatch.setattr(mutants, "tracked", lambda: files)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take a second of each run
    return mutants.Bench(tmp_path / "copy")


def mutant(new, old="1 + 1", tests="tests/test_code.py"):
    return Mutant("counted_here.py", old, new, "a bug", (tests,))


@pytest.mark.slow
def test_a_mutant_is_killed_or_survives(bench):
    assert bench.try_one(mutant("1 - 1")) == ("killed", "tests/test_code.py::test_two[1 and 1]")
    assert bench.try_one(mutant("2")) == ("survived", "")


@pytest.mark.slow
def test_a_test_that_is_always_red_kills_nothing(bench):
    test = bench.folder / "tests/test_code.py"
    test.write_text(TEST + "def test_red(): assert False\n", encoding="utf-8")
    assert [bench.try_one(mutant(x))[0] for x in ("1 - 1", "2")] == ["killed", "no verdict"]
