"""`benchmarks models` needs a GPU; what it is made of can be tried without one."""

from contextlib import contextmanager

from rope_lab.profiling.steps import step_us


def test_each_way_is_entered_in_turns():
    entered, seen = [], []

    @contextmanager
    def way(name):
        entered.append(name)
        yield
        entered.append(f"after {name}")

    ways = {name: lambda name=name: way(name) for name in ("unpatched", "patched")}
    times = step_us(ways, lambda: seen.append(entered[-1]), turns=3)
    assert entered == ["unpatched", "after unpatched", "patched", "after patched"] * 4
    assert set(seen) == {*ways} and all(len(ms) == 3 and min(ms) >= 0 for ms in times.values())
