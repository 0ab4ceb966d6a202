"""The tables are those of the results on file; nothing in them is typed.

The checks are tried, too, on a file that a run with made-up times writes.
"""

import pytest

from benchmarks import __main__ as command
from benchmarks import record
from benchmarks.case import LIMITS, OURS
from benchmarks.kinds import ROTATION, rotation
from benchmarks.kinds.rotation import FULL, tables
from benchmarks.providers import PROVIDERS
from benchmarks.results import RESULTS, comparisons, load, save, share
from made_up_benchmark import FakeGPU, without_tensors
from rope_lab.records import origin

OTHERS = (
    "peers-",
    "-norm",
    "-models",
    "-projections",
    "-caches",
)  # records with no tables in README
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
FILES = [path for path in sorted(RESULTS.glob("*.json")) if not any(x in path.stem for x in OTHERS)]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """Path of a file of results in the format of today, made by a run with made-up times."""
    folder = tmp_path_factory.mktemp("results")
    monkeypatch = pytest.MonkeyPatch()
    gpu = FakeGPU(device="cpu")
    kind = without_tensors(monkeypatch, gpu)
    monkeypatch.setattr(record, "RESULTS", folder)
    monkeypatch.setattr(rotation, "FULL", folder / "FULL.md")
    (folder / "FULL.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert command.main([], gpu, [kind]) == 0
    monkeypatch.undo()
    return folder / "made-up.json"


@pytest.fixture(params=[*FILES, "made up"], ids=lambda path: getattr(path, "stem", path))
def path(request, made_up):
    return made_up if request.param == "made up" else request.param


def page_with_table(path):
    """The page that has a table made from these results."""
    return FULL if path.parent == RESULTS else path.parent / "FULL.md"


def filled_in(text, results):
    (made,) = tables(results)
    return made.filled_in(text)


def table(results):
    return tables(results)[0].text


def test_tables_show_the_results_on_file(path):
    results = load(path)
    text = page_with_table(path).read_text()
    assert filled_in(text, results) == text
    assert filled_in(text.replace(BEGIN, BEGIN + "\n1.0 µs"), results) == text
    assert origin(results["gpu"], results["versions"], results["date"]) in text


def test_the_record_is_whole(path):
    results = load(path)
    assert path.stem == results["gpu"].lower().replace(" ", "-")
    assert {"torch", "triton", "driver"} <= set(results["versions"])
    assert results["record"] and results["complete"] and not results["quick"]
    assert set(ROTATION.record) <= set(results["sets"])
    found = {
        (row["set"], row["shape"], row["direction"], row["provider"]) for row in results["rows"]
    }
    for name in ROTATION.record:
        for group in ROTATION.sets[name]:
            for case in group.cases:
                for direction in group.directions:
                    if case.inplace and direction == "both":
                        continue
                    limit = "x * 2" if case.clock == "host" else "copy_"
                    for provider in (limit, OURS):
                        assert (name, case.label, direction, provider) in found


def test_every_provider_was_right_when_it_was_measured(path):
    """bf16 rounds to 8 bits; the unfused ones round several times."""
    results = load(path)
    for row in results["rows"]:
        if row["provider"] in LIMITS or row["set"] not in ROTATION.sets:
            continue
        cases = [case for group in ROTATION.sets[row["set"]] for case in group.cases]
        (case,) = (case for case in cases if case.label == row["shape"])
        assert row["error"] <= PROVIDERS[row["provider"]].allowed_error(case), row


def test_ours_reaches_nine_tenths_of_the_copy(path):
    """The first bar, at (2048, 16, 8, 256) in bf16 and fp32, both directions."""
    reached = {
        (limit["shape"], limit["direction"]): share(together[OURS], limit)
        for together, limit in comparisons(load(path)["rows"])
        if "(2048, 16, 8, 256)" in limit["shape"] and limit["direction"] != "both"
    }
    assert len(reached) >= 4
    assert min(reached.values()) >= 0.90, reached


def test_a_run_writes_a_table_between_the_marks_and_a_file_that_reads_back(made_up, tmp_path):
    text = (made_up.parent / "FULL.md").read_text()
    assert text.startswith(f"before\n{BEGIN}\n") and text.endswith(f"\n{END}\nafter\n")
    assert "old" not in text.split(END)[0].split()
    assert "| rope_kernels |" in text and "met, by" in text
    save(tmp_path / "copy.json", load(made_up))
    assert (tmp_path / "copy.json").read_text() == made_up.read_text()


def test_a_missed_bar_is_said(made_up):
    results = load(made_up)
    missed = table(results).count("**missed by")
    first = next(row for row in results["rows"] if row["provider"] == OURS)
    assert f"| {first['median_us']:.1f} µs (98%) |" in table(results)
    first["median_us"] *= 2
    assert table(results).count("**missed by") == missed + 1
    assert f"| {first['median_us']:.1f} µs (49%) |" in table(results)
