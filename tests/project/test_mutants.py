"""The list of deliberate bugs fits the files of today, and the tool that applies them is right."""

import ast

import pytest

import mutants
from mutants import Copy, Mutant, Run

LISTED = mutants.listed()
SOURCE = '''
def f(x: A | B = 3, *y) -> A | B:
    """A docstring with 3."""
    α, c = a[1] + True, 'b'
    return not (x < 3 and g(by=-x)) or f"{x+5}"
'''
TEST = """
from code import two
def test_first(): pass
def test_two(): assert two() == 2
"""


def test_each_edit_fits_its_file_and_names_tests_that_exist():
    assert len({mutant.key for mutant in LISTED}) == len(LISTED) >= 60
    for mutant in LISTED:
        assert mutant.applied((mutants.ROOT / mutant.file).read_text())
        assert mutant.wrong and mutant.tests, mutant
        for test in mutant.tests:
            file, _, name = test.split(" -k ")[0].partition("[")[0].partition("::")
            assert f"def {name}(" in (mutants.ROOT / file).read_text() or not name, test


@pytest.mark.parametrize("old", ["b", "not there", "c"])
def test_an_edit_that_is_not_one_change_is_refused(old):
    with pytest.raises(ValueError, match="accepted"):
        Mutant("x.py", old, "c", "").applied("a b b c")


def test_words_have_their_turn_and_only_their_line_changes():
    edits = [x for x in mutants.edits_of("x.py", SOURCE) if mutants.is_python(x, SOURCE)]
    assert [edit.wrong.partition(",")[0] for edit in edits] == [
        *("3 -> 4", "1 -> 2", "+ -> -", "True -> False", "not -> nothing", "< -> <=", "3 -> 4"),
        *("and -> or", "- -> +", "or -> and"),
    ]
    for edit in edits:
        changed = edit.applied(SOURCE)
        ast.parse(changed)
        same = [a == b for a, b in zip(SOURCE.splitlines(), changed.splitlines(), strict=True)]
        assert same.count(False) == 1


def test_what_is_drawn_can_be_applied_and_is_of_every_room():
    drawn = mutants.drawn()
    assert len({mutant.key for mutant in drawn}) == 100
    for mutant in drawn:
        ast.parse(mutant.applied((mutants.ROOT / mutant.file).read_text()))
    rooms = {mutant.file.rpartition("/")[0] for mutant in drawn}
    assert {"rope_kernels/kernels", "rope_kernels/call", "rope_lab/grading", "rope_lab"} <= rooms


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A bench for a tree of three files."""
    root = tmp_path / "root"
    (root / "tests").mkdir(parents=True)
    (root / "code.py").write_text("def two():\n    return 1 + 1\n")
    (root / "tests/test_code.py").write_text(TEST)
    (root / "other.py").write_text("")
    files = ["code.py", "other.py", "tests/test_code.py"]
    monkeypatch.setattr(mutants, "ROOT", root)
    monkeypatch.setattr(mutants, "tracked", lambda: files)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take a second of each run
    return mutants.Bench(tmp_path / "state", limit=60, quick=True, jobs=1)


def test_a_copy_finds_what_pythonpath_adds_and_its_own_code_first(bench, monkeypatch, tmp_path):
    added = tmp_path / "added"
    added.mkdir()
    (added / "only_here.py").touch()
    (added / "code.py").write_text("def two():\n    return 3\n")
    monkeypatch.setenv("PYTHONPATH", str(added))
    place = bench.free.get()
    (place.folder / "tests/test_added.py").write_text(f"import only_here{TEST}")
    assert place.red(["tests/test_added.py"]) == Run()


def test_a_mutant_is_killed_or_survives_and_that_is_remembered(bench):
    tests = ("tests/test_code.py",)
    wrong = Mutant("code.py", "1 + 1", "1 - 1", "a sign", tests)
    killed = bench.try_one(wrong)
    assert (killed.state, killed.by) == ("killed", "tests/test_code.py::test_two")
    equal = Mutant("code.py", "1 + 1", "2", "equal", tests)
    assert bench.try_one(equal).state == "survived"

    def recalled():
        again = mutants.Bench(bench.state.parent, limit=60, quick=True, jobs=0)
        return [outcome and outcome.state for outcome in map(again.recall, (wrong, equal))]

    assert recalled() == ["killed", "survived"]
    (mutants.ROOT / "other.py").write_text("# of another test, perhaps")
    assert recalled() == ["killed", None]
    (mutants.ROOT / "tests/test_code.py").write_text(TEST + "# another")
    assert recalled() == [None, None]


def test_a_test_that_is_always_red_kills_nothing(bench):
    place = bench.free.get()
    (place.folder / "tests/test_code.py").write_text(TEST + "def test_red(): assert False\n")
    bench.free.put(place)
    tests = ("tests/test_code.py",)
    wrong = Mutant("code.py", "1 + 1", "1 - 1", "a sign", tests)
    equal = Mutant("code.py", "1 + 1", "2", "equal", tests)
    assert [bench.try_one(mutant).state for mutant in (wrong, equal)] == ["killed", "no verdict"]


def test_every_red_test_is_noted_but_what_is_always_red(bench):
    more = TEST + "def test_both(): assert two() == 2\ndef test_red(): assert False\n"
    (mutants.ROOT / "tests/test_code.py").write_text(more)
    wrong = Mutant("code.py", "1 + 1", "1 - 1", "a sign", ("tests/test_code.py::test_two",))

    def bench_of(**options):
        return mutants.Bench(bench.state.parent, limit=60, quick=True, jobs=1, **options)

    tests = [f"tests/test_code.py::test_{name}" for name in ("first", "two", "both", "red")]
    every = bench_of(within=["tests"], all_red=True)
    assert every.try_one(wrong).red == tuple(tests[1:3])
    assert bench_of(within=["tests"], all_red=True).recall(wrong).red == tests[1:3]
    assert bench_of().recall(wrong) is None  # another question
    assert every.never_red(["tests"]) == [tests[0], tests[3]]


def test_it_can_be_asked_whether_a_mutant_is_red_under_other_files(bench):
    (mutants.ROOT / "tests/test_other.py").write_text("def test_nothing(): pass\n")
    tests = ("tests/test_code.py",)
    wrong = Mutant("code.py", "1 + 1", "1 - 1", "a sign", tests)
    mutants.tracked().append("tests/test_other.py")

    def state(path):
        asked = {"limit": 60, "quick": False, "jobs": 1, "within": [path]}
        return mutants.Bench(bench.state.parent, **asked).try_one(wrong).state

    assert [state("tests/test_other.py"), state("tests")] == ["survived", "killed"]


def test_without_git_all_files_count_that_no_tool_has_made(tmp_path, monkeypatch):
    for name in ("code.py", ".git_is_not_here", "tests/test_code.py", "build/x", "a.egg-info/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    assert mutants.tracked() == [".git_is_not_here", "code.py", "tests/test_code.py"]


def test_a_run_that_does_not_end_is_ended(tmp_path):
    (tmp_path / "test_slow.py").write_text("import time\ndef test_it(): time.sleep(60)\n")
    assert Copy(tmp_path, limit=1).red(["test_slow.py"]) == Run(ended=False)


def test_a_test_that_is_gone_kills_nothing_and_a_file_that_cannot_be_imported_is_red(bench):
    gone = Mutant("code.py", "1 + 1", "1 - 1", "a sign", ("tests/test_code.py::test_gone",))
    assert bench.try_one(gone).state == "unfinished"
    broken = Mutant("code.py", "return", "retrun", "a typo", ("tests/test_code.py",))
    outcome = bench.try_one(broken)
    assert (outcome.state, outcome.by) == ("killed", "tests/test_code.py")
