"""Pages and tables are made of the records on file; nothing in them is typed."""

import json
from statistics import median

import pytest

from benchmarks.record import RESULTS, load, save
from benchmarks.tables import pages, records_in, write
from processes import ROOT


def test_pages_show_the_numbers_of_all_records_and_of_no_others():
    found = pages(records_in(RESULTS))
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, path
    assert {*RESULTS.glob("*.md")} < {*found}


def share(file, shape, provider):
    """Per cent of copy bandwidth of a forward."""
    (row,) = (
        row
        for row in load(RESULTS / f"{file}.json")["rows"]
        if (row["shape"], row["direction"], row["provider"]) == (shape, "forward", provider)
    )
    return f"{row['of_limit']:.0%}".replace("%", " %")


def compiled_steps():
    record = json.loads((ROOT / "notebooks/records/12.json").read_text("utf-8"))
    step = record["12/shares"]["values"]["Llama-3-8B layer"]["compiled"]
    return [step[way]["step_us"] / 1000 for way in ("PyTorch", "package")]


def gain(row, way):
    """How many more tokens per second a model trains on."""
    return median(row["ms"]["unpatched"]) / median(row["ms"][way]) - 1


def when_to_use_the_package():
    """What README says of it, with numbers from the records."""
    theirs, ours = compiled_steps()
    yield f"takes {theirs:.1f} ms with it, and {ours:.1f} ms with the package"
    rows = load(RESULTS / "nvidia-h200-models.json")["rows"]
    rows = [row for row in rows if "launches" in row]  # of the others, only times
    in_bf16 = [row for row in rows if row["precision"] == "bf16"]
    (qwen,) = (row for row in in_bf16 if row["model"] == "Qwen3")
    yield f"train four layers of Qwen 3 on {100 * gain(qwen, 'norms'):.0f} % more tokens per second"
    alone = [100 * gain(row, "patched") for row in in_bf16]
    yield f"The rotation alone gains {min(alone):.0f} to {max(alone):.0f} %."
    differ, tensors = (sum(row[name] for row in rows) for name in ("differ", "tensors"))
    assert differ == 0
    yield f"none of {tensors} logits and gradients"
    peers, packed = "peers-nvidia-h200", "thd (65536, 32, 128) bf16, 50 sequences"
    ours, theirs = (share(peers, packed, name) for name in ("rope_kernels", "FlashAttention"))
    yield f"{ours} of a copy's speed with 50 sequences, where FlashAttention reaches {theirs}."
    long = "sbhd (131072, 1, 8, 128) bf16"
    names = "rope_kernels, on the fly", "rope_kernels"
    inside, table = (share(peers, long, name) for name in names)
    yield f"angles computed in the kernel reach {inside}, a table {table}."
    cache = "rope_to_cache, 8192 tokens, bf16 cos and sin (s, d/2)"
    names = "rope_kernels", "vLLM, rotate then write"
    ours, theirs = (share("nvidia-h200-cache-limits", cache, name) for name in names)
    yield f"{ours} of a copy's speed for 8192 tokens, vLLM's two launches {theirs}."


@pytest.mark.parametrize("said", list(when_to_use_the_package()))
def test_readme_says_when_to_use_the_package_with_the_numbers_of_records(said):
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def test_another_gpu_without_a_page_has_its_table_below_the_first(copied):
    record = load(RESULTS / "nvidia-h200-models.json")
    save(copied / "benchmarks/results/made-up-models.json", record | {"gpu": "A Made Up"})
    write()
    text = (copied / "docs/hugging_face.md").read_text(encoding="utf-8")
    assert text.index("NVIDIA H200, torch") < text.index(f"<summary>A Made Up, {record['date']}")
    assert text.count("A Made Up, torch") == 1


def test_an_unfinished_run_is_shown_nowhere(copied):
    def gpus():
        return [x["gpu"] for x in records_in(path.parent) if x["benchmark"] == "peers"]

    path = copied / "benchmarks/results/peers-nvidia-h200.json"
    results, (first, *others) = load(path), gpus()
    assert first == "NVIDIA H200"
    for spoilt in ({"complete": False}, {"rows": []}):
        save(path, results | spoilt)
        assert gpus() == others
