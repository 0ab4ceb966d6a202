"""The cases of the benchmarks: their names, their sequences, and the limits of their own."""

from itertools import pairwise

import pytest
import torch

from benchmarks.case import BENCHMARKS, FP32, Case, function_case, random_cuts
from benchmarks.inputs import Inputs, positions_of
from benchmarks.providers import Ours
from benchmarks.record import RESULTS, load, path_of

WITH_LIMITS = [case for cases in BENCHMARKS.values() for case in cases if case.function]


def test_no_two_cases_have_the_same_name_and_names_are_those_of_the_records():
    """A new case is in no record yet."""
    for name, cases in BENCHMARKS.items():
        names = {(case.label, case.direction) for case in cases}
        assert len(names) == len(cases)
        rows = load(path_of(name, "NVIDIA H200", RESULTS))["rows"]
        assert {(row["shape"], row["direction"]) for row in rows} <= names


@pytest.mark.parametrize("count", [1, 50])
def test_packed_sequences_are_as_many_as_said_and_none_is_empty(count):
    cuts = random_cuts(5000, count)
    assert len(cuts) == count + 1 and (cuts[0], cuts[-1]) == (0, 5000)
    assert all(start < end for start, end in pairwise(cuts))
    (positions,) = positions_of(Case(5000, 1, 1, 2, tensor_format="thd", cuts=cuts))
    assert positions.tolist() == [x for a, b in pairwise(cuts) for x in range(b - a)]


def test_a_norms_backward_has_one_and_a_half_copies_two_gradients_and_partial_sums():
    case = function_case("qk_norm_rope", FP32, "bshd", s=4096, b=2, direction="backward")
    rows = 8192 * 40 * 128 * 2 * 3  # rows and gradients are read, gradients are written
    others = 4096 * 2 * 512 + 2 * 2 * 256 + 132 * 12 * 128 * 4 * 2
    assert sum(case.moved.values()) == rows + others
    assert case.own_limit == pytest.approx(rows / (rows + others))
    assert all(0.8 < case.own_limit < 1 for case in WITH_LIMITS)


@pytest.mark.parametrize("case", WITH_LIMITS, ids=lambda case: f"{case.label}, {case.direction}")
def test_the_formula_of_a_limit_counts_what_a_call_is_given(case):
    """Its tables have as many positions as it needs; but a decoding step leaves most alone."""
    inputs, ours = Inputs(case, "meta"), Ours()
    freqs, options = ours.freqs(inputs), ours.options(inputs)
    decodes = case.positions == "decoded"
    if isinstance(freqs, torch.nn.Module):
        table = freqs.inv_freq.nbytes
    else:
        parts = freqs if isinstance(freqs, tuple) else (freqs,)
        table = sum(x[: case.s if decodes else None].nbytes for x in parts)
    rows = [inputs.x, inputs.v] if case.to_cache else [inputs.x]
    ids, cuts = options.get("position_ids"), options.get("cu_seqlens")
    weights = sum(x.nbytes for x in inputs.weights)
    wanted = {
        "table": table,
        "position ids": 0 if ids is None else ids.nbytes,
        "slots": inputs.slots.nbytes if case.to_cache else 0,
        "cu_seqlens": 0 if cuts is None else cuts.nbytes,
        "weights": weights,
        "gradients of weights": weights if case.is_backward else 0,
    }
    assert {name: case.moved[name] for name in wanted} == wanted
    assert case.copied == 2 * sum(x.nbytes for x in rows)
    if ids is not None:
        assert len(positions_of(case).unique()) == (case.s if decodes else case.table_len)
