"""The record of `rope_to_cache` beside others, and the page and the changelog that tell of it."""

import json
import re

from benchmarks import caches
from benchmarks.results import RESULTS, ROOT

STEPS = [*map(str, caches.TOKENS)]


def record():
    return json.loads((RESULTS / "nvidia-h200-caches.json").read_text())


def test_the_page_has_the_table_of_the_record():
    found, page = record(), (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
    assert f"<!-- caches: begin -->\n{caches.table_of(found)}\n\n" in page
    source = re.search(r"^(.*)\n<!-- caches: end -->", page, re.MULTILINE)[1]
    assert all(
        part in source for part in (found["gpu"], found["date"], *found["versions"].values())
    )
    assert list(found["calls"]) == [*caches.CALLS, *caches.COPIES]


def test_one_launch_is_faster_than_two():
    calls = record()["calls"]
    two, one = calls["rope_qk, then vLLM's write"], calls["rope_to_cache in place"]
    ratios = [two[tokens] / one[tokens] for tokens in STEPS]
    assert min(ratios) > 1.5
    rotation = calls["rope_qk in place, alone"]
    assert max(one[tokens] / rotation[tokens] for tokens in STEPS) <= 1.15


def test_the_page_says_how_near_a_prompt_comes_to_a_copy():
    calls, tokens = record()["calls"], str(caches.PROMPT)
    (copy,) = (calls[name][tokens] for name in caches.COPIES)
    share = copy / calls["rope_to_cache"][tokens]
    assert share > 0.9
    page = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
    assert f"A prompt reaches {share:.0%}".replace("%", " %") in page
