"""The sets of shapes are those that they say they are."""

from itertools import pairwise

import pytest

from benchmarks.case import Case, Group
from benchmarks.kind import Kind
from benchmarks.kinds import KINDS
from benchmarks.workload import Workload, _cu_seqlens

GROUPS = [
    pytest.param(group, kind, id=group.title)
    for kind in KINDS
    for groups in kind.sets.values()
    for group in groups
]


@pytest.mark.parametrize(("group", "kind"), GROUPS)
def test_groups_name_providers_clocks_and_directions_that_exist(group: Group, kind: Kind):
    assert {*group.beside, *kind.ours} <= set(kind.providers)
    for case in group.cases:
        assert case.clock in ("device", "replay", "host")
        assert case.freqs in ("angles", "module", "cos and sin")
        assert case.positions in ("index", "ids", "starts")
        assert "backward" not in group.directions or case.clock == "device"


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
