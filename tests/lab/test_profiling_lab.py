"""The machine's model of notebook 08, and what notebook 12 puts into a model."""

import pytest

from rope_lab.n12.models import WAYS, new_qwen3
from rope_lab.profiling.roofline import Machine, headline, headline_in_words, straight_line

# the machine

MACHINE = Machine(start_us=3.0, bytes_a_us=4e6, instructions_a_us=32e6)


def test_the_slower_of_bytes_and_instructions_decides():
    assert MACHINE.time_us(0) == 3
    assert MACHINE.time_us(4e8) == MACHINE.time_us(4e8, 32e8) == 103
    assert MACHINE.time_us(4e8, 64e8) == MACHINE.time_us(1, 64e8) == 203


def test_a_kernel_of_the_headline_in_words():
    """2**26 elements, and a table of 2048 rows of 256 angles."""
    assert headline(3, "bf16") == (4 * 2**26 + 2**21, 3 * 2**26)
    assert headline(0, "fp32") == (8 * 2**26 + 2**21, 0)
    said = "its bytes take 68 us, its instructions 21 us, so it is memory-bound: 71 us"
    assert headline_in_words(MACHINE, 10, "bf16") == f"10 instructions per element in bf16: {said}"
    assert "168 us, so it is compute-bound: 171 us" in headline_in_words(MACHINE, 80, "fp32")


def test_a_start_and_a_slope_are_found_again_by_small_sizes_as_much_as_by_large_ones():
    """A per cent of noise on the largest time must not move the start by microseconds."""
    sizes = [2.0**e for e in range(14, 32, 2)]
    times = [2.5 + size / 4e6 for size in sizes]
    start, slope = straight_line(sizes, times)
    assert start == pytest.approx(2.5) and 1 / slope == pytest.approx(4e6)
    times[-1] *= 1.03
    assert straight_line(sizes, times)[0] == pytest.approx(2.5, rel=0.05)


@pytest.mark.parametrize("way", WAYS)
def test_a_way_puts_in_what_it_says_for_a_while(way):
    """Otherwise all would have the same bits, and notebook 12 would prove little."""
    from transformers.models.qwen3 import modeling_qwen3

    model = new_qwen3("cpu")

    def what_runs():
        return modeling_qwen3.apply_rotary_pos_emb, model.model.layers[1].self_attn.forward

    before = what_runs()
    with WAYS[way](model):
        changed = [x != y for x, y in zip(what_runs(), before, strict=True)]
    assert changed == [way == "patched", way == "with norms"]
    assert what_runs() == before
