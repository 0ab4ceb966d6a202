"""Notebook 10's last cell: the nine questions find the nine bugs; and kernels changed in a line."""

import pytest
import torch

from rope_kernels import apply_rotary_pos_emb
from rope_lab.n10 import nine_checks
from rope_lab.rungs import rung_2_tile
from rope_lab.rungs.changed import changed


def in_place(t, freqs):
    t.copy_(apply_rotary_pos_emb(t, freqs))
    return t


def angles_in_bf16(t, freqs):
    return apply_rotary_pos_emb(t, freqs.bfloat16().float())


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


@pytest.mark.parametrize("old", ("tl.store", "nowhere to be found"))
def test_what_is_changed_is_there_once(old):
    with pytest.raises(ValueError, match="not once"):
        changed(rung_2_tile.my_rope_kernel, "copy_kernel", (old, "x"))
