"""An exercise that asks to do without a function: the judge reads a whole file for its name."""

import runpy

import pytest

import rope_lab as lab
from rope_kernels import reference

OWN = """
import torch
from rope_kernels import rotate_half


def apply_rotary_pos_emb(t, freqs):
    head, tail = t.split((freqs.shape[-1], t.shape[-1] - freqs.shape[-1]), dim=-1)
    head, angles = head.float(), freqs[: len(t)]
    turned = head * angles.cos() + rotate_half(head) * angles.sin()
    return torch.cat((turned.to(t.dtype), tail), dim=-1)


def mine(t, freqs):
    return apply_rotary_pos_emb(t, freqs)
"""


def by_attribute(t, freqs):
    return reference.apply_rotary_pos_emb(t, freqs, round_once=True)


def by_a_helper(t, freqs):
    return by_attribute(t, freqs)


@pytest.mark.parametrize("candidate", (by_attribute, by_a_helper))
def test_a_function_to_do_without_is_found_where_it_hides(candidate):
    verdict = lab.check_exercise(candidate, lab.exercises.rope_in_pytorch)
    assert "it uses apply_rotary_pos_emb, which you are asked to do without" in repr(verdict)


def test_the_same_name_for_a_function_of_ones_own_is_no_use_of_it(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text(OWN)
    mine = runpy.run_path(str(path), run_name="an_answer")["mine"]
    assert lab.check_exercise(mine, lab.exercises.rope_in_pytorch)
