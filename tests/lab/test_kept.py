"""A reader's own kernel: kept when it is right, and given to a model."""

import runpy

import pytest

import rope_lab as lab
from notebook_form import FOLDER
from readers_rung import HEADER, my_rope_of
from rope_lab.records import QUIET
from rope_lab.rungs import RUNGS, kept

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("kept_here")

HELPER = "@triton.jit\ndef turn(x, other, cos, sin):\n    return x * cos + other * sin\n\n\n"


def test_a_kernel_is_kept_as_a_module_with_all_that_it_uses(kept_here, tmp_path):
    text = RUNGS[1].source.replace(
        "x * tl.cos(angle) + quarter * tl.sin(angle)",
        "turn(x, quarter, tl.cos(angle), tl.sin(angle))",
    )
    assert "turn(" in text
    kept.keep(1, my_rope_of(HELPER + text, tmp_path))
    assert kept.climbed() == [1]
    names = runpy.run_path(str(kept_here / "rung_1.py"))
    assert callable(names["my_rope"]) and "turn" in names
    stored = (kept_here / "rung_1.py").read_text(encoding="utf-8")
    assert HEADER.strip() in stored and "as torch" not in stored
    for comment in ("# angles (at least s, 1, 1, d), contiguous", "# b * h, rows of one position"):
        assert comment in stored


def test_copies_originals_and_lone_notebooks_keep_in_one_folder(monkeypatch, tmp_path):
    """Of a clone of its own, so that this one's rungs don't count; without worked solutions."""
    monkeypatch.delenv(kept.FOLDER)
    clone = tmp_path / "clone"
    (clone / "notebooks/records").mkdir(parents=True)
    (clone / "notebooks/records/machines.json").touch()
    for place in ("notebooks", "notebooks/deeper", "my_notebooks/deeper", "my_notebooks/solutions"):
        (clone / place).mkdir(parents=True, exist_ok=True)
    (clone / "my_notebooks/records").symlink_to("../notebooks/records")
    for place in ("notebooks", "notebooks/deeper", "my_notebooks", "my_notebooks/deeper"):
        monkeypatch.chdir(clone / place)
        assert kept.folder() == clone / "my_notebooks" / "rungs"
    monkeypatch.chdir(tmp_path)  # a copy of a notebook alone: with the lab's own clone
    assert kept.folder().parent.name == "my_notebooks"
    monkeypatch.chdir(clone / "my_notebooks/solutions")
    kept.keep(2, my_rope_of(RUNGS[2].source, tmp_path))
    assert kept.climbed() == [] and not (clone / "my_notebooks/rungs").exists()


def test_a_rung_judged_right_is_kept_but_not_where_outputs_are_compared(monkeypatch, tmp_path):
    """`pytest --nbval` and `make notebooks` run the worked solutions, which are not a reader's."""
    own = my_rope_of(RUNGS[2].source, tmp_path)
    monkeypatch.setenv(QUIET, "1")
    assert lab.check_rung(2, own)
    assert kept.climbed() == []
    monkeypatch.delenv(QUIET)
    verdict = lab.check_rung(2, own)
    assert "rung 2" in verdict.reason
    assert kept.climbed() == [2]
    assert "\n  2 ✓   05 " in repr(verdict) and "\n  next: Exercise 2: Rung 3" in repr(verdict)
    monkeypatch.chdir(FOLDER)
    place = "05_fused_half_split.ipynb#cell-id=05-ex7-task"
    link = f'<a href="{place}">Exercise 2: Rung 3, found in a picture</a>'
    assert f"next: {link}" in verdict._repr_html_()


def test_a_model_gets_the_readers_last_kernel_that_has_a_backward(kept_here, monkeypatch, tmp_path):
    monkeypatch.delenv(QUIET, raising=False)
    assert kept.mine_or_ours() is RUNGS[7].module.my_rope
    kept.keep(3, my_rope_of(RUNGS[3].source, tmp_path))
    assert kept.mine_or_ours() is RUNGS[7].module.my_rope  # rung 3 has no backward
    for rung in (5, 4):
        kept.keep(rung, my_rope_of(RUNGS[rung].source.replace("exists", f"is_{rung}"), tmp_path))
    assert "is_5" in (kept_here / "rung_5.py").read_text(encoding="utf-8")
    assert kept.mine_or_ours().__code__.co_filename.endswith("rung_5.py")
    monkeypatch.setenv(QUIET, "1")  # where outputs are stored or compared, they are of ours
    assert kept.mine_or_ours() is RUNGS[7].module.my_rope


def test_a_rung_to_copy_is_the_readers_own_once_it_is_kept(monkeypatch, tmp_path):
    monkeypatch.delenv(QUIET, raising=False)
    ours = lab.show_rung(5)
    assert repr(ours) == f"Rung 5 to copy: ours\n\n{RUNGS[5].source.strip()}"
    text = RUNGS[5].source.replace("block_r, num_warps = 8, 1", "block_r, num_warps = 4, 2")
    kept.keep(5, my_rope_of(text, tmp_path))
    own = lab.show_rung(5)
    assert own.title == "Rung 5 to copy: your own" and "num_warps = 4, 2" in own.text
    assert own.text.startswith("@triton.jit") and "import" not in own.text
    assert own._repr_html_().startswith("<details><summary>Rung 5 to copy: your own</summary><pre>")
    monkeypatch.setenv(QUIET, "1")
    assert repr(lab.show_rung(5)) == repr(ours)
    with pytest.raises(ValueError, match="rung is 9; accepted: 1 to 7"):
        lab.show_rung(9)


def test_kernels_of_an_older_ladder_are_set_aside(kept_here, monkeypatch, tmp_path):
    """Their rungs had other numbers, so none of them counts, and none is lost."""
    monkeypatch.delenv(QUIET)
    kept_here.mkdir()
    (kept_here / "rung_2.py").write_text("import torch\n", encoding="utf-8")
    assert kept.climbed() == [] and lab.show_rung(2).title == "Rung 2 to copy: ours"
    verdict = lab.check_rung(2, my_rope_of(RUNGS[2].source, tmp_path))
    assert verdict and "your kernels of before are in kept/older" in verdict.remark, verdict
    assert kept.climbed() == [2] and "import torch" in kept_here.joinpath("rung_2.py").read_text()
    assert (kept_here / "older/rung_2.py").read_text(encoding="utf-8") == "import torch\n"
