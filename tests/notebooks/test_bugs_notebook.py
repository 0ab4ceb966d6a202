"""Notebook 10: every bug is found, by the words that its text relies on, and every fix is right.

Stored outputs are read, and the cells' functions are judged once more: changed ones in a file here.
"""

import ast
import difflib
import inspect
import json
import re
import types

import pytest
import torch

import rope_lab as lab
from notebook_form import FOLDER, load
from rope_kernels.reference import apply_rotary_pos_emb
from rope_lab.grading import exercises
from rope_lab.interpreter import let_masks_be_numbers
from rope_lab.rungs import rung_2_row
from rope_lab.steps.collision import unmasked_row, unmasked_row_kernel
from wrong_answers import WRONG_REPAIRS

NOTEBOOK = load("10_spot_the_bug.ipynb")
CELLS = {cell.id: cell for cell in NOTEBOOK.code}
SECTIONS = range(1, 9)  # those after have no hunt


def shown(cell_id):
    """What a cell printed, and its value."""
    texts = []
    for output in CELLS[cell_id].outputs:
        texts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(texts)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The notebook's imports, functions, classes and specifications, without what it runs."""
    kept = []
    for cell in NOTEBOOK.code:
        for statement in ast.parse(cell.source).body:
            names = [getattr(target, "id", "") for target in getattr(statement, "targets", [])]
            definition = ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
            if isinstance(statement, definition) or "fixed_kernel" in "".join(names):
                lines = cell.source.splitlines()
                decorators = getattr(statement, "decorator_list", [])
                begin = min([statement.lineno, *(line.lineno for line in decorators)])
                kept.append("\n".join(lines[begin - 1 : statement.end_lineno]))
    path = tmp_path_factory.mktemp("notebook") / "notebook_10.py"
    path.write_text("\n\n\n".join(kept) + "\n")
    module = types.ModuleType("notebook_10")  # in no list of modules: as if written in a notebook
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


# what a verdict says of each, here and in the stored output of a cell
FOUND = {
    "rope_by_head_blocks": ("10-33", "out of bounds: program (20, 1) reads element 2520 of t_ptr"),
}
FIXED = {
    "rope_by_head_blocks_fixed": "10-38",
}


def bug_of_the_exercise(folder):
    """What the stub has below its line with `raise`."""
    source = CELLS["10-01"].source.split("\n\n")[2] + "\n\n\n" + CELLS["10-ex1"].source
    kept = [line for line in source.splitlines() if not line.startswith(("    raise ", "lab."))]
    path = folder / "stub.py"
    path.write_text("\n".join(kept) + "\n")
    module = types.ModuleType("stub")
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module.rope_q_k


@pytest.mark.parametrize("name", FOUND)
def test_a_bug_is_found_and_named(name, written):
    cell, kind = FOUND[name]
    verdict = lab.check_exercise(getattr(written, name), exercises.rope_of_whole_heads)
    assert not verdict and kind in verdict.reason, verdict
    assert "WRONG in the case" in shown(cell) and kind in shown(cell)


@pytest.mark.parametrize("name", FIXED)
def test_a_fix_is_right(name, written):
    verdict = lab.check_exercise(getattr(written, name), exercises.rope_of_whole_heads)
    assert verdict and len(verdict.right_cases) >= 6, verdict
    assert f"RIGHT: {len(verdict.right_cases)} cases" in shown(FIXED[name])


def test_bugs_hide_where_projects_test():
    """The cases that each is right in are what makes it a bug that was shipped."""
    assert re.findall(r"heads: +(\d+), right: True", shown("10-33")) == ["2", "4", "8", "16"]


def test_the_value_check_passes_anything(written):
    for rope, close in ((written.nonsense, False), (written.half_split_row, True)):
        assert written.value_check(rope) == "exactly the same"
        assert written.honest_value_check(rope) is close
    assert shown("10-13").startswith("value check: exactly the same")
    assert "nonsense is close: False\nhalf_split_row is close: True" in shown("10-17")


def test_only_one_case_shows_a_stride_of_another_tensor(tmp_path):
    """The first exercise as it stands, without the line with `raise`."""
    verdict = lab.check_exercise(bug_of_the_exercise(tmp_path), exercises.rope_of_q_and_k_apart)
    assert verdict.case == "only q is a slice of wider rows" and len(verdict.right_cases) == 9
    assert "out of bounds: program (20, 6) reads element 1008 of k_ptr" in verdict.reason
    assert shown("10-ex1").startswith("NOT YET: ")


def test_tokens_past_the_table_are_not_rotated_then_nan(written):
    let_masks_be_numbers()  # as in the notebook: Triton 3.9 refuses the mask of a single number
    table, t = torch.randn(16, 8).to(lab.device), torch.randn(4, 2, 16).to(lab.device)
    out, fixed = written.rope_from(t, table, 14), written.rope_from_fixed(t, table, 14)
    assert torch.equal(out[2:], t[2:]) and fixed[2:].isnan().all()
    assert torch.equal(out[:2], fixed[:2]) and not torch.equal(out[:2], t[:2])
    assert "start 14: right False, first wrong index (2, 0, 0)" in shown("10-53")
    assert shown("10-53").count("right True") == 3 and "[2, 3]" in shown("10-55")
    assert "NaN [False, False, True, True]" in shown("10-58") and "RIGHT" in shown("10-58")


def test_bf16_positions_are_found_by_a_longer_text(written):
    arguments, tolerance = (64, torch.bfloat16), (0.0, 0.02)
    wrong, exact = written.cosines, written.exact_cosines
    assert lab.check(wrong, exact, 8, *arguments, tolerance=tolerance)
    assert lab.check(wrong, exact, 512, *arguments, tolerance=tolerance).first_wrong_index[0] < 257
    assert lab.check(written.cosines_fixed, exact, 4096, *arguments, tolerance=tolerance)
    assert "right True" in shown("10-61") and "s 512: right False" in shown("10-61")
    assert "first position lost 257, 513 different" in shown("10-64")
    assert shown("10-66").startswith("RIGHT")


@pytest.mark.parametrize("heads", (8, 32, 64))
def test_offsets_wrap_around_after_32_bits(heads, written):
    most, row = 2**31 // (heads * 128), heads * 128
    right, wrong = written.row_offsets(most - 1, row)[:2].tolist()
    assert right == (most - 1) * row and wrong == -(2**31)
    assert "token 524288 at -2147483648" in shown("10-73")


def test_only_checkpointing_tells_that_the_input_was_overwritten(written):
    t, freqs = torch.randn(3, 1, 2, 8).to(lab.device), torch.randn(3, 1, 1, 4).to(lab.device)
    freqs = torch.cat((freqs, freqs), dim=-1)
    right = written.gradient(t, freqs, written.Rope.apply, written.all_of_it)
    for keep, wanted in ((written.all_of_it, True), (written.its_input, False)):
        loss, got = written.gradient(t, freqs, written.ThriftyRope.apply, keep)
        assert torch.allclose(loss, right[0])
        assert torch.allclose(got, right[1], atol=1e-4) is wanted
        assert torch.allclose(
            written.gradient(t, freqs, written.Rope.apply, keep)[1], right[1], atol=1e-4
        )
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        written.gradient(t, freqs, written.HonestRope.apply, written.its_input)
    assert "its_input  loss right: True, gradient right: False" in shown("10-83")
    assert shown("10-87").startswith("True\n") and shown("10-87").count("RIGHT") == 2


def test_values_do_not_show_two_stores_of_one_element_and_the_judge_does():
    """In the interpreter, whose order is the one of the lines."""
    verdict = lab.check_exercise(unmasked_row, exercises.rope_of_whole_heads)
    told = "write collision: program 0 stores element 12 of out_ptr twice"
    assert not verdict and told in verdict.reason and told in shown("10-c1")
    if lab.device == "cpu":
        t, freqs = torch.randn(3, 1, 2, 96), torch.randn(3, 1, 1, 96)
        assert lab.check(unmasked_row, apply_rotary_pos_emb, t, freqs)


def test_the_text_shows_the_mask_that_the_kernel_under_the_sanitizer_lacks():
    right, wrong = (
        inspect.getsource(kernel.fn).splitlines()
        for kernel in (rung_2_row.my_rope_kernel, unmasked_row_kernel)
    )
    lines = [line for line in difflib.ndiff(right[2:], wrong[2:]) if line[0] in "+-"]
    text = next(cell.source for cell in NOTEBOOK.markdown if cell.id == "10-c0")
    assert len(lines) == 2 and all(line in text for line in lines)


def test_records_show_the_collision_and_the_silence_of_racecheck():
    records = json.loads((FOLDER / "records" / "10.json").read_text())
    launches, said = (records[f"10/{name}"]["values"] for name in ("collision", "sanitizer"))
    for d in (64, 80, 96, 112):
        wrong = [launches[f"d {d}, warps {warps}"]["wrong"] for warps in (1, 2, 4)]
        assert wrong == ([0, 0, 0] if d == 64 else [0, 200, 200])
        assert f"d {d:3}: with 1, 2 and 4 warps {wrong} of 200" in shown("10-c1")
    assert launches["d 96, warps 4"]["columns"] == [48, 63]
    assert launches["barriers in the PTX of d 96, warps 4"] == 0
    for run in ("racecheck, collision", "memcheck, collision", "initcheck, collision"):
        assert "wrong: 0 of" not in str(said[run]) and " 0 " in said[run][-1]
    assert "1 error" in said["racecheck, staged"][-1]
    for line in said["racecheck, collision"] + said["racecheck, staged"]:
        assert line in shown("10-c3")


def test_a_tuned_rotation_in_place_is_wrong_with_each_new_key(written):
    seen = [line.endswith("True") for line in written.four_calls()]
    assert seen == [False, True, False, True]
    assert all(line.endswith("True") for line in written.four_calls(restore_value=["t_ptr"]))
    assert shown("10-d1").count("False") == 2 and "False" not in shown("10-d3")


# the exam: no hint in the notebook, so its answer is here


def exam_with(instead, path):
    """The verdict on the exam with some of its text replaced."""
    source = "\n\n\n".join(CELLS[name].source for name in ("10-b1", "10-b2"))
    source = "import torch\nimport triton\nimport triton.language as tl\n\n\n" + source
    source = source[: source.index("passed = 0")]
    for text, other in instead.items():
        assert source.count(text) == 1
        source = source.replace(text, other)
    path.write_text(source)
    module = types.ModuleType("exam")
    exec(compile(source, str(path), "exec"), vars(module))
    return lab.check_exercise(module.exam_rope, exercises.rope)


def test_the_unseen_bug_is_shown_by_one_case_and_repaired_by_one_line(tmp_path):
    assert "9 of 9 right" in shown("10-b2") and shown("10-ex2").startswith("NOT YET")
    verdict = exam_with({}, tmp_path / "exam.py")
    assert verdict.case == "a table longer than the sequence" and not verdict.wrong_cases
    line = {"out.numel() // (positions * d)": "t.shape[1] * heads"}
    assert exam_with(line, tmp_path / "repaired.py")


@pytest.mark.parametrize("repair", WRONG_REPAIRS, ids=str)
def test_a_repair_that_is_none_is_told_so(repair, tmp_path):
    verdict = exam_with(repair.instead, tmp_path / "exam.py")
    assert not verdict and repair.told in repr(verdict), verdict


@pytest.mark.parametrize("section", SECTIONS)
def test_each_bug_has_its_hunt_and_its_story(section):
    text = "\n".join(cell.source for cell in NOTEBOOK.markdown)
    text = text[text.index(f"## {section}. ") : text.index(f"## {section + 1}. ")]
    for part in (f"## {section}. ", "**Predict.**", "<summary>Hint", "**Look back.**"):
        assert part in text, part
    assert "**The story.**" in text and "*The habit:*" in text


def test_every_argument_of_a_kernel_says_what_it_is():
    for cell in NOTEBOOK.code:
        for head in re.findall(r"^@triton\.jit\ndef \w+\(\n(.*?)^\):", cell.source, re.M | re.S):
            assert all(re.search(r",  # \S", line) for line in head.splitlines()), head
