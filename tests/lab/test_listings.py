"""Where Triton has no compiler, stored listings are replayed: what it would make of the kernels."""

import json
import re

import pytest

from pairwise import slow_but
from readers_rung import my_rope_of
from rope_lab.compiler import compile as compile_module
from rope_lab.compiler import listings
from rope_lab.compiler.listings import NoCompiler
from rope_lab.compiler.stages import INSTRUCTION
from rope_lab.judge.climb.check_rung import check_rung
from rope_lab.judge.climb.instruments import headline
from rope_lab.judge.rehearsal import rehearsed
from rope_lab.judge.verdict import AS_INTERPRETED, NOT_YET, RIGHT
from rope_lab.records import QUIET
from rope_lab.rungs import RUNGS, kept

pytestmark = pytest.mark.usefixtures("needs_triton", "kept_here")


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setattr(compile_module, "compiler_is_installed", lambda: False)


def of_a_reader(rung, folder):
    """Our kernel with a constant renamed, so that no listing of it is stored."""
    return my_rope_of(RUNGS[rung].source.replace("HALF", "OF_A_READER"), folder)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("rung", slow_but((5, 6, 7), 7))
def test_listings_are_what_the_compiler_makes(rung, monkeypatch, tmp_path):
    """Those of the rungs, whose kernels are ours; also where the kernel is moved in its file."""
    monkeypatch.setenv(listings.KEEP, str(tmp_path))
    assert len(listings.stored()) > 30
    text = f"# a line above\n\n{RUNGS[rung].source}"
    for my_rope in (RUNGS[rung].module.my_rope, my_rope_of(text, tmp_path)):
        (launch,) = rehearsed(my_rope, headline, "meta").launches
        launch.compiled()
    (kept,) = tmp_path.glob("*.json")
    made = json.loads(kept.read_text(encoding="utf-8"))
    stages = listings.stored()[kept.stem]["fields"]["stages"]
    assert opcodes_of(made["fields"]["stages"]["sass"]) == opcodes_of(stages["sass"])


def opcodes_of(sass):
    return re.findall(INSTRUCTION, sass)


def test_a_listing_names_no_folder():
    for listing in listings.stored().values():
        for stage, text in listing["fields"]["stages"].items():
            assert "site-packages" not in text and "/program.py" not in text, stage


@pytest.mark.parametrize("rung", slow_but((5, 6, 7), 7))
def test_our_kernels_are_read_without_a_compiler(rung, no_compiler):
    verdict = check_rung(rung, RUNGS[rung].module.my_rope)
    assert verdict.state == RIGHT and "not read here" not in repr(verdict)


@pytest.mark.parametrize("rung", slow_but((1, 2), 2))
def test_a_rung_without_machine_code_is_right_or_not(rung, no_compiler, tmp_path):
    assert check_rung(rung, of_a_reader(rung, tmp_path)).state == RIGHT


UNREAD = {3: "1 of 4", 5: "2 of 5", 6: "3 of 7", 7: "4 of 8"}


@pytest.mark.parametrize("rung", slow_but(UNREAD, 7))
def test_a_readers_own_is_right_as_far_as_it_is_read(rung, no_compiler, tmp_path, monkeypatch):
    unread = UNREAD[rung]
    monkeypatch.delenv(QUIET)  # or nothing would be kept
    verdict = check_rung(rung, of_a_reader(rung, tmp_path))
    assert verdict.state == AS_INTERPRETED and not verdict
    first, *rest = repr(verdict).splitlines()
    assert first.startswith(f"RIGHT IN THE INTERPRETER, but {unread} instruments read machine code")
    assert sum(line.endswith("not read here") for line in rest) == int(unread[0])
    assert "ahead" not in repr(verdict)
    assert kept.climbed() == [rung]
    assert "<b>RIGHT IN THE INTERPRETER</b>, but" in verdict._repr_html_()


def test_what_the_interpreter_counts_is_asked_for(no_compiler, tmp_path):
    """Rung 5 loads after its sines, which rung 6 doesn't."""
    verdict = check_rung(6, of_a_reader(5, tmp_path))
    assert verdict.state == NOT_YET and "rung 6 requires loads after a sine" in verdict.reason


def test_another_kernel_is_not_known(no_compiler, tmp_path):
    import torch

    from rope_lab.compiler.compile import compile_for

    kernel = of_a_reader(1, tmp_path).__globals__["my_rope_kernel"]
    with pytest.raises(NoCompiler, match=r"no compiler on this system, .* of my_rope_kernel"):
        compile_for("sm_90", kernel, torch.empty(8), 1, D=8)
