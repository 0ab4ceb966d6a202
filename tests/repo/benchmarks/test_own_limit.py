"""The limit that each row of the benchmark has of its own, beside rows that are counted by hand."""

import pytest

from benchmarks import own_limit
from benchmarks.own_limit import ANGLES, BF16, BF16_OF_PAIRS, FP32, ON_THE_FLY, ROWS, Row

# 32 heads of q and 8 of k, 128 elements of 2 bytes, read and written.
TOKEN = 40 * 128 * 2 * 2
TOKEN_TO_CACHE = 48 * 128 * 2 * 2  # and 8 of v
PARTIALS = 132 * 12 * 128 * 4 * 2  # each program's, written and read


def test_nine_heads_with_an_fp32_table_have_90_per_cent_of_a_copy():
    row = Row("rope_qk", FP32, "bshd", s=4096, b=2, h=9, k_heads=0)
    assert row.moved["rows"] == 8192 * 9 * 512 and row.moved["table"] == 4096 * 1024
    assert row.own_limit == 0.9
    assert Row("rope_qk", ANGLES, "bshd", s=4096, b=1, h=9, k_heads=0).own_limit == 0.9
    alone = Row("rope_qk", FP32, "bshd", s=4096, b=1, h=9, k_heads=0)
    assert alone.own_limit == pytest.approx(9 / 11)  # nobody shares the table


@pytest.mark.parametrize(
    ("row", "copied", "others"),
    (
        (Row("rope_qk", ON_THE_FLY, "bshd", s=4096, b=1), 4096 * TOKEN, 64 * 8),
        (Row("rope_qk", FP32, "bhsd", s=4096, b=2), 8192 * TOKEN, 4096 * 2 * 512),
        (Row("rope_qk", BF16, "bshd", s=4096, b=2), 8192 * TOKEN, 4096 * 2 * 256),
        (Row("rope_qk", FP32, "bshd", s=4096, b=1, backward=True), 4096 * TOKEN, 4096 * 2 * 512),
        (
            Row("rope_qk", BF16_OF_PAIRS, "bshd", s=4096, b=2, position_ids=True),
            8192 * TOKEN,
            4096 * 2 * 128 + 8192 * 8,
        ),
        # packed: the longest of seven sequences has 1900 tokens, and needs as many positions
        (Row("rope_qk", FP32), 8192 * TOKEN, 1900 * 2 * 512 + 8 * 4),
        (
            Row("rope_to_cache", FP32, s=8192, position_ids=True),
            8192 * TOKEN_TO_CACHE,
            4096 * 2 * 512 + 8192 * (8 + 8),
        ),
        (
            Row("rope_to_cache", BF16_OF_PAIRS, s=64, position_ids=True),
            64 * TOKEN_TO_CACHE,
            64 * (2 * 128 + 8 + 8),
        ),
        (Row("qk_norm_rope", ON_THE_FLY, "bshd", s=4096, b=1), 4096 * TOKEN, 512 + 2 * 256),
    ),
    ids=lambda x: x.label if isinstance(x, Row) else "",
)
def test_all_other_bytes_are_counted(row, copied, others):
    assert row.copied == copied and sum(row.moved.values()) == copied + others
    assert row.own_limit == pytest.approx(copied / (copied + others))


def test_a_norms_backward_has_one_and_a_half_copies_two_gradients_and_partial_sums():
    row = Row("qk_norm_rope", FP32, "bshd", s=4096, b=2, backward=True)
    rows = 8192 * 40 * 128 * 2 * 3  # rows and gradients are read, gradients are written
    others = 4096 * 2 * 512 + 2 * 2 * 256 + PARTIALS
    assert sum(row.moved.values()) == rows + others
    assert row.own_limit == pytest.approx(rows / (rows + others))
    assert 0.97 < row.own_limit < 0.98


def test_each_row_has_a_name_of_its_own_and_a_limit_below_a_copy():
    labels = [row.label for row in ROWS]
    assert len(set(labels)) == len(labels)
    assert all(str(row.table) in row.label for row in ROWS)
    assert all(0.8 < row.own_limit < 1 for row in ROWS)


def test_every_row_of_the_step_is_there():
    """What is measured: each function, format, direction and table, at one and two entries."""
    labels = {row.label for row in ROWS}
    for function, tensor_format, said in (
        ("qk_norm_rope", "bshd", "backward, on the fly"),
        ("qk_norm_rope", "bhsd", "backward, fp32 cos and sin (s, d)"),
        ("qk_norm_rope", "bhsd", "forward, fp32 cos and sin (s, d)"),
        ("qk_norm_rope", "bshd", "a model's rounding, forward, fp32 cos and sin (s, d)"),
        ("qk_norm_rope", "bshd", "norm after, backward, fp32 cos and sin (s, d)"),
        ("rope_qk", "bshd", "position ids, forward, on the fly"),
    ):
        for entries in own_limit.ENTRIES:
            assert f"{function}, {tensor_format}, {entries}x4096 tokens, {said}" in labels
    for tokens in (8192, 64):
        for table in own_limit.TABLES:
            assert f"rope_to_cache, {tokens} tokens, {table}" in labels
    assert "qk_norm_rope, thd, 8192 tokens, backward, fp32 cos and sin (s, d)" in labels
    assert (
        "apply_rotary_pos_emb, bshd, 2x4096 tokens, 9 heads, forward, fp32 cos and sin (s, d)"
        in labels
    )
