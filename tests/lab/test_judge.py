"""`lab.check_exercise`: what verdicts say beyond what a notebook's wrong answers are told.

Those are judged in their notebooks: `tests/notebooks/test_answers_in_notebooks.py`.
"""

from dataclasses import replace
from importlib import import_module

import pytest
import torch

from cells import Cell, names_in
from readers_rung import rung_with
from rope_lab.judge import attempt, definitions, why
from rope_lab.judge import check_exercise as judge_module
from rope_lab.judge.climb import specifications
from rope_lab.judge.spec import STRIDED, Case, Spec, spec
from rope_lab.judge.why import changes
from rope_lab.judge.written import unlike_its_look
from rope_lab.rungs import RUNGS

judge = judge_module.check_exercise


right = RUNGS[7].module.my_rope
BY_ROWS = {"block_r, num_warps = 8, 1": "block_r, num_warps = 1, 1"}
HALVES = {"x2 * cos2 + x1 * sin2": "x2 * cos2 - x1 * sin2"}
HEADS = BY_ROWS | {
    "    angle_ptrs = freqs_ptr + position *": "    turn = tl.program_id(0) % heads\n"
    "    angle_ptrs = freqs_ptr + turn *",
}
LATER = "    angle_ptrs ="
IN_BF16 = "    if t_ptr.dtype.element_ty == tl.bfloat16:\n        "


def keeps_a_table_by_its_address(t, freqs, kept={}):  # noqa: B006 (it is to be kept)
    return right(t, kept.setdefault((freqs.data_ptr(), freqs.shape), freqs.clone()))


WRONG = {  # -> what is changed, or the candidate; the kind of its evidence; words of the verdict
    "heads counted for positions": (HEADS, "index", "`turn` is 1 for result[0, 0, 1, 0]"),
    "a forgotten stride of the tail": (
        {"t_ptrs + (column * stride_d)": "t_ptrs + column"},
        "wrong element",
        "t[0, 0, 0, 6] instead of t[0, 0, 0, 12]",
    ),
    "wrong in bf16 alone": (
        {LATER: f"{IN_BF16}x2 = -x2\n{LATER}"},
        "too narrow",
        "in bfloat16",
    ),
    "through fp16": (
        {LATER: f"{IN_BF16}x1 = x1.to(tl.float16).to(tl.float32)\n{LATER}"},
        "too narrow",
        "float16 ends at 65504",
    ),
    "16-bit offsets": (
        {"x1 = tl.load(t_ptrs": "x1 = tl.load(t_ptr + t_row.to(tl.int16)[:, None]"},
        "size",
        "in the case 'a large tensor'; 14 other cases are",
    ),
    "no table beyond position 15": (
        {"mask=pair < HALF)": "mask=(pair < HALF) & (position < 16), other=0.0)"},
        "size",
        "Smaller tensors are right",
    ),
    "a table kept by its address": (
        keeps_a_table_by_its_address,
        "kept",
        "something is kept from the call before",
    ),
    "another dtype": (
        lambda t, freqs: right(t.float(), freqs),
        "",
        "dtype float32, expected float16",
    ),
    "right for small angles alone": (
        lambda t, freqs: definitions.rope.function(t, freqs.clamp(-9, 9)),
        "factor",
        "in the case 'several sequences'",  # the first with large angles
    ),
}


@pytest.mark.parametrize("candidate, kind, told", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_kernel_gets_evidence(candidate, kind, told, tmp_path):
    if isinstance(candidate, dict):
        candidate = rung_with(7, candidate, tmp_path)
    verdict = judge(candidate, replace(definitions.rope, kernel=False))  # PyTorch copies a table
    assert not verdict and verdict.state == "wrong"
    assert verdict.evidence.kind == kind and told in repr(verdict), verdict


def test_a_cause_that_is_to_be_found_is_not_told():
    def without_a_sign(x):
        return torch.cat(x.chunk(2, dim=-1)[::-1], dim=-1)

    told, kept = (judge(without_a_sign, definitions.rotate_half, explain=x) for x in (True, False))
    assert str(told).startswith(str(kept)) and len(str(told)) > len(str(kept))


def test_a_verdict_is_given_within_its_budget(monkeypatch, tmp_path):
    """And says what it knows then."""
    monkeypatch.setattr(changes, "FOR_PROOFS", 600)
    monkeypatch.setattr(changes, "IN_ALL", 3000)
    budgets = []
    monkeypatch.setattr(why, "Budget", lambda: budgets.append(changes.Budget()) or budgets[-1])
    verdict = judge(rung_with(7, HEADS, tmp_path), definitions.rope)
    assert "freqs[1, 0, 0, 0] instead of freqs[0, 0, 0, 0]" in verdict.evidence.words, verdict
    (budget,) = budgets
    assert budget.hurries and budget.spent <= 3000


MEANS = {
    "exists & column < D": "`exists & column < D` means (exists & column) < D",
    "rows < a | b < c": "`rows < a | b < c` means rows < (a | b) < c",
    "exists & (column < D)": "",
    "(exists) & (column < D)": "",
    "(row & 7) < 3": "",
    "exists & a": "",
    "column < D": "",
}


@pytest.mark.parametrize("line, told", MEANS.items())
def test_what_a_line_means_is_told_where_it_reads_like_something_else(line, told, tmp_path):
    cell = f"def inner(exists, row, column):\n    return {line}\n\ndef outer():\n    inner()\n"
    found = unlike_its_look(names_in(cell, tmp_path)["outer"])
    assert found.removesuffix(": put each comparison in parentheses") == told


def test_a_right_kernel_passes_and_its_launches_are_counted():
    """Where there are none, the verdict of the CPU is that of a GPU as well."""
    verdict = judge(right, definitions.rope)
    assert verdict and len(verdict.cases.right) == verdict.cases.launches == 15, verdict
    assert judge(definitions.rope.function, definitions.rope).cases.launches == 0


def test_the_verdict_says_where_and_who(tmp_path):
    verdict = judge(rung_with(7, HALVES | BY_ROWS, tmp_path), definitions.rope)
    cases, compared = verdict.cases, verdict.compared
    assert cases.wrong == "small and plain" and compared.shape == (4, 1, 2, 8)
    assert compared.first_wrong_index == (0, 0, 0, 4) and cases.owner == "program 0"
    assert compared.wrong == 4 * 2 * 4 and compared.dtype == "float32"
    assert compared.largest_error > abs(compared.got - compared.expected) > 0
    assert len(cases.also_wrong) == 13 and not cases.right
    assert repr(verdict).startswith("WRONG in the case 'small and plain'; every case fails\n")
    verdict = judge(rung_with(7, HEADS, tmp_path), definitions.rope)
    assert verdict.compared.first_wrong_index[:3] == (0, 0, 1)
    assert verdict.cases.owner == "program 1"


@pytest.mark.parametrize(
    "words, said",
    (
        ((), "NOT YET: replace"),
        (("begin with the masks",), "NOT YET: begin with the masks"),
    ),
)
def test_a_stub_is_told_how_to_begin(words, said):
    def stub(t, freqs):
        raise NotImplementedError(*words)

    verdict = judge(stub, definitions.rope)
    assert not verdict and verdict.state == "not yet" and repr(verdict).startswith(said)


def not_of_five(x):
    if len(x) == 5:
        raise NotImplementedError
    return 2 * x


NO_LAUNCHERS = {  # the candidate, and words of the verdict
    "a kernel": (RUNGS[7].module.my_rope_kernel, "a kernel: give the function that launches it"),
    "a launch": (RUNGS[7].module.my_rope_kernel[(1,)], "a kernel: give the function that launches"),
    "a tensor": (torch.ones(3), "a Tensor: give it a function"),
}


@pytest.mark.parametrize("what", NO_LAUNCHERS)
def test_no_launcher_is_not_judged(what):
    candidate, told = NO_LAUNCHERS[what]
    assert repr(judge(candidate, definitions.rope)).startswith(f"NOT YET: the candidate is {told}")


def test_a_stub_for_the_probe_alone_is_a_stub():
    of_five = Case("five elements", {"s": 1, "d": 2, "n": 5})
    verdict = judge_module.try_on_cases(not_of_five, spec(twice), probe=of_five).verdict
    assert verdict.state == "not yet" and repr(verdict).startswith("NOT YET: replace"), verdict


def by_a_mask(x):
    out = torch.empty_like(x)
    positive = x > 0
    out[positive], out[~positive] = 2 * x[positive], 2 * x[~positive]
    return out


@pytest.mark.parametrize("candidate", (by_a_mask, lambda x: 2 * x if x.sum() > 0 else x + x))
def test_what_depends_on_elements_is_not_rehearsed(candidate):
    assert judge(candidate, spec(twice))


def test_right_results_without_a_kernel_are_not_enough():
    verdict = judge(three_times, spec(kernel=True, leave_out=STRIDED)(three_times))
    assert verdict.reason == attempt.NO_KERNEL and not verdict


def test_what_a_candidate_prints_is_shown_once(capsys):
    def prints(x):
        print("the shape is", x.shape)
        return definitions.rotate_half.function(x)

    assert judge(prints, definitions.rotate_half)
    said = capsys.readouterr().out
    assert said == "Printed in the case 'small and plain':\nthe shape is torch.Size([4, 1, 2, 8])\n"


# specifications


def test_a_plain_function_with_shapes_will_do():
    def doubled(x: "(n,)"):  # noqa: F821
        return 2 * x

    assert isinstance(spec(doubled), Spec)
    assert [case.name for case in spec(doubled).cases] == [
        *("small and plain", "sizes that no block divides", "more elements than a block"),
        *("half precision", "bfloat16", "a slice of wider rows", "every other element"),
        *("more than a million elements", "a large tensor"),
    ]


def test_an_argument_without_a_shape_is_an_error():
    with pytest.raises(ValueError, match="nothing: x has no shape"):

        @spec
        def nothing(x):
            return x


def test_one_tensor_alone_may_be_strided():
    sizes = {"s": 3, "b": 1, "h": 2, "g": 2, "d": 8}
    case = Case("apart", sizes, layout="only q is a slice of wider rows")
    q, k = definitions.rope_of_q_and_k.inputs(case)[:2]
    assert not q.is_contiguous() and k.is_contiguous()


FILES = [
    definitions,
    specifications,
    *(import_module(f"rope_lab.n{number:02}.exercises") for number in range(13)),
]
SPECS = {
    id(it): it for file in FILES for it in vars(file).values() if isinstance(it, Spec)
}.values()


# functions of PyTorch alone, numbers


def minus_the_half_turn(x):
    return -definitions.rotate_half.function(x) + (torch.arange(x.shape[-1]) == 3)


def of_new_memory(x):
    return torch.empty(x.shape, dtype=x.dtype)


def test_without_a_kernel_no_program_is_blamed():
    verdict = judge(minus_the_half_turn, definitions.rotate_half)
    assert not verdict and verdict.cases.owner == "" and verdict.evidence.kind == "factor"
    assert judge(of_new_memory, definitions.rotate_half).evidence.kind == "unwritten"


def three_times(x: "(n)"):  # noqa: F821
    return 3 * x


@spec(leave_out=STRIDED)
def twice(x: "(n,)"):  # noqa: F821
    return 2 * x


BY_TWO = {"tl.program_id(0)": "tl.program_id(0) // 2", "(triton.cdiv": "(2 * triton.cdiv"}
BY_ONE_STORE = {"+ tl.arange(0, BLOCK)": "// 2 + tl.arange(0, BLOCK) // 2", "(), 64)": "(), 32)"}
EITHER = "y = tl.where({which} % 2 == 0, {{first}} * x, 2 * x)"
STORED_TWICE = {  # the kernel's lines, what is changed around them, and who stores what
    "by two programs": (
        EITHER.format(which="tl.program_id(axis=0)"),
        BY_TWO,
        "programs 0 and 1 store element 0 of out_ptr",
    ),
    "by one program": (
        "tl.store(out_ptr + i, {first} * x, mask=i < n)\ny = 2 * x",
        {},
        "program 0 stores element 0 of out_ptr twice",
    ),
    "by one store": (
        EITHER.format(which="tl.arange(0, BLOCK)"),
        BY_ONE_STORE,
        "program 0 stores element 0 of out_ptr twice",
    ),
}


@pytest.mark.parametrize("how", STORED_TWICE)
def test_two_values_for_one_element_are_wrong_and_the_same_one_twice_is_said(how, tmp_path):
    """The result is right here, where programs, stores and lanes come in order."""
    lines, instead, who = STORED_TWICE[how]

    def verdict_on(first):
        return judge(Cell(lines.format(first=first), instead=instead).launcher(tmp_path), twice)

    verdict = verdict_on(4)
    told = f"write collision: {who}, -4.21 and then -2.1: which one stays"
    assert not verdict and told in repr(verdict), verdict
    assert "nan and then" in repr(verdict_on("float('nan')"))
    verdict = verdict_on(2)
    said = f"{who}, the same value each time"
    assert verdict and verdict.remark == f"{said} (in the case 'small and plain')"
    assert repr(verdict).startswith(f"RIGHT, but {verdict.remark}\n  6 cases: small and plain, ")


@pytest.mark.parametrize("known", SPECS, ids=lambda known: known.function.__name__)
def test_there_is_evidence_of_any_wrong_result(known):
    """An error in its search would leave the verdict without."""

    def made_up(*inputs):
        outs = known.function(*inputs)
        outs = [torch.rand(x.shape).to(x.dtype) for x in (outs if type(outs) is tuple else (outs,))]
        for name, out in zip(known.overwrites, outs, strict=False):
            inputs[known.names.index(name)].copy_(out)
        return None if known.overwrites else tuple(outs)

    wanted = replace(known, half_the_table=False)
    verdict = judge(made_up, wanted)
    assert verdict.state == "wrong" and verdict.evidence.words, verdict
