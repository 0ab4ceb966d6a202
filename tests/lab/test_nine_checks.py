"""Notebook 10's last cell: the nine questions find the nine bugs; and kernels fixed in a line."""

import pytest
import torch

import rope_lab as lab
from rope_kernels import apply_rotary_pos_emb, reference
from rope_lab.figures import draw_10
from rope_lab.grading import nine_checks
from rope_lab.records import recorded
from rope_lab.steps.fixed import fixed
from rope_lab.steps.journey import half_split_row, half_split_row_kernel


def answers(rope):
    return [answer for _, answer in nine_checks.nine_checks(rope).lines]


def test_the_package_passes_all_nine():
    scores = nine_checks.nine_checks(apply_rotary_pos_emb)
    assert scores and "9 of 9 right" in repr(scores)


def test_the_row_kernel_fails_what_its_comments_ask_for():
    found = answers(half_split_row)
    assert [answer.startswith("RIGHT") for answer in found] == [True] * 3 + [False, False] + [
        True, False, False, True,
    ]  # fmt: skip
    assert found[3].startswith("WRONG") and found[4].startswith("WRONG")


def test_what_cannot_rotate_is_asked_little():
    def zeros(t, freqs):
        return 0 * t

    found = answers(zeros)
    assert found[0].startswith("WRONG") and found[1].startswith("not tried")


def test_after_a_wrong_plain_case_no_other_question_is_called_wrong():
    found = answers(reference.apply_rotary_pos_emb)  # rounds at every step
    assert found[0] == "WRONG: half precision" and found[3] == "RIGHT"
    assert [answer for answer in found[1:] if answer.startswith("WRONG")] == []


def in_place(t, freqs):
    t.copy_(apply_rotary_pos_emb(t, freqs))
    return t


def if_transposed(t, freqs):
    return in_place(t, freqs) if t.shape[2] == 1 else apply_rotary_pos_emb(t, freqs)


def angles_in_bf16(t, freqs):
    return apply_rotary_pos_emb(t, freqs.bfloat16().float())


def pass_the_rest(t, freqs):
    known = len(freqs)
    return torch.cat((apply_rotary_pos_emb(t[:known], freqs), t[known:]))


def wrap_around(t, freqs):
    step = (2 * t.stride(0) + 2**31) % 2**32 - 2**31  # of position 2, in 32 bits
    third = t.as_strided(t[2:].shape, t.stride(), t.storage_offset() + step)
    return apply_rotary_pos_emb(torch.cat((t[:2], third)), freqs)


class Thrifty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, freqs):
        ctx.save_for_backward(freqs)
        with torch.no_grad():
            t.data.copy_(apply_rotary_pos_emb(t.clone(), freqs))
        return t.view_as(t)

    @staticmethod
    def backward(ctx, grad):
        return apply_rotary_pos_emb(grad, -ctx.saved_tensors[0]), None


@pytest.mark.parametrize(
    "question, bug",
    (
        (nine_checks._leaves_its_input_alone, in_place),
        (nine_checks._leaves_its_input_alone, if_transposed),
        (nine_checks._says_where_the_table_ends, pass_the_rest),
        (nine_checks._tells_far_positions_apart, angles_in_bf16),
        (nine_checks._counts_beyond_32_bits, wrap_around),
        (nine_checks._is_run_twice, Thrifty.apply),
    ),
)
def test_each_question_finds_its_bug_and_lets_the_package_pass(question, bug):
    assert question(bug).startswith("WRONG")
    assert question(apply_rotary_pos_emb).startswith("RIGHT")


def test_a_result_that_changes_is_a_race():
    def noisy(t, freqs):
        return apply_rotary_pos_emb(t, freqs) + torch.rand_like(t)

    assert nine_checks._repeats_itself(noisy) == "WRONG: a race"


def test_a_fixed_kernel_has_a_name_and_shows_its_change(capsys):
    kernel = fixed(half_split_row_kernel, ("x2 * tl.cos(angle2) +", "x2 * tl.cos(angle2) -"))
    assert kernel.fn.__name__ == "half_split_row_fixed_kernel"
    shown = capsys.readouterr().out.splitlines()
    assert [line[0] for line in shown] == ["-", "+"]  # a line, before and after
    t, freqs = torch.randn(2, 1, 1, 8).to(lab.device), torch.randn(2, 1, 1, 8).to(lab.device)
    out = torch.empty_like(t)
    kernel[(2,)](t, freqs, out, 1, HALF=4, BLOCK_HALF=4)
    assert not lab.compare(out, half_split_row(t, freqs))
    assert lab.compare(out[..., :4], half_split_row(t, freqs)[..., :4])


@pytest.mark.parametrize("old", ("tl.store", "nowhere to be found"))
def test_what_is_fixed_is_there_once(old):
    with pytest.raises(ValueError, match="not once"):
        fixed(half_split_row_kernel, (old, "x"))


def test_a_record_of_another_notebook(tmp_path):
    with pytest.raises(LookupError):
        recorded("04/nothing", tmp_path)


def test_the_drawing_draws():
    draw_10.heads_of_tokens(heads=5, block=4, tokens=2)
