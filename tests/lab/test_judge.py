"""`lab.check_exercise`: right candidates pass, wrong ones are told what they look like."""

import functools
import html
import importlib
import os
import pkgutil
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import rope_lab as lab
import wrong_kernels
from rope_kernels import apply_rotary_pos_emb, rope_bw, rope_qk
from rope_lab.grading import diagnose, exercises, judge_process
from rope_lab.grading import judge as judge_module
from rope_lab.grading.diagnose.evidence import Evidence
from rope_lab.grading.diagnose.table import IN_ORDER
from rope_lab.grading.spec import STRIDED, Case, Spec, spec

judge = judge_module.check_exercise
ROOT = Path(__file__).resolve().parents[2]


def numbered(number):
    return functools.partial(wrong_kernels.launch, mistake=number)


WRONG = {
    "it rotates backwards": (numbered(1), "a sign: it rotates by minus the angle"),
    "a sign in the second half": (numbered(2), "a sign: that of the sine in the second half"),
    "every sign": (numbered(14), "a sign: every element has the opposite sign"),
    "halves swapped": (numbered(3), "halves swapped"),
    "no tail": (numbered(4), "the tail is forgotten"),
    "zeros for a tail": (numbered(16), "the tail is wrong"),
    "no mask": (numbered(5), "out of bounds: program"),
    "rows counted for positions": (numbered(6), "out of bounds: program 8 reads element"),
    "heads counted for positions": (
        numbered(13),
        "the wrong position: the angle is that of the head",
    ),
    "one position for all": (numbered(15), "the wrong position: the angle is that of 0"),
    "a forgotten stride": (numbered(7), "several sequences"),
    "contiguous, it hopes": (numbered(8), "a wrong stride"),
    "one half's angles": (numbered(9), "the second half takes the first half's angle"),
    "swapped sines": (numbered(10), "the wrong sine"),
    "the other pairing": (numbered(11), "the wrong pairing"),
    "coarse cosines": (numbered(12), "rounding"),
    "rows left out": (wrong_kernels.last_rows_left_out, "unwritten: no program stores the last"),
    "over its input": (wrong_kernels.overwrites_its_input, "an input is overwritten: t"),
    "another dtype": (wrong_kernels.in_another_dtype, "dtype float32, expected float16"),
    "another shape": (wrong_kernels.in_another_shape, "shape (4, 1, 16), expected (4, 1, 2, 8)"),
    "an error": (wrong_kernels.raises, "it raises RuntimeError: The size of tensor a (4)"),
    "the end of the process": (wrong_kernels.ends_the_process, "it ended the process (exit 3)"),
}


@pytest.mark.parametrize("candidate, kind", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_kernel_is_told_what_it_looks_like(candidate, kind):
    verdict = judge(candidate, exercises.rope)
    assert not verdict and verdict.state == "wrong"
    assert kind in repr(verdict), verdict


def test_right_ones_pass():
    for candidate in (wrong_kernels.right, apply_rotary_pos_emb):
        verdict = judge(candidate, exercises.rope)
        assert verdict and len(verdict.right_cases) == 12, verdict


def test_the_verdict_says_where_and_who():
    verdict = judge(numbered(2), exercises.rope)
    assert verdict.case == "small and plain" and verdict.shape == (4, 1, 2, 8)
    assert verdict.first_wrong_index == (0, 0, 0, 4) and verdict.owner == "program 0"
    assert verdict.wrong == 4 * 2 * 4 and verdict.dtype == "float32"
    assert verdict.largest_error > abs(verdict.got - verdict.expected) > 0
    assert len(verdict.wrong_cases) == 11 and not verdict.right_cases
    assert repr(verdict).startswith("WRONG in the case 'small and plain'; every case fails\n")


def test_the_owner_is_not_always_the_first():
    verdict = judge(numbered(13), exercises.rope)
    assert verdict.first_wrong_index[:3] == (0, 0, 1) and verdict.owner == "program 1"


def test_the_check_is_the_same_function():
    assert lab.check_exercise(wrong_kernels.right, exercises.rope)
    assert "WRONG" in repr(lab.check_exercise(numbered(1), exercises.rope))


GRADIENT = {
    "a constant": (wrong_kernels.of_a_constant, "the gradient is ignored"),
    "the forward": (wrong_kernels.forward_for_backward, "a sign"),
    "minus the angle": (wrong_kernels.minus_the_angle, "the wrong sine"),
}


@pytest.mark.parametrize("candidate, kind", GRADIENT.values(), ids=GRADIENT.keys())
def test_wrong_gradients(candidate, kind):
    verdict = judge(candidate, exercises.rope_gradient)
    assert not verdict and kind in verdict.reason, verdict


def test_the_true_gradient_passes():
    verdict = judge(rope_bw, exercises.rope_gradient)
    assert verdict and "one gradient for all" in verdict.right_cases


rope_in_place = spec(exercises.rope.function, overwrites=("t",), kernel=True)
IN_PLACE = {
    "a race": (wrong_kernels.racing, "a race between programs: program 1 reads element"),
    "nothing overwritten": (wrong_kernels.copies_in_place, "unwritten"),
    "memory between": (wrong_kernels.writes_between, "it writes beside t"),
}


@pytest.mark.parametrize("candidate, kind", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_wrong_in_place(candidate, kind):
    verdict = judge(candidate, rope_in_place)
    assert not verdict and kind in verdict.reason, verdict


def test_right_in_place():
    assert judge(wrong_kernels.right_in_place, rope_in_place)


def test_several_results():
    assert judge(rope_qk, exercises.rope_of_q_and_k)
    verdict = judge(of_q_only, exercises.rope_of_q_and_k)
    assert not verdict and verdict.result == "result 1"


def of_q_only(q, k, freqs):
    return wrong_kernels.launch(q, freqs), k.clone()


def positions(t, freqs, position_ids):
    return apply_rotary_pos_emb(t, freqs, position_ids=position_ids)


def test_positions():
    assert judge(positions, exercises.rope_at_positions)


@pytest.mark.parametrize("stub", (wrong_kernels.stub, wrong_kernels.stub_that_passes))
def test_a_stub_is_told_how_to_begin(stub):
    verdict = judge(stub, exercises.rope)
    assert not verdict and verdict.state == "not yet"
    assert repr(verdict).startswith("NOT YET: replace")


def test_a_stub_may_have_words_of_its_own():
    assert (
        repr(judge(wrong_kernels.stub_with_words, exercises.rope))
        == "NOT YET: begin with the masks"
    )


def test_what_never_ends_is_ended(monkeypatch):
    judge(wrong_kernels.stub, exercises.rope)  # the child is there
    monkeypatch.setattr(judge_module, "SECONDS", 1.0)
    verdict = judge(wrong_kernels.never_ends, exercises.rope)
    assert "'small and plain' ran for 1 seconds without coming to an end" in verdict.reason


def test_each_case_has_the_time_for_itself(monkeypatch):
    judge(wrong_kernels.stub, exercises.rotate_half)
    monkeypatch.setattr(judge_module, "SECONDS", 1.0)
    begin = time.monotonic()
    assert judge(wrong_kernels.takes_its_time, exercises.rotate_half)
    assert time.monotonic() - begin > 2


def test_a_reader_hears_of_a_long_run(monkeypatch, capfd):
    monkeypatch.delenv(judge_module.QUIET)
    monkeypatch.setattr(judge_module, "SECONDS", 3.0)
    monkeypatch.setattr(judge_module, "PATIENCE", 0.5)
    monkeypatch.setattr(judge_module._Child, "_children", {})
    judge(wrong_kernels.never_ends, exercises.rope)
    said = capfd.readouterr().out.splitlines()
    assert said[0].startswith("Starting the process that checks")
    assert said[1].startswith("Still running after 0 s. An endless loop?") and len(said) == 2


def test_right_results_without_a_kernel_are_not_enough():
    verdict = judge(
        wrong_kernels.three_times_in_pytorch, spec(kernel=True, leave_out=STRIDED)(three_times)
    )
    assert verdict.reason == judge_process.NO_KERNEL and not verdict


def test_what_atomics_store_is_the_kernels_own():
    assert judge(wrong_kernels.three_times_by_atomics, spec(leave_out=STRIDED)(three_times))


def test_what_a_candidate_prints_is_shown_once(capsys):
    verdict = judge(wrong_kernels.prints, exercises.rotate_half)
    assert verdict
    said = capsys.readouterr().out
    assert said == "Printed in the case 'small and plain':\nthe shape is torch.Size([4, 1, 2, 8])\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="candidates are compiled here")
def test_candidates_are_interpreted_fast(capsys):
    assert judge(wrong_kernels.prints_how_it_is_interpreted, exercises.rotate_half)
    assert "checks overflow: False" in capsys.readouterr().out


def test_the_next_candidate_gets_a_new_process():
    judge(wrong_kernels.ends_the_process, exercises.rope)
    assert judge(wrong_kernels.right, exercises.rope)


# specifications


def test_a_plain_function_with_shapes_will_do():
    def doubled(x: "(n,)"):  # noqa: F821
        return 2 * x

    assert isinstance(spec(doubled), Spec)
    assert [case.name for case in spec(doubled).cases] == [
        *("small and plain", "sizes that no block divides", "more elements than a block"),
        *("half precision", "a slice of wider rows", "every other element"),
    ]


def test_an_argument_without_a_shape_is_an_error():
    with pytest.raises(ValueError, match="nothing: x has no shape"):

        @spec
        def nothing(x):
            return x


def test_one_tensor_alone_may_be_strided():
    sizes = {"s": 3, "b": 1, "h": 2, "g": 2, "d": 8}
    case = Case("apart", sizes, layout="only q is a slice of wider rows")
    q, k = exercises.rope_of_q_and_k.inputs(case)[:2]
    assert not q.is_contiguous() and k.is_contiguous()


def test_cases_can_be_left_out():
    assert not set(STRIDED) & {case.name for case in exercises.rope_by_first_half.cases}


SPECS = [thing for thing in vars(exercises).values() if isinstance(thing, Spec)]


@pytest.mark.parametrize(
    "known", [x for x in SPECS if x.mistakes], ids=lambda known: known.__name__
)
def test_a_known_mistake_can_be_made_in_every_case(known):
    """Or a wrong answer that fails in that case alone would end the judge with our own error.

    And it is one: in some case its results are not the right ones.
    """
    for name, wrong in known.mistakes.items():
        made = [(wrong(*known.inputs(x)), known.function(*known.inputs(x))) for x in known.cases]
        assert not all(map(same, *zip(*made, strict=True))), name


def same(got, want):
    if isinstance(want, tuple):
        return len(got) == len(want) and all(map(same, got, want))
    return got.shape == want.shape and torch.equal(got, want)


@pytest.mark.parametrize("case", exercises.rope.cases, ids=lambda case: case.name)
def test_inputs_are_the_same_every_time(case):
    for x, again in zip(exercises.rope.inputs(case), exercises.rope.inputs(case), strict=True):
        assert torch.equal(x, again) and x.stride() == again.stride()


def test_three_sections_turn_by_their_own_positions():
    """Against `rope_at_positions`: with the same positions in all sections they agree."""
    case = exercises.rope_in_three_sections.cases[2]
    t, freqs, ids = exercises.rope_in_three_sections.inputs(case)
    alike = exercises.rope_in_three_sections(t, freqs, ids[:1].expand(3, -1, -1))
    assert torch.allclose(alike, exercises.rope_at_positions(t, freqs, ids[0]))
    half = freqs.shape[-1] // 2
    ends = (0, half // 4, half // 4 + 3 * half // 8, half)
    apart = exercises.rope_in_three_sections(t, freqs, ids)
    for section, (begin, end) in enumerate(pairwise(ends)):
        want = exercises.rope_at_positions(t, freqs, ids[section])
        for offset in (0, half):
            columns = slice(begin + offset, end + offset)
            assert torch.allclose(apart[..., columns], want[..., columns])


# functions of PyTorch alone, numbers, cases of a specification's own


def frequencies(d, base):
    return float(base) ** (-torch.arange(0, d, 2) / d)


def frequencies_of_one_base(d, base):
    return frequencies(d, 10_000)


def test_arguments_may_be_whole_numbers():
    inputs = [exercises.frequencies.inputs(case) for case in exercises.frequencies.cases]
    assert inputs == [[8, 10_000], [24, 500], [200, 500_000]]
    assert judge(frequencies, exercises.frequencies)
    verdict = judge(frequencies_of_one_base, exercises.frequencies)
    assert verdict.right_cases == ("small and plain",) and verdict.case == "other sizes"
    assert verdict.reason == "base is ignored: another one gives the same result"


def turned_but_in_long_rows(x, angle):
    return exercises.turned_pairs.function(x, -angle if x.shape[-1] == 200 else angle)


def test_a_specification_may_have_cases_of_its_own():
    verdict = judge(turned_but_in_long_rows, exercises.turned_pairs)
    assert verdict.case == "long rows" and verdict.right_cases == ("small and plain", "other sizes")
    assert verdict.reason == "a sign: it rotates by minus the angle"


def minus_the_half_turn(x):
    return -exercises.rotate_half.function(x) + (torch.arange(x.shape[-1]) == 3)


def of_new_memory(x):
    return torch.empty(x.shape, dtype=x.dtype)


def test_without_a_kernel_no_program_is_blamed():
    verdict = judge(minus_the_half_turn, exercises.rotate_half)
    assert not verdict and verdict.owner == "" and "unwritten" not in verdict.reason
    assert "unwritten" in judge(of_new_memory, exercises.rotate_half).reason


def test_launches_are_counted():
    """Where there are none, the verdict of the CPU stands on a GPU as well."""
    assert judge(exercises.rope.function, exercises.rope).launches == 0
    assert judge(wrong_kernels.right, exercises.rope).launches == 12


def three_times(x: "(n)"):  # noqa: F821
    return 3 * x


TWICE = {  # how it is stored twice -> what is told if the two values differ
    "by two programs": "programs 0 and 1 store element 0 of out_ptr, -6.31 and then -3.16: which",
    "by one program": "program 0 stores element 0 of out_ptr twice, -6.31 and then -3.16: which",
    "by one store": "program 0 stores two values in element 0 of out_ptr, -6.31 and then -3.16",
}


@pytest.mark.parametrize("how", TWICE)
def test_a_result_that_needs_an_order_of_stores_is_wrong(how):
    """The result is right here, where programs, stores and lanes come in order."""
    candidate = functools.partial(wrong_kernels.stored_twice, how=how, first=2.0)
    verdict = judge(candidate, spec(leave_out=STRIDED)(three_times))
    assert not verdict and f"write collision: {TWICE[how]}" in repr(verdict), verdict


@pytest.mark.parametrize("how", TWICE)
def test_the_same_value_stored_twice_is_right_and_said(how):
    candidate = functools.partial(wrong_kernels.stored_twice, how=how)
    verdict = judge(candidate, spec(leave_out=STRIDED)(three_times))
    said = "it stores 64 elements of out_ptr twice, the same value each time"
    assert verdict and verdict.remark == f"{said} (in the case 'small and plain')"
    assert repr(verdict).startswith(f"RIGHT, but {verdict.remark}\n  4 cases: small and plain, ")


def nan_for_all(x: "(n)"):  # noqa: F821
    return x * float("nan")


@pytest.mark.parametrize("how", TWICE)
def test_nan_twice_is_the_same_value(how):
    candidate = functools.partial(wrong_kernels.stored_twice, how=how, first=float("nan"))
    assert "nan and then" in repr(judge(candidate, spec(leave_out=STRIDED)(three_times)))
    twice_nan = functools.partial(wrong_kernels.nan_stored_twice, how=how)
    assert judge(twice_nan, spec(leave_out=STRIDED)(nan_for_all)).remark


def test_bf16_stored_twice_is_shown_as_numbers():
    case = Case("in bf16", {"s": 1, "d": 2, "n": 8}, torch.bfloat16)
    others = tuple(case.name for case in spec(three_times).cases)
    wanted = spec(leave_out=others, extra=(case,))(three_times)
    candidate = functools.partial(wrong_kernels.stored_twice, how="by one program", first=2.0)
    said = "program 0 stores element 0 of out_ptr twice, -2.11 and then -1.05: which"
    assert said in repr(judge(candidate, wanted))


def test_functions_of_pytorch_are_judged_where_there_is_no_triton(tmp_path):
    from test_import import WITHOUT_TRITON, run_python

    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TRITON)  # for the child, too
    (tmp_path / "answers.py").write_text(
        "import torch\n\n"
        "def right(x):\n    a, b = x.chunk(2, -1)\n    return torch.cat((-b, a), -1)\n\n"
        "def wrong(d, base):\n    return base / 0\n"
    )
    said = run_python(
        """
        import answers
        import rope_lab as lab
        assert lab.ENGINE.kind == "PyTorch alone"
        print(lab.check_exercise(answers.right, lab.exercises.rotate_half))
        print(lab.check_exercise(answers.wrong, lab.exercises.frequencies))
        """,
        PYTHONPATH=os.pathsep.join((str(tmp_path), str(ROOT))),
    )
    assert said.startswith("RIGHT: ") and "it raises ZeroDivisionError" in said


@pytest.mark.parametrize(
    "candidate, state, color",
    (
        (wrong_kernels.right, "right", "#009e73"),
        (numbered(1), "wrong", "#d55e00"),
        (wrong_kernels.stub, "not-yet", "#e69f00"),
    ),
)
def test_a_verdict_has_its_color_on_a_page(candidate, state, color):
    verdict = judge(candidate, exercises.rope)
    page, outcome = verdict._repr_html_(), state.upper().replace("-", " ")
    assert f"lab-{state}" in page and color in page and page.startswith("<pre")
    assert f">{repr(verdict).replace(outcome, f'<b>{outcome}</b>', 1)}</pre>" in html.unescape(page)


@spec(leave_out=STRIDED)
def twice(x: "(n,)"):  # noqa: F821
    return 2 * x


def doubled(how):
    return functools.partial(wrong_kernels.doubled, how=how)


DOUBLED = {
    "a mask for the block": (doubled("one mask for all"), "out of bounds: program 0 reads element"),
    "and": (doubled("and"), "a block has no one truth value"),
    "masked off": (doubled("what a masked load gives"), "got nan"),
    "no return": (wrong_kernels.without_return, "it returns None: is a `return` missing?"),
    "nothing at all": (wrong_kernels.without_a_kernel_or_return, "it returns None"),
    "no program": (wrong_kernels.empty_grid, "no program ran: the grid is empty"),
    "no tuple": (wrong_kernels.whole_number_for_a_grid, "a grid is a tuple, as in (n,)"),
}


@pytest.mark.parametrize("candidate, kind", DOUBLED.values(), ids=DOUBLED.keys())
def test_slips_of_beginners(candidate, kind):
    verdict = judge(candidate, twice)
    assert verdict.state == "wrong" and kind in repr(verdict), verdict


def test_a_mask_may_be_one_for_all():
    assert judge(doubled("right"), twice) and judge(wrong_kernels.by_whole_blocks, twice)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_numbers_are_indices_whatever_triton_and_numpy(monkeypatch):
    """As in Triton 3.6 with NumPy 2.4, where `range(0, n)` fails in an interpreted kernel."""
    from triton.runtime import interpreter

    from rope_lab.grading.trace import let_numbers_be_indices
    from rope_lab.interpreter import let_masks_be_numbers

    def refuse(number):
        raise TypeError("only 0-dimensional arrays can be converted")

    def of_triton_3_6(tensor, scope, original=interpreter._patch_lang_tensor):
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", refuse)

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", of_triton_3_6)
    let_masks_be_numbers()
    x = torch.randn(5)
    with pytest.raises(Exception, match="only 0-dimensional arrays"):
        wrong_kernels.by_whole_blocks(x)
    let_numbers_be_indices()
    assert torch.equal(wrong_kernels.by_whole_blocks(x), 2 * x)


def test_a_tail_and_a_stride_at_once():
    """The likeliest slip of all: the last stride is forgotten in the tail alone."""
    verdict = judge(numbered(17), exercises.rope)
    assert verdict.case == "part of a strided head"
    assert verdict.reason.startswith("a wrong stride, in the tail")


def test_answers_may_be_tensors():
    for answer in (29, torch.tensor(29), torch.tensor([29]), torch.tensor(29.0).numpy()[()]):
        assert lab.check_answer(answer, 29)
    assert not lab.check_answer(torch.tensor([28, 29]), 29)


# slips in the table, in PyTorch: the verdict looks at numbers, wherever they come from


def the_others_cosine(t, freqs):
    d2, length = freqs.shape[-1], t.shape[0]
    x, angles = t[..., :d2], freqs[:length]
    turned = x * angles.roll(d2 // 2, -1).cos() + exercises.rotate_half.function(x) * angles.sin()
    return torch.cat((turned.to(t.dtype), t[..., d2:]), -1)


def half_a_step(t, freqs):
    d2 = freqs.shape[-1]
    begin = torch.arange(freqs.shape[0])[:, None] * (d2 // 2)
    table = freqs.flatten()[begin + torch.arange(d2)].view(freqs.shape)
    return exercises.rope.function(t, table)


def column_i_for_pair_i(t, freqs):
    half = freqs[..., : freqs.shape[-1] // 2]
    return exercises.rope_of_neighbors.function(t, half.repeat_interleave(2, -1))


@pytest.mark.parametrize(
    "candidate, asked, kind",
    (
        (the_others_cosine, exercises.rope, "the wrong cosine"),
        (half_a_step, exercises.rope, "the step of the table"),
        (column_i_for_pair_i, exercises.rope_of_neighbors, "the columns of the table"),
    ),
)
def test_slips_in_the_table(candidate, asked, kind):
    verdict = judge(candidate, asked)
    assert not verdict and verdict.reason.startswith(kind), verdict


# the table of guesses


def guesses_of(name):
    """A module's own public functions that take the evidence and return words, or None."""
    module = importlib.import_module(name)
    own = [f for f in vars(module).values() if getattr(f, "__module__", "") == name]
    kind = {"e": Evidence, "return": str | None}
    return {f for f in own if f.__annotations__ == kind and not f.__name__.startswith("_")}


def test_every_guess_is_in_the_table_once():
    """One that is not would never be made."""
    found = pkgutil.iter_modules(diagnose.__path__, f"{diagnose.__name__}.")
    guesses = set().union(*(guesses_of(module.name) for module in found))
    assert set(IN_ORDER) == guesses and len(IN_ORDER) == len(guesses) > 30
