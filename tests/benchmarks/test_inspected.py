"""The kernels of others under `lab.inspect`: their record, and the page that shows it."""

import json
import re
import sys
from types import ModuleType

import pytest

from benchmarks import inspected
from benchmarks.results import RESULTS, ROOT

PAGE = ROOT / "docs" / "inspect.md"


def record():
    return json.loads((RESULTS / "nvidia-h200-inspected.json").read_text())


def test_the_page_has_the_table_of_the_record():
    found = record()
    page = PAGE.read_text(encoding="utf-8")
    assert f"<!-- inspected: begin -->\n{inspected.table_of(found)}\n\n" in page
    source = re.search(r"^(.*)\n<!-- inspected: end -->", page, re.MULTILINE)[1]
    assert all(
        part in source for part in (found["gpu"], found["date"], *found["versions"].values())
    )


def test_every_kernel_is_on_record():
    rows = record()["kernels"]
    assert list(rows) == [*inspected.PEERS, *inspected.OURS] and len(inspected.PEERS) == 20
    near = [
        name
        for name, row in rows.items()
        if row["measured_us"] and abs(row["predicted_us"] / row["measured_us"] - 1) <= 0.15
    ]
    assert len([name for name in near if name in inspected.PEERS]) == 16
    bind = {row["binds"] for row in rows.values() if row["binds"]}
    assert bind == {"bytes", "instructions", "starts", "latency"}


def test_their_modules_shadow_no_package(monkeypatch, tmp_path):
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn" / "made_up.py").write_text("NUMBER = 1\n")
    installed = ModuleType("flash_attn")
    monkeypatch.setitem(sys.modules, "flash_attn", installed)
    monkeypatch.setattr(inspected, "_FOLDERS", (tmp_path,))
    assert inspected.theirs("flash_attn.made_up").NUMBER == 1
    assert sys.modules["flash_attn"] is installed and str(tmp_path) not in sys.path
    assert "flash_attn.made_up" not in sys.modules


@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize("name", inspected.OURS)
def test_ours_are_right(name):
    found = inspected.inspected(inspected.OURS[name], "sm_90")
    assert found and found.binding == record()["kernels"][name]["binds"]


@pytest.mark.usefixtures("needs_triton")
@pytest.mark.parametrize("name", inspected.PEERS)
def test_those_of_others_are_right(name):
    if any(source.missing() for source in inspected.SOURCES.values()):
        pytest.skip("python -m benchmarks sources unpacks them")
    assert inspected.inspected(inspected.PEERS[name], "sm_90").ok
