"""The sets of shapes are those that they say they are, and the bars those that were asked for."""

from collections import Counter
from itertools import pairwise

import pytest

from benchmarks.bars import BARS, HEADS
from benchmarks.case import CLOCKS, Case, Group
from benchmarks.kinds import KINDS, Kind
from benchmarks.shapes import SETS
from benchmarks.workload import Workload, _cu_seqlens

GROUPS = [
    pytest.param(group, kind, id=group.title)
    for kind in KINDS
    for groups in kind.sets.values()
    for group in groups
]


def barred(direction="forward"):
    """label -> share or ratio asked."""
    return {
        case.label: group.bar(direction).at_least or group.bar(direction).at_most
        for group in BARS
        for case in group.cases
        if group.bar(direction)
    }


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_bars_are_those_asked_for(direction):
    found = barred(direction)
    asked = {f"sbhd (2048, 16, 8, 256) {dtype}": 0.98 for dtype in ("bf16", "fp16", "fp32")}
    for s, b, h, d in ((4096, 2, 32, 128), (8192, 1, 64, 128), (2048, 8, 32, 64)):
        asked[f"sbhd ({s}, {b}, {h}, {d}) bf16"] = 0.97
        asked[f"bshd ({b}, {s}, {h}, {d}) bf16"] = 0.97
        asked[f"bhsd ({b}, {h}, {s}, {d}) bf16"] = 0.97
    asked["sbhd (131072, 1, 8, 128) bf16, on the fly"] = 0.98
    asked["sbhd (1048576, 1, 2, 128) fp32, on the fly"] = 0.98
    for shape in ("bshd (2, 4096, 32/8, 128)", "bhsd (2, 32/8, 4096, 128)"):
        asked[f"{shape} bf16, q + k"] = asked[f"{shape} bf16, q + k, in place"] = 0.97
    asked["sbhd (4096, 2, 32, 128) bf16, d2 64"] = 0.97
    asked["sbhd (4096, 2, 32, 128) bf16, d2 64, in place"] = 1.0
    for count in (1, 50, 500, 2401, 8192):
        asked[f"thd (65536, 32, 128) bf16, {count} sequence{'s' * (count > 1)}"] = 0.95
    for option in ("stored bshd", "interleaved"):
        asked[f"sbhd (4096, 2, 32, 128) bf16, {option}"] = 0.95
    for option in ("position ids", "start positions"):
        asked[f"bshd (2, 4096, 32, 128) bf16, {option}"] = 0.95
    if direction == "forward":
        decoding = "bshd (64, 1, 32/8, 128) bf16, q + k, start positions, in place, CUDA graph"
        asked[decoding] = 1.2
        asked["sbhd (64, 1, 16, 64) bf16, host time"] = 2.0
    assert found == asked


def test_host_time_has_a_bar_with_a_gradient_and_for_both():
    tiny = "sbhd (64, 1, 16, 64) bf16, host time"
    assert barred("forward, grad") == {tiny: 3.0} and barred("both") == {tiny: 1.6}


def test_packed_sequences_are_asked_to_be_even():
    (packed,) = [group for group in BARS if group.title == "packed sequences"]
    assert packed.bar("forward").even == packed.bar("backward").even == 0.05
    assert [case.sequences for case in packed.cases] == [1, 50, 500, 2401, 8192]


def test_every_head_dimension_has_the_bar_asked_for_in_every_layout():
    asked = {72: 0.87, 80: 0.90, 88: 0.92, 112: 0.94, 120: 0.95, 100: 0.78}
    asked |= dict.fromkeys((64, 96, 160, 192), 0.95)
    found = {}
    for group in HEADS:
        if group.title.startswith("head dimension"):
            for case in group.cases:
                ways = found.setdefault(case.d, set())
                ways.add((case.tensor_format, case.inplace, case.freqs))
                assert group.bar("forward").at_least == asked[case.d]
    layouts = [
        (layout, inplace) for layout in ("sbhd", "bshd", "bhsd") for inplace in (True, False)
    ]
    ways = {(*w, f) for w in (*layouts, ("thd", False)) for f in ("angles per pair", "module")}
    assert found == dict.fromkeys(asked, ways)


@pytest.mark.parametrize("name", SETS)
def test_labels_tell_cases_of_a_set_apart(name):
    labels = Counter(case.label for group in SETS[name] for case in group.cases)
    assert [label for label, count in labels.items() if count > 1] == []


@pytest.mark.parametrize(("group", "kind"), GROUPS)
def test_groups_name_providers_clocks_and_directions_that_exist(group: Group, kind: Kind):
    assert {*group.beside, *kind.ours} <= set(kind.providers)
    for case in group.cases:
        assert case.clock in CLOCKS
        assert case.freqs in ("angles", "angles per pair", "module", "cos and sin")
        assert case.positions in ("index", "ids", "starts")
        assert "backward" not in group.directions or case.clock == "device"
    assert set(dict(group.bars)) <= set(group.directions)


def sizes(name):
    return [(c.s, c.b, c.h, c.k_heads, c.d) for group in SETS[name] for c in group.cases]


def test_the_study_plots_64_to_16384():
    assert sizes("seeds") == [(2**n, 16, 8, 0, 256) for n in range(6, 15)]


def test_sets_of_others_have_their_sizes():
    by_length = [(2**n, 1, 32, 8, 256) for n in range(10, 15)]
    assert sizes("liger") == sizes("tritonbench")
    assert sizes("liger") == [*by_length, (2048, 1, 32, 8, 16), (2048, 1, 32, 8, 64)]
    assert {(s, b, h) for s, b, h, *_ in sizes("te")} == {
        (2048, 2, 64),
        (4096, 2, 64),
        (2048, 1, 64),
    }
    assert len(sizes("te")) == 3 * 2 * 2 * 2 * 2 + 3 * 2 * 2
    assert sizes("flashinfer") == [(2**n, 2, 32, 8, 128) for n in range(1, 17)]


@pytest.mark.parametrize("count", [1, 2, 50, 500, 2401, 8192])
def test_packed_sequences_are_as_many_as_said_and_none_is_empty(count):
    case = Case(65536, 1, 32, 128, tensor_format="thd", sequences=count)
    cuts = _cu_seqlens(case)
    assert len(cuts) == count + 1 and (cuts[0], cuts[-1]) == (0, 65536)
    assert all(start < end for start, end in pairwise(cuts))


def test_positions_restart_where_they_should():
    packed = Workload(Case(9, 1, 1, 2, tensor_format="thd", cu_seqlens=(0, 4, 9)), "cpu")
    assert packed.positions.tolist() == [[0, 1, 2, 3, 0, 1, 2, 3, 4]]
    ids = Workload(Case(40, 3, 1, 2, tensor_format="bshd", positions="ids"), "cpu")
    assert ids.positions.shape == (3, 40) and (ids.positions == 0).sum() > 3
    step = ids.positions.diff(dim=1)
    assert ((step == 1) | (ids.positions[:, 1:] == 0)).all()
    starts = Workload(Case(5, 3, 1, 2, tensor_format="bshd", positions="starts"), "cpu")
    assert (starts.positions.max() < starts.table_rows) and starts.positions[
        :, 0
    ].unique().numel() == 3
