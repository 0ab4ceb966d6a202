"""README's table and picture are those of the results on file; nothing in them is typed."""

import copy
import json

import pytest

from benchmarks.report import BEGIN, README, RESULTS, filled_in, source, table

FILES = sorted(RESULTS.glob("*.json"))


def load(path):
    return json.loads(path.read_text())


def test_readme_shows_the_results_on_file():
    (path,) = FILES  # one GPU so far
    readme = README.read_text()
    assert filled_in(readme, load(path)) == readme
    assert source(load(path)) in readme
    assert f"benchmarks/results/{path.stem}.png" in readme and path.with_suffix(".png").exists()


def test_a_figure_typed_into_readme_is_found():
    results = load(FILES[0])
    changed = copy.deepcopy(results)
    changed["rows"][-1]["median_us"] += 1
    assert table(changed) != table(results)
    readme = README.read_text()
    assert filled_in(readme.replace(BEGIN, BEGIN + "\n1.0 µs"), results) == readme


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_results_name_their_gpu_versions_and_date(path):
    results = load(path)
    assert path.stem == results["gpu"].lower().replace(" ", "-")
    assert {"torch", "triton", "driver"} <= set(results["versions"])
    assert len(results["date"]) == len("2026-11-20")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_provider_was_right_when_it_was_measured(path):
    """bf16 rounds to 8 bits; the unfused ones round several times."""
    for row in load(path)["rows"]:
        if row["provider"] == "copy_":
            continue
        allowed = {"float32": 2e-7, "bfloat16": 1.7e-3}[row["shape"].split()[-1]]
        several_roundings = 3 if row["provider"] != "rope_kernels" else 1
        assert row["error"] <= allowed * several_roundings, row


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_ours_reaches_nine_tenths_of_the_copy(path):
    """The first bar, at (2048, 16, 8, 256) in bf16 and fp32, both directions."""
    rows = load(path)["rows"]
    for ours in (row for row in rows if row["provider"] == "rope_kernels"):
        same = (ours["shape"], ours["direction"])
        (limit,) = (
            r for r in rows if (r["shape"], r["direction"], r["provider"]) == (*same, "copy_")
        )
        assert limit["median_us"] / ours["median_us"] >= 0.90, ours
